// Exercises: tours that ask for a prediction, made by a seed. The same seed gives the same
// exercise to everybody, another one a different cluster.

// dice gives whole numbers from..to, the same after the same seed.
function dice(seed) {
  let a = Math.imul(seed + 1, 0x9E3779B1) >>> 0
  return (from, to) => {
    a = (a + 0x6D2B79F5) >>> 0
    let x = Math.imul(a ^ a >>> 15, a | 1)
    x ^= x + Math.imul(x ^ x >>> 7, x | 61)
    return from + Math.floor(((x ^ x >>> 14) >>> 0) / 2 ** 32 * (to - from + 1))
  }
}

const range = (from, to) => Array.from({ length: to - from + 1 }, (_, i) => from + i)

// parted deals the members 1 to n to two sides, of which neither is empty: [with the highest, without].
function parted(d, n) {
  const other = range(1, n - 1).filter(() => d(0, 1))
  if (!other.length) other.push(d(1, n - 1))
  return [range(1, n).filter(id => !other.includes(id)), other]
}

// all names the members of a side.
const all = (ids, and) => ids.join(', ').replace(/, (\d+)$/, ` ${and} $1`)

const majority = n => (n >> 1) + 1

const makers = {
  bully(d) {
    const n = d(4, 7), dead = d(1, 2), first = d(1, n - dead - 1), gone = range(n - dead + 1, n).reverse()
    return {
      en: 'Bully: count the cascade', es: 'Bully: cuente la cascada',
      scenario: [`members 1..${n}`, 'option all', 'detector off', 'settled', 'fsync none', 'latency 40ms 60ms', 'run 200ms', ...gone.map(id => `crash ${id}`), 'run 200ms', `campaign ${first}`, 'run 2s'],
      stops: [
        ['start', `${n} members, and ${n} leads under epoch 1. Soon ${all(gone, 'and')} will crash. Nothing detects it: this is Bully as in the textbook, in which all ask all higher ones at once.`,
          `${n} miembros, y lidera el ${n} con la época 1. Pronto caerán: ${all(gone, 'y')}. Nada lo detecta: es Bully como en el libro, donde cada uno pregunta a la vez a todos los mayores.`],
        [`${first} campaigns`, `${all(gone, 'and')} crashed, and member ${first} calls an election. Who leads in the end, under which epoch, and how many messages does the election take in all? Count what is sent to the dead too.`,
          `Han caído: ${all(gone, 'y')}. El miembro ${first} pide una elección. ¿Quién lidera al final, con qué época, y cuántos mensajes hacen falta en total? Cuente también los que van a los caídos.`, 'leader', 'epoch', 'messages'],
        ['end', `Each member from ${first} up to ${n - dead} asks all above it, the dead included. Each that lives answers the member that asked. At last ${n - dead}, which got no answer, sends COORDINATOR to the ${n - 1} others.`,
          `Cada miembro del ${first} al ${n - dead} pregunta a todos los mayores, también a los caídos. Cada uno que vive responde al que preguntó. Al final el ${n - dead}, que no recibió respuesta, envía COORDINATOR a los otros ${n - 1}.`],
      ],
    }
  },
  return(d) {
    const n = d(4, 7), two = d(0, 1), keeps = d(0, 1)
    return {
      en: 'A leader dies, and returns', es: 'Un líder muere y vuelve',
      scenario: [`members 1..${n}`, ...keeps ? ['preempt off'] : [], 'settled', 'latency 20ms 40ms', 'run 300ms', ...two ? [`crash ${n - 1}`] : [], `crash ${n}`, 'agree', 'run 400ms', `restart ${n}`, 'agree', 'run 500ms'],
      stops: [
        ['start', `${n} members with a failure detector; ${n} leads under epoch 1.` + (keeps ? ' The leader keeps leadership: "preempt off".' : ' A higher member that returns takes over: "preempt on", the default.'),
          `${n} miembros con detector de fallos; lidera el ${n} con la época 1.` + (keeps ? ' El líder conserva el liderazgo: «preempt off».' : ' Un miembro mayor que vuelve toma el liderazgo: «preempt on», lo normal.')],
        [`* ${n} crashes`, (two ? `${n - 1} and ${n} crash` : `${n} crashes`) + ' at this moment. Who leads next, and under which epoch?', (two ? `Caen en este momento el ${n - 1} y el ${n}.` : `Cae en este momento el ${n}.`) + ' ¿Quién lidera después, y con qué época?', 'leader', 'epoch'],
        [`* ${n} starts`, `The highest that lives has won. Now ${n} starts again. Who leads in the end, and under which epoch?`, `Ha ganado el mayor de los vivos. Ahora el ${n} arranca de nuevo. ¿Quién lidera al final, y con qué época?`, 'leader', 'epoch'],
        ['end', keeps ? `${n} asked before it claimed anything, learned who leads, and follows. Nothing changes hands, so the epoch stays.` : `${n} asked, learned who leads, and asked for leadership. Each change of leader has an epoch of its own.`,
          keeps ? `El ${n} preguntó antes de reclamar nada, supo quién lidera, y lo sigue. Nada cambia de manos, así que la época sigue igual.` : `El ${n} preguntó, supo quién lidera, y pidió el liderazgo. Cada cambio de líder tiene su propia época.`],
      ],
    }
  },
  ring(d) {
    const n = d(4, 9), first = d(1, n)
    return {
      en: 'Chang–Roberts: count the rounds', es: 'Chang–Roberts: cuente las vueltas',
      scenario: [`members 1..${n}`, 'algorithm chang-roberts', 'detector off', 'settled', 'fsync none', 'latency 50ms', 'run 200ms', `campaign ${first}`, `run ${n * 150 + 300}ms`],
      stops: [
        ['start', `${n} members in a ring. Each passes on to the next higher one, and ${n} to 1. A message carries the best candidate so far.`, `${n} miembros en anillo. Cada uno pasa al siguiente mayor, y el ${n} al 1. El mensaje lleva el mejor candidato hasta ahora.`],
        [`${first} campaigns`, `Only member ${first} begins an election. Who wins, and after how many messages in all, ELECTION and ELECTED together?`, `Solo el miembro ${first} empieza una elección. ¿Quién gana, y tras cuántos mensajes en total, ELECTION y ELECTED juntos?`, 'leader', 'messages'],
        ['end', `${n - first} messages until ${n} has the candidate of ${first}, or one better; n = ${n} for its own round; n = ${n} for ELECTED. In all ${n - first} + 2·${n} = ${3 * n - first}.`,
          `${n - first} mensajes hasta que el ${n} recibe el candidato del ${first}, o uno mejor; n = ${n} para su propia vuelta; n = ${n} para ELECTED. En total ${n - first} + 2·${n} = ${3 * n - first}.`],
      ],
    }
  },
  partition(d) {
    const n = d(5, 7), [own, other] = parted(d, n), on = other[d(0, other.length - 1)]
    return {
      en: 'A partition, best effort', es: 'Una partición, mejor esfuerzo',
      scenario: [`members 1..${n}`, 'settled', 'latency 20ms 40ms', 'run 300ms', `partition ${own} | ${other}`, 'run 2500ms', 'heal', 'agree', 'run 500ms'],
      stops: [
        ['start', `${n} members under Bully; ${n} leads under epoch 1. The network will split.`, `${n} miembros con Bully; lidera el ${n} con la época 1. La red se dividirá.`],
        ['* all: partition', `${all(own, 'and')} on one side, ${all(other, 'and')} on the other. How many lead in the end? Which leader has member ${on}, and under which epoch?`, `${all(own, 'y')} a un lado; ${all(other, 'y')} al otro. ¿Cuántos lideran al final? ¿Qué líder tiene el miembro ${on}, y con qué época?`, 'leaders', `leader on ${on}`, `epoch on ${on}`],
        ['* all: all links heal', 'Best effort: each side has the highest of its own. Now the links heal. Who leads all of them in the end?', 'Mejor esfuerzo: cada lado tiene al mayor de los suyos. Ahora se reparan los enlaces. ¿Quién los lidera a todos al final?', 'leaders', 'leader'],
        ['end', 'One leader again. While the network was split there were two: storage that refuses the lower epoch would have refused one of them, and nothing else can.', 'De nuevo un líder. Mientras la red estaba dividida hubo dos: un almacén que rechaza la época menor habría rechazado a uno, y nada más puede hacerlo.'],
      ],
    }
  },
  quorum(d) {
    const n = d(3, 6), [own, other] = parted(d, n), m = majority(n), small = own.length < m ? own : other, on = small[d(0, small.length - 1)]
    return {
      en: 'A partition, with votes', es: 'Una partición, con votos',
      scenario: [`members 1..${n}`, 'algorithm quorum', 'latency 20ms 40ms', 'run 3s', `expect leader ${n}`, `partition ${own} | ${other}`, 'run 4s'],
      stops: [
        ['start', `${n} members vote. No member leads without a majority, ${m} of ${n}.`, `Votan ${n} miembros. Ningún miembro lidera sin una mayoría, ${m} de ${n}.`],
        ['* all: partition', `${n} led. Now ${all(own, 'and')} on one side, ${all(other, 'and')} on the other. How many lead in the end? Which leader has member ${on}?`, `Lideraba el ${n}. Ahora ${all(own, 'y')} a un lado; ${all(other, 'y')} al otro. ¿Cuántos lideran al final? ¿Qué líder tiene el miembro ${on}?`, 'leaders', `leader on ${on}`],
        ['end', own.length >= m ? `The side of ${n} is ${own.length} of ${n}, a majority: it leads on.` : other.length >= m ? `${n} lost its majority and stepped down by itself; ${other.length} of ${n} elected another. There was a gap between, and never two.` : `Neither side has ${m}: there is no leader until the links heal. That is the price of an even number.`,
          own.length >= m ? `El lado del ${n} tiene ${own.length} de ${n}, una mayoría: sigue liderando.` : other.length >= m ? `El ${n} perdió su mayoría y dejó el liderazgo él mismo; ${other.length} de ${n} eligieron a otro. Hubo un hueco, y nunca dos.` : `Ningún lado tiene ${m}: no hay líder hasta que se reparen los enlaces. Es el precio de un número par.`],
      ],
    }
  },
}

export const exercises = Object.keys(makers)

// exercise is the text of a tour, see script.js.
export function exercise(name, seed) {
  const e = makers[name](dice(seed))
  const said = (en, es) => [`en: ${en}`, `es: ${es}`]
  return [...said(e.en, e.es), 'scenario', `seed ${seed}`, ...e.scenario, 'end', ...e.stops.flatMap(([when, en, es, ...asks]) => [`stop ${when}`, ...said(en, es), ...asks.map(ask => `ask ${ask}`)])].join('\n') + '\n'
}
