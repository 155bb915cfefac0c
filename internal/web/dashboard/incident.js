// The incident that the lab opens: what "batuta explain --lab" writes, as far as this agent knows it.
// Its own steps and messages, and the leaderships that the other members have seen.

import { causes } from './shared/words.js'
import { get } from './agent.js'
import { exact } from './times.js'

export async function incident() {
  const [status, history, trace] = await Promise.all([get('v1/status'), get('v1/history'), get('v1/trace')])
  let gathered = await get('v1/histories', 6000)
  while (exact(gathered.at) < exact(history.now)) { // an answer of the last second, in which a member may have died
    await new Promise(done => setTimeout(done, 300))
    gathered = await get('v1/histories', 6000)
  }
  const members = gathered.members.map(m => m.id === status.id ? { ...m, history, trace, changes: changesOf(history.events) }
    : m.history ? { ...m, trace: stepsOf(m, status.election), changes: changesOf(m.history.events) } : m)
  return JSON.stringify({ batuta: 'incident', status, members })
}

const leaderships = events => events.filter(e => e.seat == null && ['leader', 'renewed', 'lost'].includes(e.event))

// changesOf are the changes of leadership: each loss with the leader that came next.
function changesOf(events) {
  const list = []
  let lost = null
  for (const e of leaderships(events)) {
    if (e.event === 'lost') list.push(lost = { time: e.time, lost: e.leader, lost_epoch: e.epoch, cause: e.cause, why: causes[e.cause] ?? e.cause, leader: null, epoch: 0 })
    else {
      if (lost) Object.assign(lost, { leader: e.leader, epoch: e.epoch })
      else list.push({ time: e.time, lost: null, lost_epoch: 0, cause: e.event, why: '', leader: e.leader, epoch: e.epoch })
      lost = null
    }
  }
  return list
}

// stepsOf makes steps of the leaderships of a member that is not asked for its own.
const stepsOf = ({ id, history }, election) => leaderships(history.events).map(e => ({
  time: e.time, election, member: id, what: e.event === 'lost' ? 'loses' : e.leader === id ? 'leads' : 'follows', peer: e.leader, token: `${e.epoch}:${e.leader}`, why: e.cause ?? '',
}))
