// What members do and why they lose, in the page's language.

import { lang } from './page.js'

// What members do, in Spanish; in English the trace's own word stands.
const doings = {
  'crashes': 'cae', 'falls silent': 'enmudece', 'loses power': 'se queda sin corriente', 'starts': 'arranca', 'freezes': 'se congela', 'thaws': 'se descongela', 'joins': 'se une', 'leaves': 'se va', 'exits': 'termina',
  'is unhealthy': 'enferma', 'is healthy': 'sana', 'suspects': 'sospecha de', 'finds down': 'da por caído a', 'spares': 'no da por caído a', 'loses': 'pierde a', 'claims': 'reclama el liderazgo,', 'leads': 'lidera', 'follows': 'sigue a', 'adopts': 'adopta a', 'renews': 'sube su época por encima de', 'doubts': 'duda de los rechazos de',
  'inquires': 'pregunta qué liderazgo hay', 'has inquired': 'ya ha preguntado', 'asks': 'pide el relevo a', 'resigns': 'renuncia', 'campaigns': 'pide elección', 'stalled': 'estuvo parado', 'stands': 'vuelve a presentarse', 'waits': 'espera a', 'awaits': 'aguarda a',
  'restarts': 'empieza otra ronda hacia', 'adds': 'añade a', 'removes': 'quita a', 'drops': 'olvida a', 'refuses': 'se niega ante', 'all links heal': 'se reparan todos los enlaces', 'cut': 'se corta', 'heal': 'se repara', 'sounds': 'consulta a', 'reaches': 'llega a', 'tells': 'avisa a', 'yields': 'cede ante',
  'is elected': 'sale elegido', 'gives up': 'deja el mando', 'makes way for': 'cede el paso a', 'reports': 'informa de',
  'cannot save': 'no puede guardar', 'saves again': 'vuelve a guardar', 'has departed': 'ya no está:', 'connections are reset': 'pierde sus conexiones',
}

// doing is what a record of the trace says that a member does.
export const doing = what => lang === 'es' ? doings[what] ?? what.replace(/^partition /, 'partición ') : what

const reasons = [
  ['it says so', 'así lo anuncia'], ['it says that it has ended', 'anuncia que terminó'], ['it won the contest', 'ganó la elección'], ['it was asked to', 'se le pidió'], ['it refuses the connection', 'rechaza la conexión'], ['its connection closed', 'se cerró su conexión'],
  ['nobody vouches for it', 'nadie responde por él'], ['silent for (.*)', 'silencio de $1'], ['it has just started', 'acaba de arrancar'], ['all have answered or are down', 'todos respondieron o están caídos'], ['unreachable', 'inalcanzable'],
  ['its token is higher', 'su token es mayor'], ['a higher token (.*)', 'un token mayor, $1'], ['another may lead', 'puede liderar otro'], ['to hand over: it outranks the leader', 'para el relevo: es mayor que el líder'], ['it hands over to (.*)', 'entrega el liderazgo a $1'],
  ['(.*) passes it on', 'lo reenvía $1'], ['(.*) hears it', '$1 lo recibe'], ['by (.*)', 'por $1'], ['a majority has voted for it', 'votó por él una mayoría'], ['its lease has ended', 'su lease terminó'], ['it knows no leader', 'no conoce líder'], ['the round is lost', 'se perdió la vuelta'], ['it claims the next epoch', 'reclama la época siguiente'],
  ['crashed', 'caído'], ['silent', 'en silencio'], ['resigned', 'renunció'], ['superseded', 'relevado'], ['stalled', 'estuvo parado'],
].map(([en, es]) => [new RegExp(`^${en}$`), es])

// reason is the Machine's reason in the page's language; one that is not known stays as it is.
export const reason = text => {
  if (lang !== 'es' || !text) return text
  const [cause, rest] = /^(crashed|silent|resigned|superseded|stalled): (.*)$/.exec(text)?.slice(1) ?? []
  if (rest) return `${reason(cause)}: ${reason(rest)}`
  const known = reasons.find(([en]) => en.test(text))
  return known ? text.replace(...known) : text
}

const why = {
  en: { crashed: 'the leader crashed', silent: 'the leader fell silent', resigned: 'it resigned', removed: 'it was removed', stalled: 'this process was stopped for too long', superseded: 'a newer leadership was shown', renewed: 'it goes on under a higher epoch: a partition healed', stopped: 'this member was stopped' },
  es: { crashed: 'el líder cayó', silent: 'el líder enmudeció', resigned: 'renunció', removed: 'se lo quitó', stalled: 'este proceso estuvo parado demasiado tiempo', superseded: 'apareció un liderazgo más nuevo', renewed: 'sigue con una época mayor: se cerró una partición', stopped: 'este miembro se detuvo' },
}

// causes say why a leadership ended, by the cause in the agent's events.
export const causes = why[lang]
