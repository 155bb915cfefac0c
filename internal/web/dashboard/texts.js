// What the dashboard says, in English and Spanish.

import { speak } from './shared/page.js'

export const t = speak({
  en: {
    skip: 'Skip to the cluster', theme: 'Dark colours', loading: 'Asking …', asked: 'as member {id} sees it', live: 'Live', stale: 'Stale since {time}', gone: 'The agent does not answer: {why}. What is shown is as of {time}.',
    leader: 'Leader', nobody: 'Nobody', nobodyLong: 'This member knows no leader', reign: 'epoch {epoch}, for {time}', noReign: 'for {time}; the highest epoch known is {epoch}', thisOne: 'this member', promise: 'What is promised',
    bestEffort: '{algorithm}, best effort: while a partition lasts, each side has a leader of its own. Do not fence with the epoch.', oneLeader: '{algorithm}, one leader: never two at a time.', oneLeaderFencing: '{algorithm}, one leader: never two at a time. The epoch is safe to fence with.',
    resign: 'Resign', transfer: 'Hand over', campaign: 'Call an election', add: 'Add a member', remove: 'Remove', cancel: 'Cancel', acts: 'Actions', onlyLeader: 'To resign or to hand over, ask the leader’s own page.',
    askResign: 'Shall {id} step down?', askResignText: 'Its work ends, the others elect the next, and {id} does not stand until it campaigns or a later leadership ends.',
    askTransfer: 'Hand the lead over', askTransferText: 'Work ends here before the other begins. It leads under a new epoch.', to: 'To', askTransferTo: 'Hand the lead over to {id}?',
    askCampaign: 'Shall {id} call an election?', askCampaignText: 'If it ranks highest it takes over; else the leader stays. If it had resigned, it stands again.',
    askAdd: 'Add a member', askAddText: 'Every member learns of it. Its own agent has to be started with this id and address.', id: 'Id', addressOf: 'Address, HOST:PORT', askRemove: 'Remove {id}?', askRemoveText: 'It is told so, takes no further part, and is refused until it is added again.', yesRemove: 'Remove {id}',
    done: 'Done.', failed: 'Not done: {why}',
    picture: 'The cluster', members: 'Members', count: '{up} of {n} up', member: 'Member', state: 'State', standing: 'Stands', epoch: 'Epoch', seen: 'Heard here', address: 'Address', priority: 'Priority', leads: 'leads', follows: 'follows', you: 'asked here', behind: 'behind', elsewhere: 'elsewhere',
    up: 'up', down: 'down', unreachable: 'unreachable', added: 'never heard', removed: 'removed', never: 'never', ago: '{time} ago', now: 'now',
    eligible: 'yes', unhealthy: 'no: unhealthy', resigned: 'no: has resigned', observer: 'no: observer', draining: 'no: draining', unsaved: 'no: cannot save', joining: 'no: joining', unknown: '—', refused: 'refused: {why}',
    l_up: 'in touch', l_unreachable: 'unreachable', l_down: 'down', l_next: 'successor on the ring', pictureLabel: 'The cluster as member {id} sees it: {leader} of {n} members leads.',
    timeline: 'Leaderships', timelineFrom: 'as {id} has seen them since {time}', range: 'Range', all: 'since the start', hours: 'last {n} h', minutes: 'last {n} min', noReigns: 'No leadership has been seen yet.',
    reignLine: '{leader}, epoch {epoch}', fromTo: '{from} to {to}, for {time}', since: 'since {from}, for {time}', ended: 'It ended: {cause}.', gap: 'No leader for {time}', gapNow: 'No leader since {from}', whyButton: 'Why', noTrace: 'No record was kept.',
    c_crashed: 'the leader crashed', c_silent: 'the leader fell silent', c_resigned: 'it resigned', c_removed: 'it was removed', c_stalled: 'this process was stopped for too long', c_superseded: 'a newer leadership was shown', c_stopped: 'this member was stopped',
    self: 'The member asked', messages: 'Messages by kind', kind: 'Kind', sent: 'sent', received: 'received', f_id: 'Id', f_role: 'Role', f_algorithm: 'Algorithm', f_uptime: 'Up for', f_listen: 'Listens at', f_advertise: 'Reached at', f_http: 'HTTP', f_version: 'Version', f_timing: 'Heartbeat; T', f_incarnation: 'Incarnation', f_disk: 'Disk', f_standing: 'Stands', f_successor: 'Passes on to', f_refused: 'Refused', ok: 'saves', leaderRole: 'leader', follower: 'follower', candidate: 'candidate', undefined: 'knows no leader', alone: 'nobody: it is alone', token: 'This agent asks for a token.', tokenLabel: 'Token', enter: 'Enter', and: ', then ',
  },
  es: {
    skip: 'Ir al clúster', theme: 'Colores oscuros', loading: 'Preguntando …', asked: 'como lo ve el miembro {id}', live: 'En vivo', stale: 'Sin noticias desde {time}', gone: 'El agente no responde: {why}. Se muestra lo que había a las {time}.',
    leader: 'Líder', nobody: 'Nadie', nobodyLong: 'Este miembro no conoce líder', reign: 'época {epoch}, desde hace {time}', noReign: 'desde hace {time}; la mayor época conocida es {epoch}', thisOne: 'este miembro', promise: 'Qué se promete',
    bestEffort: '{algorithm}, mejor esfuerzo: mientras dura una partición, cada lado tiene su líder. No use la época como barrera.', oneLeader: '{algorithm}, un solo líder: nunca dos a la vez.', oneLeaderFencing: '{algorithm}, un solo líder: nunca dos a la vez. La época sirve de barrera.',
    resign: 'Renunciar', transfer: 'Entregar el mando', campaign: 'Pedir elección', add: 'Añadir miembro', remove: 'Quitar', cancel: 'Cancelar', acts: 'Acciones', onlyLeader: 'Para renunciar o entregar el mando, use la página del propio líder.',
    askResign: '¿Debe renunciar {id}?', askResignText: 'Su trabajo termina, los demás eligen al siguiente, y {id} no se presenta hasta que pida elección o termine un liderazgo posterior.',
    askTransfer: 'Entregar el mando', askTransferText: 'Aquí el trabajo termina antes de que el otro empiece. Lidera con una época nueva.', to: 'A', askTransferTo: '¿Entregar el mando a {id}?',
    askCampaign: '¿Debe pedir elección {id}?', askCampaignText: 'Si es el mayor, toma el mando; si no, el líder sigue. Si había renunciado, vuelve a presentarse.',
    askAdd: 'Añadir un miembro', askAddText: 'Todos los miembros se enteran. Su propio agente ha de arrancar con este número y dirección.', id: 'Id', addressOf: 'Dirección, HOST:PUERTO', askRemove: '¿Quitar a {id}?', askRemoveText: 'Se le avisa, no participa más, y se le rechaza hasta que se lo añada de nuevo.', yesRemove: 'Quitar a {id}',
    done: 'Hecho.', failed: 'No se hizo: {why}',
    picture: 'El clúster', members: 'Miembros', count: '{up} de {n} en pie', member: 'Miembro', state: 'Estado', standing: 'Se presenta', epoch: 'Época', seen: 'Oído aquí', address: 'Dirección', priority: 'Prioridad', leads: 'lidera', follows: 'sigue', you: 'se pregunta aquí', behind: 'atrasado', elsewhere: 'en otro lado',
    up: 'en pie', down: 'caído', unreachable: 'inalcanzable', added: 'nunca oído', removed: 'quitado', never: 'nunca', ago: 'hace {time}', now: 'ahora',
    eligible: 'sí', unhealthy: 'no: enfermo', resigned: 'no: renunció', observer: 'no: observador', draining: 'no: terminando', unsaved: 'no: no puede guardar', joining: 'no: entrando', unknown: '—', refused: 'rechazado: {why}',
    l_up: 'en contacto', l_unreachable: 'inalcanzable', l_down: 'caído', l_next: 'sucesor en el anillo', pictureLabel: 'El clúster como lo ve el miembro {id}: lidera {leader} de {n} miembros.',
    timeline: 'Liderazgos', timelineFrom: 'como los ha visto {id} desde {time}', range: 'Intervalo', all: 'desde el inicio', hours: 'últimas {n} h', minutes: 'últimos {n} min', noReigns: 'Aún no se ha visto ningún liderazgo.',
    reignLine: '{leader}, época {epoch}', fromTo: '{from} a {to}, {time}', since: 'desde {from}, {time}', ended: 'Terminó: {cause}.', gap: 'Sin líder durante {time}', gapNow: 'Sin líder desde {from}', whyButton: 'Por qué', noTrace: 'No se guardó ningún registro.',
    c_crashed: 'el líder cayó', c_silent: 'el líder enmudeció', c_resigned: 'renunció', c_removed: 'se lo quitó', c_stalled: 'este proceso estuvo parado demasiado tiempo', c_superseded: 'apareció un liderazgo más nuevo', c_stopped: 'este miembro se detuvo',
    self: 'El miembro preguntado', messages: 'Mensajes por clase', kind: 'Clase', sent: 'enviados', received: 'recibidos', f_id: 'Id', f_role: 'Papel', f_algorithm: 'Algoritmo', f_uptime: 'En pie desde hace', f_listen: 'Escucha en', f_advertise: 'Se llega por', f_http: 'HTTP', f_version: 'Versión', f_timing: 'Latido; T', f_incarnation: 'Encarnación', f_disk: 'Disco', f_standing: 'Se presenta', f_successor: 'Pasa a', f_refused: 'Rechazados', ok: 'guarda', leaderRole: 'líder', follower: 'seguidor', candidate: 'candidato', undefined: 'no conoce líder', alone: 'nadie: está solo', token: 'Este agente pide un testigo.', tokenLabel: 'Testigo', enter: 'Entrar', and: ', luego ',
  },
})
