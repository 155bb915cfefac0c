// What is wrong with a scenario, in the page's language.

import { lang } from './shared/page.js'
import { fault } from './shared/words.js'

// By the text's form in the simulator: what it has for each % is $1, $2 … here.
const forms = {
  'expected the end of the line, found %q': 'se esperaba el fin de la línea, no $1',
  'expected %s, found the end of the line': 'se esperaba $1, no el fin de la línea',
  'expected %s, found %q': 'se esperaba $1, no $2',
  'expected %s, such as 150ms, found %q': 'se esperaba $1, como 150ms, no $2',
  'expected %s above 0, found %v': 'se esperaba $1 mayor que 0, no $2',
  'expected %s of at least %v, found %v': 'se esperaba $1 de $2 como mínimo, no $3',
  'expected a range from a lower integer to a higher one, such as 1..50, found %q': 'se esperaba un rango de un entero menor a uno mayor, como 1..50, no $1',
  'expected %s of at least %v, found %v: time does not run backwards': 'se esperaba $1 de $2 como mínimo, no $3: el tiempo no retrocede',
  'expected %s from %d to %d, found %q': 'se esperaba $1, de $2 a $3, no $4',
  'expected a member (%s), found %q': 'se esperaba un miembro ($1), no $2',
  'expected a link between two of the members (%s), such as 1-3 for both ways or 1>3 for one, found %q': 'se esperaba un enlace entre dos de los miembros ($1), como 1-3 en ambos sentidos o 1>3 en uno, no $2',
  'expected a link, such as 1-3 for both ways or 1>3 for one': 'se esperaba un enlace, como 1-3 en ambos sentidos o 1>3 en uno',
  'expected one direction, such as 1>3, found %q': 'se esperaba un solo sentido, como 1>3, no $1',
  'expected "|" and another side, as in 1,2 | 3,4,5': 'se esperaba "|" y otro lado, como en 1,2 | 3,4,5',
  'expected each member on one side, found %s on two': 'se esperaba cada miembro en un lado: el $1 está en dos',
  'expected a line such as "members 1 2 3", found none': 'se esperaba una línea como "members 1 2 3", y no hay ninguna',
  'expected an "end" for this repeat, found none': 'se esperaba un "end" para este repeat, y no hay ninguno',
  'expected a "repeat" before this "end", found none': 'se esperaba un "repeat" antes de este "end", y no hay ninguno',
  'expected a step: %q belongs before the first one': 'se esperaba un paso: $1 va antes del primero',
  'expected one line of %q, found a second': 'se esperaba una sola línea de $1, y hay una segunda',
  'expected a member\'s id: %v': 'se esperaba el id de un miembro: $1',
  'expected a range of at most %d integers, such as 1..50, found %q': 'se esperaba un rango de $1 enteros como máximo, como 1..50, no $2',
  'expected an id of the same kind as %s (%v), found %q (%v)': 'se esperaba un id de la misma clase que $1 ($2), no $3 ($4)',
  'expected each member once, found %s again': 'se esperaba cada miembro una vez: el $1 se repite',
  'expected a seed from 0 to 2^64-1, found %q': 'se esperaba una semilla de 0 a 2^64-1, no $1',
  'expected a step (%s) or a setting (%s), found %q': 'se esperaba un paso ($1) o un ajuste ($2), no $3',
  'expected a step (%s), found %q': 'se esperaba un paso ($1), no $2',
  'expected at most %d steps': 'se esperaban $1 pasos como máximo',
  'expected a time of at least %v: it is later than %v by now, and time does not run backwards': 'se esperaba un tiempo de $1 como mínimo: ya pasó $2, y el tiempo no retrocede',
  'expected two members, found %s twice': 'se esperaban dos miembros, no el $1 dos veces',
  'expected other members for %s to join through, found itself': 'se esperaban otros miembros por medio de los que se una el $1, no él mismo',
  'expected another member at which %s is added, or a priority that it sets for itself, found itself': 'se esperaba otro miembro en el que añadir el $1, o la prioridad que este se da, no él mismo',
  'expected other members for a second %s to join through, found itself': 'se esperaban otros miembros por medio de los que se una un segundo $1, no él mismo',
  'expected a step of a manual script (deliver, fire, beat, pass, crash, restart, freeze, thaw, campaign, suspect, trust), found %s': 'se esperaba un paso de un guion manual (deliver, fire, beat, pass, crash, restart, freeze, thaw, campaign, suspect, trust), no $1',
  'expected "manual" above: otherwise messages and timers come by themselves': 'se esperaba "manual" más arriba: sin él los mensajes y los plazos llegan solos',
  'expected "detector off" above: only the detector suspects while it is on; cut a link instead': 'se esperaba "detector off" más arriba: con detector solo él sospecha; corte un enlace',
  'expected a member with a configured list, found %s, which joins': 'se esperaba un miembro con lista configurada, no el $1, que se une',
  'expected a newcomer, or a member that has left, found %s, which has its list: start or restart it': 'se esperaba un nuevo, o un miembro que se fue, no el $1, que tiene su lista: use start o restart',
  'expected "join %s via …": no member has it on its list': 'se esperaba "join $1 via …": ningún miembro lo tiene en su lista',
  'expected "start %s": it has never run': 'se esperaba "start $1": aún no arrancó nunca',
  'expected an absent member, found %s, which has run before: restart it': 'se esperaba un miembro ausente, no el $1, que ya arrancó: use restart',
  'expected to %s a member that is %s, found %s, which is %s': 'para $1 se esperaba un miembro $2, y el $3 está $4',
  '%d members: give 1 to %d': '$1 miembros: ponga de 1 a $2',
  'from %v to %v: give a range that starts at 0 or later and does not run backwards': 'de $1 a $2: ponga un rango que empiece en 0 o después y no retroceda',
  'settled, and every member is a newcomer or an observer: leave one that leads': 'settled, y todos los miembros son nuevos u observadores: deje uno que lidere',
  'heartbeat %v, t_max %v, t_process %v: none may be negative': 'heartbeat $1, t_max $2, t_process $3: ninguno puede ser negativo',
  'heartbeat %v is not below T = 2·t_max + t_process = %v: a leader would be suspected between two heartbeats; lower the heartbeat or raise t_max': 'heartbeat $1 no es menor que T = 2·t_max + t_process = $2: se sospecharía del líder entre dos latidos; baje heartbeat o suba t_max',
  'silence %v is below T = 2·t_max + t_process = %v: an answer may take that long; raise it, or leave it out for T': 'silence $1 es menor que T = 2·t_max + t_process = $2: una respuesta puede tardar eso; súbalo, u omítalo para que sea T',
  '%s:%d: [%s] expected %s, but %s': '$1:$2: [$3] se esperaba $4, pero $5',
  'it is later by now': 'ya es más tarde',
  'there were %d %s': 'hubo $1 $2',
  'losses of a leader at %s': 'pérdidas de un líder en el $1',
  '%s messages': 'mensajes $1',
  'no second %s was refused': 'no se rechazó a un segundo $1',
  '%s is %s, and no Machine has halted it': 'el $1 está $2, y ninguna Machine lo detuvo',
  '%s lists %s': 'el $1 lista $2',
  '%s has %s for what %s publishes': 'el $1 tiene $2 como lo que publica el $3',
  '%s has %s as %q': 'el $1 tiene al $2 como $3',
  '%s, which is %s, has %s for its leader': 'el $1, que está $2, tiene como líder: $3',
  'probe %q: use all or descending': 'probe $1: use all o descending',
  'algorithm %q: use one of %s': 'algoritmo $1: use uno de $2',
  'id is empty: give a number, an IP address, a UUID or a name': 'el id está vacío: ponga un número, una dirección IP, un UUID o un nombre',
  'id of %d bytes is too long: at most %d': 'un id de $1 bytes es demasiado largo: $2 como máximo',
  'id %q is not UTF-8': 'el id $1 no es UTF-8',
  'id of %d bytes in Unicode\'s form NFC is too long: at most %d': 'un id de $1 bytes en la forma NFC de Unicode es demasiado largo: $2 como máximo',
  'id %q holds %q: leave out white space, control characters, marks that do not print, \'=\' and \'/\'': 'el id $1 contiene $2: quite espacios, caracteres de control, marcas que no se imprimen, \'=\' y \'/\'',
  'id %q begins with the combining mark %q: put a letter before it': 'el id $1 empieza con la marca combinante $2: póngale una letra delante',
}

// What a line lacks, and what a member is.
const parts = {
  'none is declared yet: write "members 1 2 3" first': 'no hay ninguno: escriba antes "members 1 2 3"',
  'a step': 'un paso', 'a member': 'un miembro', 'a member\'s id': 'el id de un miembro', 'a link': 'un enlace', 'a link, such as 1>3': 'un enlace, como 1>3', 'a seed': 'una semilla', 'a number': 'un número', 'an epoch': 'una época', 'a priority': 'una prioridad', 'a weight': 'un peso', 'a time': 'un tiempo', 'a delay': 'una demora',
  'a time since the start': 'un tiempo desde el inicio', 'the shortest time': 'el tiempo más corto', 'the longest time': 'el tiempo más largo', 'how far': 'cuánto salta', 'how often': 'cuántas veces', 'parts per million': 'partes por millón', 'how many lead at once': 'cuántos lideran a la vez', 'how much longer a write takes': 'cuánto más tarda una escritura',
  'how long leadership stays with the leader': 'cuánto conserva el líder el liderazgo', 'the time that a leader\'s work takes to stop': 'el tiempo que tarda en parar el trabajo de un líder', 'how many members a leader needs': 'cuántos miembros necesita un líder', 'how many members found a cluster, or "told"': 'cuántos miembros fundan un clúster, o "told"',
  'an algorithm\'s name': 'el nombre de un algoritmo', 'an option of the algorithm': 'una opción del algoritmo', 'the name of an election': 'el nombre de una elección', 'a timer\'s name, such as answer': 'el nombre de un plazo, como answer', 'a word, or - for nothing': 'una palabra, o - para nada', 'a kind of message, such as election': 'un tipo de mensaje, como election',
  'members, such as 1,2': 'miembros, como 1,2', 'the members of a side, such as 1,2': 'los miembros de un lado, como 1,2', 'the members on the list, such as 1,2': 'los miembros de la lista, como 1,2',
  none: 'ninguno', 'changes of leader': 'cambios de líder', dead: 'caído', alive: 'vivo', frozen: 'congelado', 'without power': 'sin corriente', integer: 'entero', 'IP address': 'dirección IP', name: 'nombre',
}

const literal = form => form.replace(/%[a-z]/g, '')
const known = Object.entries(forms).sort(([a], [b]) => literal(b).length - literal(a).length) // "expected %s, found %q" fits many
  .map(([en, es]) => [new RegExp('^' + en.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replace(/%q/g, '("(?:[^"\\\\]|\\\\.)*"|\'.*\')').replace(/%d/g, '(-?\\d+)').replace(/^%s/, '(\\S+)').replace(/%[a-z]/g, '(.*)') + '$', 's'), es])

const part = given => {
  const [, bare, example] = /^(.*?)(, such as 150ms)?$/s.exec(given)
  if (parts[bare]) return parts[bare] + (example ? ', como 150ms' : '')
  return /^\S+( or \S+)+$/.test(given) ? given.replaceAll(' or ', ' o ') : translated(given) ?? given
}

const translated = given => {
  for (const [en, es] of known) {
    const found = en.exec(given)
    if (found) return es.replace(/\$(\d)/g, (_, n) => part(found[n]))
  }
}

// mistake gives each line of what is wrong; one that is not known is as fault gives it.
export const mistake = given => lang === 'es' ? given.split('\n').map(line => translated(line) ?? fault(line)).join('\n') : given
