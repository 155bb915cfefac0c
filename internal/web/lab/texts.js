// What the lab says, in English and Spanish.

import { lang, speak } from './shared/page.js'
import { doing } from './shared/words.js'

const texts = {
  en: {
    title: 'batuta lab', lab: 'lab', skip: 'Skip to the picture', theme: 'Dark colors', share: 'Copy a link', lecture: 'Lecture', lectureTip: 'Only the pictures, large. Page down is the next stop, → the next event; Escape ends it.', download: 'Download', open: 'Open a file', help: 'Help',
    stage: 'The cluster', circle: 'Members in a circle', transport: 'Time', first: 'To the start', back: 'One event back', play: 'Play', pause: 'Pause', forth: 'One event on', last: 'To the end',
    scrub: 'Moment', pace: 'Speed', auto: 'auto', quiet: 'Hide heartbeats', skipQuiet: 'auto: slow in an election, quick between', more: '+ 5 s', moreTip: 'Let the run go on for 5 s more',
    spacetime: 'Space and time', zoomIn: 'Closer', zoomOut: 'Wider', present: 'Follow',
    settings: 'Cluster', algorithm: 'Algorithm', members: 'Members', probe: 'Bully asks', preempt: 'Takes over on return', seed: 'Seed', newSeed: 'Another seed', on: 'yes', off: 'no',
    descending: 'highest first', all: 'all at once', timing: 'Times (ms)', heartbeat: 'Heartbeat', tMax: 't_max', tProcess: 't_process', latency: 'Latency',
    scenario: 'Scenario', scenarioTip: 'Each line is one step or setting. What you click becomes a line.', undo: 'Undo', restart: 'Fresh start', language: 'What a line may be',
    log: 'What happens', logEmpty: 'Nothing yet.', why: 'Why', whyEmpty: 'Choose an event or a message to see what led to it.', because: 'because', counts: 'Messages of this election',
    tours: 'Tours', tour: 'A guided tour', noTour: 'Free play', stop: 'Stop {n} of {of}', next: 'Next', previous: 'Back', leave: 'End tour',
    i_none: 'This file is no incident: batuta explain --lab FILE writes one.', i_title: 'Incident of {cluster}, {time}\u00a0UTC', i_start: 'Recorded by {ids} of a real cluster. {missing} The clocks of the members are compared to within {doubt} ms.', i_missing: 'No records of {id} ({why}): it is drawn as the others have recorded it.',
    i_lost: '{lost} lost leadership, epoch {epoch}: {cause}.', i_leads: '{leader} leads under epoch {epoch}. After the first detected the loss, it claimed within {claims} ms, had saved the epoch after {leads} ms, and all that follow had received it after {all} ms.', i_led: '{leader} leads under epoch {epoch}: {leads} ms after the first detected the loss, and all that follow had received it after {all} ms.', i_began: '{leader} leads under epoch {epoch}.',
    exercises: 'Exercises', exerciseNo: 'no. {seed}', p_leader: 'Leader:', p_leaderOn: 'Leader of {on}:', p_epoch: 'Epoch:', p_epochOn: 'Epoch of {on}:', p_leaders: 'How many lead:', p_messages: 'Messages:', p_nobody: 'none', p_choose: 'Choose an answer.', p_predict: 'Predict', p_skip: 'Do not predict', p_said: 'your answer: {answer}', p_again: 'Another one',
    soak: 'Soak', soakTip: 'Play a thousand random schedules and check every rule at each step.', soakRun: 'Play {n} seeds', soakFrom: 'From seed', soakStop: 'Stop', soakOpen: 'Open seed',
    soakDone: '{n} schedules, {hours} h simulated: {bad} broke a rule. Longest agreement {agreed}, {share} of its bound (seed {slowest}).', soakFailing: 'These seeds broke a rule:', close: 'Close',
    loading: 'The simulator is loading …', broken: 'The simulator could not be loaded: {why}', running: 'Playing …', fault: 'Line {line}: {what}', faultBare: '{what}', failure: 'Not as expected: {what}', ok: 'As expected, and no rule is broken.', copied: 'Link copied', tooMany: 'There is more than can be drawn.',
    actMember: 'Member {id}', actLink: 'Link {a} – {b}', at: 'at {time}', crash: 'Crash', poweroff: 'Power off', freeze: 'Freeze', thaw: 'Thaw', restartMember: 'Start again', startMember: 'Start', resign: 'Resign', campaign: 'Campaign', pauseCluster: 'Pause the cluster, 10 s', resume: 'End the pause', unhealthy: 'Fail its health check', healthy: 'Pass its health check', links: 'Its links', cutBoth: 'Cut both ways', cutOne: 'Cut {a} → {b}', heal: 'Heal', healAll: 'Heal all links', isolate: 'Cut off', partition: 'Partition',
    link: 'Link {a} – {b}: click to cut or heal', memberLabel: 'Member {id}, {state}. Press Enter for what can be done to it.',
    isDead: 'crashed', isOff: 'powered off', isAbsent: 'not started', isFrozen: 'frozen', isSilent: 'silent', isSick: 'unhealthy', isPaused: 'paused', isRemoved: 'removed', isLeader: 'leads · epoch {epoch}', isFollower: 'follows {leader}', isClaiming: 'claims epoch {epoch}', isUndefined: 'knows no leader', isVoting: 'asks: {got} of {need} votes', isAsking: 'answers: {got} of {of}', isPromised: 'promised to {peer}', leadsEpoch: 'epoch {epoch}',
    ofLeadership: 'leadership of {leader}, epoch {epoch}', ofRound: 'round {round} of {initiator}', carries: 'carries {ids}', sentAt: 'sent {time}', arrivesAt: 'arrives {time}', neverArrives: 'never arrives',
    legend: 'Messages', legend_ask: 'ELECTION, VOTE: who may lead?', legend_answer: 'ANSWER', legend_tell: 'COORDINATOR, ELECTED, APPEND: this one leads', legend_hand: 'RESIGN, HANDOVER', legend_know: 'questions and reports', legend_beat: 'heartbeats', run_leader: 'ring: T, until the leader is suspected', run_lease: 'lease: until leadership ends by itself', run_promise: 'promise: no vote until then', run_answers: 'waits for answers', run_votes: 'votes, of a majority',
    noLeader: 'no leader', oneLeader: '{leader} leads, epoch {epoch}', twoLeaders: '{n} leaders: {list}', knife: 'Drag a line across the picture to split the cluster. Click members and links.', keys: 'Space plays and pauses, ← and → step, Home and End jump.',
    x_open: 'Explore', x_title: 'Every order of events', x_tip: 'Try every order of deliveries, timers, crashes, restarts and false suspicions of a small cluster, without time, and walk from state to state.', x_run: 'Explore', x_crashes: 'Crashes', x_restarts: 'Restarts', x_suspicions: 'False suspicions', x_initiators: 'Elections called',
    x_far: '{n} states reached, {done} looked into, {depth} moves deep.', x_all: '{n} states, {depth} moves deep: all there are, and each keeps the rules.', x_cut: '{n} states, {depth} moves deep, {done} looked into: a page keeps no more; “batuta sim explore” does. None breaks a rule.', x_bad: '{n} states reached: a rule is broken.', x_goto: 'Show where',
    x_state: 'State {no}, distance {depth}', x_rests: 'all is idle', x_broken: 'This breaks a rule: {what}', x_ways: 'What may happen', x_to: 'to state {no}', x_back: 'back to state {no}', x_left: 'left out: there are too many states', x_end: 'Nothing more can happen.', x_path: 'How it came to this, and all states by their distance', x_first: 'the first state', x_layer: '{n} states {depth} moves away', x_script: 'Open this way as a scenario',
    x_waits: 'waits: {timers}', x_deliver: '{kind} arrives, {a} → {b}', x_goodbye: '{b} sees that {a} has closed the connection', x_hangup: 'end of the connection', x_fire: 'At {a} the timer {b} runs out', x_crash: '{a} crashes', x_restart: '{a} starts again', x_campaign: '{a} is asked to call an election', x_suspect: '{a} counts {b} as down', x_trust: '{a} finds {b} up again', x_beat: '{a} sends {b} a heartbeat',
    sp_open: 'Super peers', sp_title: 'Super peers: tokens that move apart', sp_tip: 'Some nodes serve all others. Each of them holds a token, and passes it on until the tokens lie where latency is low.', sp_method: 'Method', sp_space: 'Space', sp_nodes: 'Nodes', sp_share: 'Super peers, %', sp_capacity: 'Limit, 0: none', sp_churn: 'Come and go', sp_run: 'Begin', sp_back: 'One round back', sp_forth: 'One round on', sp_round: 'Round',
    sp_figures: 'Round {n}: {live} super peers of {wanted} wanted, mean latency {mean} ms, {moves} tokens moved, the largest load is {load}, {unserved} are not served.', sp_token: 'token {token}, serves {load}', sp_legend: 'A disc is a super peer, as large as its load; a line from it leads to where its token goes next. Squares are nodes, tied to the one that serves them; red discs are not served. Below: the mean latency, and as bars how many tokens moved.',
    s_sends: '{m} sends {kind} to {peer}',
  },
  es: {
    title: 'batuta: laboratorio', lab: 'laboratorio', skip: 'Ir a la imagen', theme: 'Colores oscuros', share: 'Copiar enlace', lecture: 'Clase', lectureTip: 'Solo las imágenes, en grande. Avpág es la parada siguiente, → el evento siguiente; Escape termina.', download: 'Descargar', open: 'Abrir archivo', help: 'Ayuda',
    stage: 'El clúster', circle: 'Miembros en círculo', transport: 'Tiempo', first: 'Al principio', back: 'Un evento atrás', play: 'Reproducir', pause: 'Pausa', forth: 'Un evento adelante', last: 'Al final',
    scrub: 'Momento', pace: 'Velocidad', auto: 'auto', quiet: 'Ocultar latidos', skipQuiet: 'auto: lento en una elección, rápido entre ellas', more: '+ 5 s', moreTip: 'Que siga 5 s más',
    spacetime: 'Espacio y tiempo', zoomIn: 'Acercar', zoomOut: 'Alejar', present: 'Seguir',
    settings: 'Clúster', algorithm: 'Algoritmo', members: 'Miembros', probe: 'Bully pregunta', preempt: 'Al volver toma el liderazgo', seed: 'Semilla', newSeed: 'Otra semilla', on: 'sí', off: 'no',
    descending: 'primero al mayor', all: 'a todos a la vez', timing: 'Tiempos (ms)', heartbeat: 'Latido', tMax: 't_max', tProcess: 't_process', latency: 'Latencia',
    scenario: 'Escenario', scenarioTip: 'Cada línea es un paso o un ajuste. Lo que pulsa se vuelve una línea.', undo: 'Deshacer', restart: 'Empezar de nuevo', language: 'Qué puede ser una línea',
    log: 'Qué ocurre', logEmpty: 'Nada todavía.', why: 'Por qué', whyEmpty: 'Elija un evento o un mensaje para ver qué llevó a él.', because: 'porque', counts: 'Mensajes de esta elección',
    tours: 'Visitas', tour: 'Visita guiada', noTour: 'Juego libre', stop: 'Parada {n} de {of}', next: 'Siguiente', previous: 'Atrás', leave: 'Terminar',
    i_none: 'Este archivo no es un incidente: lo escribe batuta explain --lab ARCHIVO.', i_title: 'Incidente de {cluster}, {time}\u00a0UTC', i_start: 'Registrado por {ids} de un clúster real. {missing} Los relojes de los miembros se comparan con un margen de {doubt} ms.', i_missing: 'Sin registros de {id} ({why}): se dibuja según los demás.',
    i_lost: 'El {lost} perdió el liderazgo de la época {epoch}: {cause}.', i_leads: 'El {leader} lidera con la época {epoch}. Desde que el primero detectó la pérdida, lo reclamó a los {claims} ms, guardó la época a los {leads} ms, y todos los que lo siguen la recibieron a los {all} ms.', i_led: 'El {leader} lidera con la época {epoch}: a los {leads} ms de que el primero detectara la pérdida; todos los que lo siguen la recibieron a los {all} ms.', i_began: 'El {leader} lidera con la época {epoch}.',
    exercises: 'Ejercicios', exerciseNo: 'n.º {seed}', p_leader: 'Líder:', p_leaderOn: 'Líder del {on}:', p_epoch: 'Época:', p_epochOn: 'Época del {on}:', p_leaders: 'Cuántos lideran:', p_messages: 'Mensajes:', p_nobody: 'ninguno', p_choose: 'Elija una respuesta.', p_predict: 'Predecir', p_skip: 'Sin predecir', p_said: 'su respuesta: {answer}', p_again: 'Otro',
    x_open: 'Explorar', x_title: 'Todos los órdenes de eventos', x_tip: 'Prueba todos los órdenes de entregas, plazos, caídas, arranques y falsas sospechas de un clúster pequeño, sin tiempo, y va de estado en estado.', x_run: 'Explorar', x_crashes: 'Caídas', x_restarts: 'Arranques', x_suspicions: 'Falsas sospechas', x_initiators: 'Elecciones pedidas',
    x_far: '{n} estados alcanzados, {done} examinados, a {depth} pasos.', x_all: '{n} estados, hasta {depth} pasos: son todos, y cada uno cumple las reglas.', x_cut: '{n} estados, hasta {depth} pasos, {done} examinados: una página no guarda más; «batuta sim explore» sí. Ninguno rompe una regla.', x_bad: '{n} estados alcanzados: se rompe una regla.', x_goto: 'Mostrar dónde',
    x_state: 'Estado {no}, a distancia {depth}', x_rests: 'todo está en reposo', x_broken: 'Esto rompe una regla: {what}', x_ways: 'Qué puede ocurrir', x_to: 'al estado {no}', x_back: 'de vuelta al estado {no}', x_left: 'se omite: hay demasiados estados', x_end: 'Nada más puede ocurrir.', x_path: 'Cómo se llegó aquí, y todos los estados por su distancia', x_first: 'el primer estado', x_layer: '{n} estados a {depth} pasos', x_script: 'Abrir este camino como escenario',
    x_waits: 'espera: {timers}', x_deliver: 'llega {kind}, {a} → {b}', x_goodbye: '{b} ve que {a} ha cerrado la conexión', x_hangup: 'fin de la conexión', x_fire: 'en {a} vence el plazo {b}', x_crash: 'cae {a}', x_restart: 'arranca {a}', x_campaign: 'se pide a {a} una elección', x_suspect: '{a} da por caído a {b}', x_trust: '{a} da a {b} por vivo', x_beat: '{a} manda un latido a {b}',
    soak: 'Mil semillas', soakTip: 'Juega mil escenarios al azar y comprueba cada regla en cada paso.', soakRun: 'Jugar {n} semillas', soakFrom: 'Desde la semilla', soakStop: 'Parar', soakOpen: 'Abrir semilla',
    soakDone: '{n} escenarios, {hours} h simuladas: {bad} rompieron una regla. Acuerdo más largo {agreed}, {share} de su cota (semilla {slowest}).', soakFailing: 'Estas semillas rompieron una regla:', close: 'Cerrar',
    loading: 'Se carga el simulador …', broken: 'No se pudo cargar el simulador: {why}', running: 'Jugando …', fault: 'Línea {line}: {what}', faultBare: '{what}', failure: 'No como se esperaba: {what}', ok: 'Como se esperaba; se cumplen las reglas.', copied: 'Enlace copiado', tooMany: 'Hay más de lo que se puede dibujar.',
    actMember: 'Miembro {id}', actLink: 'Enlace {a} – {b}', at: 'en {time}', crash: 'Matar', poweroff: 'Cortar la corriente', freeze: 'Congelar', thaw: 'Descongelar', restartMember: 'Reiniciar', startMember: 'Arrancar', resign: 'Que renuncie', campaign: 'Que pida elección', pauseCluster: 'Pausar el clúster, 10 s', resume: 'Terminar la pausa', unhealthy: 'Deja de estar sano', healthy: 'Vuelve a estar sano', links: 'Sus enlaces', cutBoth: 'Cortar ambos sentidos', cutOne: 'Cortar {a} → {b}', heal: 'Reparar', healAll: 'Reparar todos los enlaces', isolate: 'Aislar', partition: 'Partición',
    link: 'Enlace {a} – {b}: pulse para cortar o reparar', memberLabel: 'Miembro {id}, {state}. Pulse Intro para ver qué se le puede hacer.',
    isDead: 'caído', isOff: 'sin corriente', isAbsent: 'sin arrancar', isFrozen: 'congelado', isSilent: 'enmudecido', isSick: 'no sano', isPaused: 'en pausa', isRemoved: 'eliminado', isLeader: 'lidera · época {epoch}', isFollower: 'sigue a {leader}', isClaiming: 'reclama la época {epoch}', isUndefined: 'no conoce líder', isVoting: 'pide: {got} de {need} votos', isAsking: 'responden {got} de {of}', isPromised: 'promesa al {peer}', leadsEpoch: 'época {epoch}',
    ofLeadership: 'liderazgo de {leader}, época {epoch}', ofRound: 'ronda {round} de {initiator}', carries: 'lleva {ids}', sentAt: 'sale {time}', arrivesAt: 'llega {time}', neverArrives: 'no llega nunca',
    legend: 'Mensajes', legend_ask: 'ELECTION, VOTE: ¿quién lidera?', legend_answer: 'ANSWER', legend_tell: 'COORDINATOR, ELECTED, APPEND: lidera este', legend_hand: 'RESIGN, HANDOVER', legend_know: 'preguntas e informes', legend_beat: 'latidos', run_leader: 'anillo: T, hasta sospechar del líder', run_lease: 'lease: hasta que el liderazgo termina solo', run_promise: 'promesa: sin votar hasta entonces', run_answers: 'espera respuestas', run_votes: 'votos, de una mayoría',
    noLeader: 'sin líder', oneLeader: 'lidera {leader}, época {epoch}', twoLeaders: '{n} líderes: {list}', knife: 'Trace una línea sobre la imagen para dividir el clúster. Pulse miembros y enlaces.', keys: 'Espacio reproduce y pausa, ← y → avanzan un evento, Inicio y Fin saltan.',
    sp_open: 'Super peers', sp_title: 'Super peers: tokens que se repelen', sp_tip: 'Unos nodos sirven a todos los demás. Cada uno de ellos tiene un token y lo pasa hasta que los tokens quedan donde la latencia es baja.', sp_method: 'Método', sp_space: 'Espacio', sp_nodes: 'Nodos', sp_share: 'Super peers, %', sp_capacity: 'Tope, 0: sin', sp_churn: 'Vienen y van', sp_run: 'Empezar', sp_back: 'Una ronda atrás', sp_forth: 'Una ronda adelante', sp_round: 'Ronda',
    sp_figures: 'Ronda {n}: {live} super peers de {wanted} deseados, latencia media {mean} ms, {moves} tokens movidos, carga mayor {load}, sin servir {unserved}.', sp_token: 'token {token}, sirve a {load}', sp_legend: 'Un disco es un super peer, tan grande como su carga; una línea desde él lleva a donde va su token. Los cuadrados son nodos, atados al que los sirve; los discos rojos quedan sin servir. Abajo: la latencia media, y en barras cuántos tokens se movieron.',
    s_sends: '{m} envía {kind} a {peer}',
  },
}

export const t = speak(texts)

// sentence says what an event is; short leaves its member out.
t.sentence = (e, short = false) => {
  const m = e.m < 0 ? (e.who === 'all:' ? '' : e.who) : t.member(e.m)
  const peer = e.peer !== m && e.peer, what = doing(e.what, peer)
  let line = short ? what : `${m} ${what}`.trim()
  if (peer) line += ' ' + peer
  if (e.epoch && !['suspects', 'no longer suspects'].includes(e.what)) line += (lang === 'es' ? ', época ' : ' epoch ') + e.epoch
  return line
}

// flight says what a message is.
t.flight = f => t('s_sends', { m: t.member(f.from), kind: f.kind.toUpperCase(), peer: t.member(f.to) })
  + (f.round ? `, ${t('ofRound', { round: f.round, initiator: f.initiator })}` : '')
  + (f.leader ? `, ${t('ofLeadership', { leader: f.leader, epoch: f.epoch })}` : '')
  + (f.ring ? `, ${t('carries', { ids: f.ring })}` : '')

// member is an id by its place; the page says whose model it is.
t.member = i => String(i)
