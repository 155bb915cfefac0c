// What members do and why they lose, in the page's language.

import { decimal, lang, moment } from './page.js'

// What members do, in Spanish; in English the trace's own word is shown.
const doings = {
  'crashes': 'cae', 'falls silent': 'enmudece', 'loses power': 'se queda sin corriente', 'starts': 'arranca', 'freezes': 'se congela', 'thaws': 'se descongela', 'joins': 'se une', 'leaves': 'se va', 'exits': 'termina',
  'is unhealthy': 'deja de estar sano', 'is healthy': 'vuelve a estar sano', 'suspects': 'sospecha de', 'finds down': 'da por caído a', 'no longer suspects': 'ya no sospecha de', 'loses': 'pierde a', 'claims': 'reclama el liderazgo', 'leads': 'lidera', 'follows': 'sigue a', 'adopts': 'adopta a', 'renews': 'sube su época por encima de', 'doubts': 'duda de los rechazos de',
  'probes': 'consulta a', 'has probed': 'ya ha preguntado', 'asks': 'pide el relevo a', 'resigns': 'renuncia', 'campaigns': 'pide elección', 'stalled': 'estuvo parado', 'is a candidate': 'vuelve a ser candidato', 'waits': 'espera a', 'awaits': 'aguarda a',
  'restarts': 'empieza otra ronda hacia', 'adds': 'añade a', 'removes': 'elimina a', 'drops': 'olvida a', 'refuses': 'se niega ante', 'all links heal': 'se reparan todos los enlaces', 'cut': 'se corta', 'heal': 'se repara', 'reaches': 'llega a', 'notifies': 'avisa a', 'yields to': 'cede el paso a',
  'is elected': 'sale elegido', 'steps down': 'deja el liderazgo', 'reports': 'informa de',
  'pauses': 'va en pausa', 'resumes': 'sale de la pausa', 'reaps': 'elimina por ausente a', 'learns': 'conoce a', 'is known': 'es conocido', 'warns': 'advierte', 'closes': 'cierra', 'proposes': 'propone', 'assigns': 'asigna', 'asks again': 'pregunta otra vez', 'admits': 'admite a', 'ranks': 'da otra prioridad a', 'transfers': 'traspasa el liderazgo a', 'hands over': 'entrega', 'frees': 'libera', 'keeps': 'conserva',
  'is seated': 'ocupa su plaza', 'is to start with other times': 'ha de arrancar con otros tiempos', 'wall clock jumps': 've saltar su reloj de pared', 'clock drifts': 'tiene un reloj que se desvía', 'is removed': 'queda eliminado', 'is refused': 'es rechazado', 'reject': 'se rechaza', 'publishes metadata': 'publica metadatos', 'checks its id': 'comprueba su id', 'no longer awaits': 'deja de aguardar a', 'goes on': 'continúa', 'is stopped': 'se detiene',
  'is claimed by a second process': 'es reclamado por un segundo proceso', 'is a duplicate': 'es un duplicado', 'is asked to drain': 'recibe la orden de vaciarse', 'disk ok': 'su disco se recupera', 'disk fail': 'su disco falla', 'disk full': 'su disco se llena', 'candidacy on': 'tiene trabajo de líder', 'candidacy off': 'no tiene trabajo de líder', 'disk hang': 'su disco se cuelga',
  'cannot save': 'no puede guardar', 'saves again': 'vuelve a guardar', 'has departed': 'ya no está:', 'connections are reset': 'pierde sus conexiones', 'may have moved': 've que puede haber cambiado de dirección', 'retires': 'se retira',
}

// Verbs without an object.
const bare = { 'loses': 'pierde el liderazgo', 'asks': 'pide votos', 'probes': 'pregunta qué liderazgo hay', 'renews': 'renueva su liderazgo' }

// doing is what a record of the trace says that a member does, to a peer if there is one.
export const doing = (what, peer) => {
  if (lang !== 'es') return what
  const known = doings[what]
  if (!known) return written(phrases.reduce((text, [en, es]) => text.replace(en, es), what))
  return peer ? known : bare[what] ?? known.replace(/ (a|de)$/, '')
}

// written has lengths of time as Spanish has them: 1.5s is 1,5 s, with the mark that the locale has.
const written = text => text.replace(/(?<![\w.:])-?(?:\d+(?:\.\d+)?(?:ms|µs|[hms]))+(?!\w)/g, time => time.replace(/m0s$/, 'm').replace(/h0m$/, 'h')
  .replace(/(\d+)\.?(\d*)(ms|µs|[hms])/g, (_, whole, part, unit) => `${whole}${part && decimal(.1, 1)[1] + part}\u00a0${unit === 'm' ? 'min' : unit} `).trim())

const phrases = [[/^partition /, 'partición '], [/^cut /, 'se corta '], [/^heal /, 'se repara '], [/^is refused by /, 'es rechazado por '], [/^stands (?=.)/, 'se presenta a '], [/^gives (?=.)/, 'traspasa '], [/^disk slow /, 'su disco tarda '], [/^delay /, 'demora ']]

// Why a member is no candidate.
const standings = { resigned: 'renunció', working: 'su trabajo aún no terminó', unsaved: 'no puede guardar', observer: 'es observador', unhealthy: 'no está sano', closing: 'cierra', gone: 'no es miembro', joining: 'acaba de entrar', refused: 'lo rechazan', unfounded: 'no funda un clúster', paused: 'hay una pausa', 'few-members': 'recibe a muy pocos miembros' }

const reasons = [
  ...Object.entries(standings).flatMap(([en, es]) => [[`it is no candidate: ${en}`, `no es candidato: ${es}`], [`no longer ${en}`, `ya pasó: ${es}`]]), ['no healthy member leads, or is in reach', 'ningún miembro sano lidera ni está al alcance'],
  ['it announced itself', 'se anunció'], ['it announced its end', 'anunció su fin'], ['it replied that it has ended', 'respondió que terminó'], ['it won the election', 'ganó la elección'], ['it was asked to', 'se le pidió'], ['it refuses the connection', 'rechaza la conexión'], ['its connection closed', 'se cerró su conexión'],
  ['no member confirms it', 'ningún miembro lo confirma'], ['silent for all its time', 'en silencio todo su tiempo'], ['silent for (.*)', 'silencio de $1'], ['it has just started', 'acaba de arrancar'], ['all have answered or are down', 'todos respondieron o están caídos'], ['unreachable', 'inalcanzable'],
  ['its token is higher', 'su token es mayor'], ['a higher token (.*)', 'un token mayor, $1'], ['another may lead', 'puede liderar otro'], ['to hand over: it outranks the leader', 'para el relevo: es mayor que el líder'], ['it hands over to (.*)', 'entrega el liderazgo a $1'],
  ['(.*) passes it on', 'lo reenvía $1'], ['no member acknowledges it', 'ningún miembro confirma lo que envía'], ['the admitting member confirms it', 'lo confirma el miembro que lo admitió'], ['(.*) confirms it', '$1 lo confirma'], ['(.*) received from it (.*) ago', '$1 recibió algo suyo hace $2'], ['a majority has voted for it', 'votó por él una mayoría'], ['its lease has ended', 'su lease terminó'], ['it knows no leader', 'no conoce líder'], ['the round is lost', 'se perdió la vuelta'], ['it claims the next epoch', 'reclama la época siguiente'],
  ['the cluster is paused until (.*): member (.*) keeps leadership, alive or not; batuta resume ends that', 'el clúster está en pausa hasta $1: el $2 conserva el liderazgo, viva o no; la termina batuta resume'],
  ['its first check has not ended yet', 'su primera comprobación aún no terminó'], ['it is a witness: it votes, and never leads', 'es testigo: vota, y nunca lidera'], ['it is set up to follow only', 'está configurado para solo seguir'], ['it was asked to step down, and is a candidate again when a later leader.s time ends, or no member leads', 'se le pidió que dejara el liderazgo: vuelve a ser candidato cuando termine un líder posterior, o si nadie lidera'],
  ['what it ran as leader (.*) has not stopped yet', 'lo que ejecutaba como líder $1 aún no terminó'], ['it has just joined and awaits the leader', 'acaba de unirse y espera al líder'], ['it is on no member.s list any more', 'ya no está en la lista de ningún miembro'],
  ['its first start waits until more than half of the other members have noted its disk: of three members all must be up and able to save', 'su primer arranque espera hasta que más de la mitad de los demás miembros hayan anotado su disco: de tres miembros, todos deben estar activos y poder guardar'],
  ['it is connected to fewer members than a majority takes, and could not be elected', 'tiene conexión con menos miembros que una mayoría, y no podría ser elegido'], ['it receives fewer than (.*) members, itself included, and leads only while it receives so many \\(min-members\\)', 'recibe a menos de $1 miembros, él incluido, y solo lidera mientras reciba a tantos (min-members)'],
  ['removed', 'eliminado'], ['it was removed', 'fue eliminado'], ['it has been absent for (.*)', 'ausente durante $1'], ['the pause has ended', 'la pausa terminó'], ['a user has set or ended a pause', 'un usuario fijó o terminó una pausa'], ['for (.*)', 'durante $1'],
  ['another incarnation answers', 'responde otra encarnación'], ['it is unhealthy', 'no está sano'], ['it left the cluster', 'salió del clúster'], ['it closes', 'cierra'], ['it was stopped', 'lo detuvieron'], ['it was admitted and never came', 'se lo admitió y no llegó'], ['a higher-ranked member is there', 'está uno de mayor rango'], ['it is down', 'está caído'],
  ['there is no member to ask', 'no hay miembro a quien preguntar'], ['they have not answered in time', 'no respondieron a tiempo'], ['its successor is down or removed', 'su sucesor está caído o eliminado'], ['no member reaches it', 'ningún miembro llega a él'], ['it receives from members, but no answers', 'recibe de miembros, pero ninguna respuesta'], ['it claims the next epoch', 'reclama la época siguiente'],
  ['this process was stopped for longer than T', 'este proceso estuvo parado más de T'], ['it receives from members, but none has acknowledged for T', 'recibe de miembros, pero ninguno ha confirmado durante T'], ['it has not claimed within T', 'no reclamó en T'], ['it answers no member', 'no responde a ningún miembro'], ['its leadership was superseded', 'su liderazgo fue reemplazado'], ['no member confirms it within (.*)', 'ningún miembro lo confirma en $1'], ['it is on the list again', 'está otra vez en la lista'],
  ['the disk has not answered for T|its disk has not answered for T', 'su disco no responde desde hace T'], ['leadership was handed over to it', 'se le entregó el liderazgo'], ['the end of its work', 'el fin de su trabajo'], ['its work has stopped', 'su trabajo terminó'], ['its work has still to stop', 'su trabajo aún ha de terminar'], ['it leads, as it last reported', 'lidera, según su último informe'], ['it may lead on: its refusal is disputed', 'quizá siga liderando: se discute su rechazo'], ['it goes on under a higher epoch', 'sigue con una época mayor'], ['it may claim, too', 'también puede reclamar'],
  ['another is preferred', 'se prefiere a otro'], ['it asks for the leader', 'pregunta por el líder'], ['more members follow this one, or it outranks (.*)', 'a este lo siguen más miembros, o es mayor que $1'],
  ['(?:member .* reports: .*)?this member was removed from the cluster: it is refused until it is added again', 'este miembro fue eliminado del clúster: se lo rechaza hasta que se lo añada de nuevo'], ['this member was removed from the cluster', 'este miembro fue eliminado del clúster'], ['not a member of this cluster', 'no es miembro de este clúster'], ['this id is in use by another process', 'otro proceso usa este id'], ['another secret, cluster, algorithm, election, protocol version or times', 'otro secreto, clúster, algoritmo, elección, versión del protocolo o tiempos'],
  ['a user of the dashboard has cordoned it', 'lo acordonó un usuario del panel'], ['at (.*)', 'en $1'], ['to hand over: member (.*) cannot become the leader: it is down', 'no entrega: el $1 está caído'], ['to hand over: member (.*) cannot become the leader: it is observer', 'no entrega: el $1 es observador'], ['to hand over: member (.*) cannot become the leader: it is unhealthy', 'no entrega: el $1 no está sano'],
  ['to hand over: member (.*) cannot become the leader: member (.*) outranks it .*', 'no entrega: al $1 lo reemplazaría el $2, que es mayor'], ['to hand over: member (.*): not the leader: .*', 'no entrega: el $1 no es el líder'], ['to (.*)', 'a $1'], ['as number (.*)', 'con el número $1'], ['with priority (.*): a user has set it', 'prioridad $1: la puso un usuario'], ['through (.*)', 'por medio de $1'], ['more than half of the others have noted its disk', 'más de la mitad de los otros anotaron su disco'], ['it was admitted and has no number', 'se lo admitió, y no tiene número'], ['its metadata', 'sus metadatos'],
  ['(.*) members vote: they survive the death of (.*), as (.*) do; let an odd number vote', 'votan $1 miembros: soportan la muerte de $2, igual que $3; que vote un número impar'], ['it may be newer than this member.s log', 'puede ser más nuevo que el registro de este miembro'], ['it is new', 'es nuevo'], ['a newer process has taken this id', 'un proceso más nuevo tomó este id'], ['it was removed: (.*)', 'fue eliminado'],
  ['it outranks this member and has been there for (.*)', 'es mayor que este miembro y está ahí desde hace $1'], ['the leader of the members that admitted it', 'el líder de los miembros que lo admitieron'],
  ['others may have found a leader while it was no candidate', 'otros pueden haber hallado un líder mientras no fue candidato'], ['it is a candidate since the round began', 'es candidato desde que empezó la ronda'], ['a member refuses it as removed, or as an earlier process', 'un miembro lo rechaza por eliminado o por proceso anterior'], ['the election ended without a leader', 'la elección terminó sin líder'], ['a late message asks for a leader', 'un mensaje tardío pide un líder'], ['it has reported that it is no candidate', 'informó de que no es candidato'], ['no leader has appeared within (.*)', 'no apareció ningún líder en $1'],
  ['no leader has reached the newcomer within T', 'ningún líder llegó al nuevo en T'], ['no more reports within T', 'no hubo más informes en T'], ['it stops once a majority has recorded it', 'se detiene cuando lo haya anotado una mayoría'],
  ['it is asked to', 'se le pide'], ['above (.*)', 'por encima de $1'], ['(.*) ppm', '$1 ppm'], ['(.*) has taken it for ended', '$1 lo dio por terminado'], ['the list has this member at (.*)', 'la lista tiene a este miembro en $1'], ['the process at (.*) has this id', 'el proceso de $1 tiene este id'],
  ['the transfer target may have claimed', 'puede haber reclamado aquel a quien se traspasa'], ['its leader has resigned before it was saved', 'su líder renunció antes de guardarse'], ['another has claimed meanwhile', 'entretanto reclamó otro'], ['a member that lives has not answered', 'no respondió un miembro vivo'],
  ['the simulated disk refuses to write', 'el disco simulado no escribe'], ['a write took longer than T', 'una escritura tardó más de T'], ['it was silent for too long', 'calló demasiado tiempo'], ['it has not reported what it holds', 'no informó de qué tiene'], ['it reports that it holds it', 'informa de que la tiene'], ['which joins through (.*)', 'que se une por medio de $1'], ['its leader.s share is too large', 'su líder tiene más de su parte'], ['its leader is drained', 'su líder se vacía'],
  ['its last leader.s time has ended: silent', 'terminó el plazo de su último líder: en silencio'], ['its last leader.s time has ended: resigned', 'terminó el plazo de su último líder: renunció'], ['it lives, though its address has refused a connection', 'vive, aunque su dirección rechazó una conexión'], ['its disk refuses the log', 'su disco rechaza el registro'], ['it was elected to pass its log on', 'fue elegido para pasar su registro'], ['it is to be removed', 'va a ser eliminado'],
  ['it is down or no longer a candidate', 'está caído, o ya no es candidato'], ['it has led meanwhile, and resigned', 'entretanto lideró, y renunció'], ['that the log is committed up to (.*)', 'que el registro está confirmado hasta $1'], ['it became a rival after this claim', 'se hizo rival después de esta reclamación'], ['each has removed the other, and its id is higher', 'cada uno eliminó al otro, y el id de este es mayor'], ['that it was removed', 'que fue eliminado'],
  ['at another address', 'en otra dirección'], ['its file rolled back one write', 'su archivo perdió la última escritura'], ['its disk emptied', 'su disco se vació'], ['it has stopped', 'se detuvo'], ['(.*) with priority (.*)', '$1, con prioridad $2'], ['by (.*) now', 'ahora $1'], ['by (.*)', 'por $1'],
  ['Lead has returned, so no work of a leader runs here: it is a candidate again when Lead is called again, or it is asked to campaign', 'Lead retornó, así que aquí no corre trabajo de líder: vuelve a ser candidato cuando se llame otra vez a Lead, o se le pida elección'], ['it does not lead next to members that refuse it: .*', 'no lidera junto a miembros que lo rechazan: cada uno tiene su razón entre los miembros'],
  ['it joins through (.*), and has learned of no leader: .*', 'se une por medio de $1, y no conoce líder: con este algoritmo solo funda un clúster un miembro con lista y sin Config.Join'], ['waits until (.*) members know each other \\(Config.Expect\\): by now it knows (.*), itself included', 'espera a que se conozcan $1 miembros (Config.Expect): ya conoce $2, él incluido'], ['it cannot join through (.*?): (.*)', 'no puede unirse por medio de $1: «$2»'],
  ['no member answers at (.*), and it creates no cluster by itself: .*', 'nadie responde en $1, y él mismo no funda un clúster: arranque ahí un miembro, o este con Config.Bootstrap, una vez'], ['(.*) members know each other, none of them has learned of a leader, and none creates a cluster by itself: .*', 'se conocen $1 miembros, ninguno conoce líder, y ninguno funda un clúster: arranque uno con Config.Bootstrap, una vez, o todos con Config.Expect'],
  ['it does not publish where its HTTP API is \\(--http-advertise\\)', 'no publica dónde está su API HTTP (--http-advertise)'], ['it publishes an HTTP API at (.*), which is neither http://HOST:PORT nor https://HOST:PORT', 'publica una API HTTP en $1, que no es http://HOST:PUERTO ni https://HOST:PUERTO'], ['its API has TLS, and members of this cluster have nothing to prove themselves with \\(--secret-file, --tls-cert\\)', 'su API usa TLS, y los miembros de este clúster no tienen con qué identificarse (--secret-file, --tls-cert)'],
  ["its answer is not batuta's", 'su respuesta no es de batuta'], ['it does not answer in time', 'no responde a tiempo'], ['it answers ([1-5]\\d\\d .*)', 'responde «$1»'], ['connect: connection refused', 'su dirección rechaza la conexión'],
  ['a save has not ended in (.*)', 'un guardado no terminó en $1'], ['save the state', 'no se guarda el estado'], ['(?:append to|replace|read|cut) the log', 'no se escribe el registro'], ['.* has been replaced or cut short by another process', 'otro proceso reemplazó o cortó el archivo'], ['restart the member', 'reinicie el miembro'],
  ['make room on that file system', 'haga sitio en ese sistema de archivos'], ["mount that file system writable, and look in the system's log why it is not", 'monte ese sistema de archivos con escritura, y vea en el registro del sistema por qué no la tiene'], ['make it readable and writable for this user', 'permita a este usuario leerlo y escribirlo'], ['the disk fails', 'el disco falla'], ['replace it', 'reemplácelo'],
  ['the data directory was removed', 'se eliminó el directorio de datos'], ['put it back, or restart the member; a quorum has to remove it first', 'repóngalo, o reinicie el miembro; un quorum debe eliminarlo antes'], ['raise the limit of open files', 'suba el límite de archivos abiertos'],
  ['member (.*) is of cluster (.*), member (.*) of (.*)', 'el $1 es del clúster $2, el $3 de $4'], ['this is member (.*)', 'este es el $1'], ['member (.*) speaks protocol version (.*), member (.*) version (.*)', 'el $1 habla la versión $2 del protocolo, el $3 la $4'], ['bring both to one release of batuta', 'ponga ambos en la misma versión de batuta'],
  ['member (.*) listens on (.*), which is not HOST:PORT', 'el $1 escucha en $2, que no es HOST:PUERTO'], ['have it advertise another', 'que publique otra'], ['member (.*) has (?:algorithm|election|t_max) (.*), member (.*) has (.*)', 'el $1 tiene $2, el $3 tiene $4'], ['give all the same', 'dé a todos lo mismo'], ['give all the same, or another cluster', 'dé a todos lo mismo, u otro clúster'],
  ['crashed', 'caído'], ['silent', 'en silencio'], ['resigned', 'renunció'], ['superseded', 'reemplazado'], ['stalled', 'estuvo parado'],
].map(([en, es]) => [new RegExp(`^${en}$`), es])

// reason is the Machine's reason in the page's language and the user's time; one that is not known stays as it is.
export const reason = given => {
  const text = given?.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, moment)
  if (lang !== 'es' || !text) return text
  const [cause, rest] = /^(crashed|silent|resigned|superseded|stalled|removed): (.*)$/.exec(text)?.slice(1) ?? []
  if (rest) return `${reason(cause)}: ${reason(rest)}`
  const known = reasons.find(([en]) => en.test(text))
  return written(known ? text.replace(...known) : text)
}

// short gives long ids as a picture has room for: by the first part, of their head, their end and what is between, by which most differ.
export const short = ids => {
  const head = id => id.slice(0, 8) + '…', tail = id => '…' + id.slice(-8)
  const part = from => id => id.length > from + 7 ? '…' + id.slice(from, from + 7) + '…' : tail(id)
  const long = [...new Set(ids.filter(id => id.length > 9))], longest = Math.max(0, ...long.map(id => id.length))
  let cut = head, most = new Set(long.map(head)).size
  for (let from = 0; most < long.length && from < longest - 7; from++) {
    const by = from ? part(from) : tail, n = new Set(long.map(by)).size
    if (n > most) [cut, most] = [by, n]
  }
  return id => id.length > 9 ? cut(id) : id
}

// Why connections are refused, by its key in the agent's counters.
const refusals = { version: 'otra versión del protocolo', cluster: 'otro clúster', receiver: 'dirigida a otro miembro', 'not-member': 'no es miembro', 'same-id': 'id en uso', 'old-incarnation': 'hay un proceso más nuevo', crowded: 'demasiadas conexiones', closing: 'cierra', joining: 'él mismo se une', join: 'no se admite', 'many-joins': 'demasiados nuevos a la vez', itself: 'es él mismo', check: 'una comprobación', algorithm: 'otro algoritmo', times: 'otros tiempos', election: 'otra elección', address: 'dirección errónea', security: 'identidad sin probar', attest: 'atestación sin efecto', slow: 'demasiado lenta', early: 'sin saludo', other: 'otra razón' }

// fault is an error in the page's language. It has parts: what others have written, such as the operating system, is quoted.
export const fault = given => {
  if (lang !== 'es' || !given) return given
  const known = text => {
    const said = refusals[text] ?? reason(text)
    return said === written(text) ? text : said // only its times were put in Spanish
  }
  const whole = known(given)
  if (whole !== given) return whole
  const parts = given.split(': ').map(part => [part, known(part)]).reduce((list, [part, said]) => {
    if (said !== part) list.push([said])
    else if (list.at(-1)?.[1]) list.at(-1)[1] += ': ' + part
    else list.push(['', part])
    return list
  }, [])
  return parts.map(([said, quoted]) => said || `«${quoted}»`).join(': ')
}

const why = {
  en: { crashed: 'the leader crashed', silent: 'the leader fell silent', resigned: 'it resigned', removed: 'it was removed', stalled: 'this process was stopped for too long', superseded: 'a newer leadership was shown', renewed: 'it goes on under a higher epoch: a partition healed', stopped: 'this member was stopped' },
  es: { crashed: 'el líder cayó', silent: 'el líder enmudeció', resigned: 'renunció', removed: 'fue eliminado', stalled: 'este proceso estuvo parado demasiado tiempo', superseded: 'apareció un liderazgo más nuevo', renewed: 'sigue con una época mayor: se cerró una partición', stopped: 'este miembro se detuvo' },
}

// causes say why a leadership ended, by the cause in the agent's events.
export const causes = why[lang]
