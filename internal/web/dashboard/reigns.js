// What several members have seen, as one list of leaderships. A member's times are
// brought to the clock of the one asked.

import { exact } from './times.js'

// reigns makes of a history the leaderships and the gaps between them, oldest first, as
// that member has seen them.
export function reigns(history, ahead = 0) {
  const list = []
  let open = null, lostAt = null, waiting = [], ending = []
  for (const e of history.events) {
    if (e.event !== 'leader' && e.event !== 'lost' && e.event !== 'renewed') { waiting.push(...e.records); continue }
    const when = exact(e.time) - ahead, records = [...waiting, ...e.records]
    waiting = []
    if (e.event === 'renewed') { // the leadership goes on: no gap
      if (open) Object.assign(open, { to: when, cause: 'renewed', ended: records })
      open = { leader: e.leader, epoch: e.epoch, from: when, to: null, began: records, ended: [] }
      list.push(open)
      continue
    }
    if (e.event === 'leader') {
      if (lostAt !== null && when - lostAt > 0.05) list.push({ gap: true, from: lostAt, to: when }) // less is one step of the member's
      open = { leader: e.leader, epoch: e.epoch, from: when, to: null, began: records.length ? records : ending, ended: [] } // none: one step ended the last and began this
      list.push(open)
      lostAt = null
      ending = []
      continue
    }
    if (open && open.epoch === e.epoch && open.leader === e.leader) {
      open.to = when
      open.cause = e.cause
      open.ended = records
      open.why = e.why ?? wordOf(records)
    }
    open = null
    lostAt = when
    ending = records
  }
  if (lostAt !== null) list.push({ gap: true, from: lostAt, to: null })
  return list
}

// wordOf is why a leadership ended, as who lost it says: if it resigned, on whose wish.
const wordOf = records => records.find(r => r.what === 'resigns' && r.why)?.why ?? records.find(r => r.what === 'loses')?.why?.replace(/^\w+: /, '')

// merge makes of what members have seen the leaderships of the cluster, the times when
// no member led, and those when two did, as each reports.
export function merge(members) {
  const known = new Map()
  for (const m of members) {
    for (const r of m.reigns) {
      if (r.gap) continue
      const key = r.epoch + ':' + r.leader
      if (!known.has(key)) known.set(key, { leader: r.leader, epoch: r.epoch, views: [] })
      known.get(key).views.push({ by: m.id, doubt: m.doubt, asOf: m.asOf, ...r })
    }
  }
  const list = [...known.values()].map(settle).sort((a, b) => a.from - b.from || a.epoch - b.epoch)
  const twice = []
  list.forEach((a, i) => {
    for (const b of list.slice(i + 1)) {
      const from = Math.max(a.from, b.from), to = Math.min(a.to ?? a.asOf, b.to ?? b.asOf)
      if (a.own && b.own && a.leader !== b.leader && to - from > a.doubt + b.doubt + 1) twice.push({ twice: [a, b], from, to: to === Infinity ? null : to })
    }
  })
  const gaps = []
  let end = null
  for (const r of list) {
    if (end !== null && r.from - end > 0.05) gaps.push({ gap: true, from: end, to: r.from })
    end = Math.max(end ?? -Infinity, r.to ?? Infinity)
  }
  if (end !== null && end !== Infinity) gaps.push({ gap: true, from: end, to: null })
  return [...list, ...gaps, ...twice].sort((a, b) => a.from - b.from)
}

// settle says when a leadership began and ended: by the leader's own word where that is
// there. Else by the first that saw it, and the first that lost it, unless another goes
// by it still. What a member said is as of when it was asked.
function settle({ leader, epoch, views }) {
  const own = views.find(v => v.by === leader)
  const ended = views.filter(v => v.to !== null)
  const open = v => v.to === null && !ended.some(w => w.to > v.asOf)
  const first = ended.reduce((a, b) => !a || b.to < a.to ? b : a, null)
  const from = own ? own.from : Math.min(...views.map(v => v.from))
  const says = own && own.to !== null ? own : own ? (open(own) ? own : first) : views.some(open) ? null : first
  return { leader, epoch, from, to: says?.to ?? null, own: Boolean(own), asOf: own?.asOf ?? Infinity, doubt: own?.doubt ?? 0, cause: says?.cause, views }
}
