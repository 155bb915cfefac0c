// A run as the pictures need it: who is in what state at a moment, and what flies.

import { Leaderships } from './shared/leaderships.js'

const families = {
  election: 'ask', answer: 'answer', coordinator: 'tell', elected: 'tell', resign: 'hand', handover: 'hand',
  beat: 'beat', ack: 'beat', ping: 'beat', pong: 'beat',
  vote: 'ask', 'pre-vote': 'ask', 'vote-answer': 'answer', 'pre-vote-answer': 'answer', append: 'tell', 'append-answer': 'answer', // of a quorum
}

// family tells the kinds of message that look alike.
export const family = kind => families[kind] || 'know'

// removals are what takes a member from the list, or puts it back.
const removals = { reaps: true, removes: true, drops: true, adds: false }

const ends = new Set(['crashes', 'loses power', 'exits', 'falls silent'])

export class Model {
  constructor(played) {
    Object.assign(this, played)
    this.index = new Map(played.members.map((m, i) => [m.id, i]))
    this.leaderships = new Leaderships()
    this.median = this.#median()
    this.#moments()
    this.#spans()
    this.slow = this.flights.filter(f => f.arrived < 0 || f.arrived - f.sent > this.window)
    this.busy = this.#busy()
    this.runs = this.members.map(() => ({}))
    for (const x of this.waits ?? []) (this.runs[x.m][x.for] ??= []).push(x)
  }

  // waiting is what runs out at a member at a moment, by what it is: with the share that is left.
  waiting(i, now) {
    const found = {}
    for (const [what, list] of Object.entries(this.runs[i])) {
      const x = list[upperBound(list, now, x => x.from) - 1]
      if (!x || x.ended < now) continue
      const whole = what === 'answers' || what === 'campaign' ? x.until - x.from : this.timing.t
      found[what] = { ...x, left: Math.max(0, Math.min(1, (x.until - now) / whole)) }
    }
    return found
  }

  // asked are those that a member has asked in the contest that goes on, and whether each has answered.
  asked(i, since, now) {
    const heard = new Map()
    for (let k = lowerBound(this.flights, since - 1e-6, f => f.sent); k < this.flights.length && this.flights[k].sent <= now; k++) {
      const f = this.flights[k]
      if (f.kind === 'election' && f.from === i && !this.ring) heard.set(f.to, heard.get(f.to) ?? false)
      if (f.kind === 'answer' && f.to === i && f.arrived >= 0 && f.arrived <= now && heard.has(f.from)) heard.set(f.from, true)
    }
    return heard
  }

  #median() {
    const times = []
    for (const f of this.flights) if (f.arrived >= 0 && times.length < 4000) times.push(f.arrived - f.sent)
    times.sort((a, b) => a - b)
    const median = Math.max(times[times.length >> 1] || 3, 0.5)
    this.window = 8 * median
    return median
  }

  // moments are the times at which something happens, for steps.
  #moments() {
    const all = this.events.map(e => e.at)
    for (const f of this.flights) {
      if (family(f.kind) === 'beat') continue
      all.push(f.sent)
      if (f.arrived >= 0) all.push(f.arrived)
    }
    all.sort((a, b) => a - b)
    this.moments = all.filter((t, i) => i === 0 || t - all[i - 1] > 1e-6)
  }

  // spans are whose leadership each member goes by, from when to when.
  #spans() {
    this.spans = this.members.map(() => [])
    const open = this.members.map(m => ({ since: 0, state: m.absent ? 'down' : 'none' }))
    const change = (i, at, next) => {
      const last = open[i]
      if (at > last.since || last.state === 'leads') this.spans[i].push({ ...last, until: at })
      open[i] = { ...next, since: at }
    }
    for (const e of this.events) {
      if (e.m < 0) continue
      const next = spanOf(e, open[e.m])
      if (next) change(e.m, e.at, next)
    }
    this.members.forEach((_, i) => this.spans[i].push({ ...open[i], until: Infinity }))
    for (const list of this.spans) for (const span of list) if (span.epoch) span.colour = this.leaderships.colour(span.epoch, span.leader)
  }

  // busy are the stretches in which contests go on: what lies between is dull.
  #busy() {
    const list = []
    const add = (from, to) => {
      const last = list[list.length - 1]
      if (last && from <= last.to) last.to = Math.max(last.to, to)
      else list.push({ from, to })
    }
    const marks = this.events.map(e => [e.at - 2 * this.median, e.at + 4 * this.median])
    for (const f of this.flights) {
      if (family(f.kind) !== 'beat') marks.push([f.sent - this.median, (f.arrived < 0 ? f.sent : Math.min(f.arrived, f.sent + this.window)) + this.median])
    }
    marks.sort((a, b) => a[0] - b[0])
    for (const [from, to] of marks) add(from, to)
    return list
  }

  isBusy(now) {
    let low = 0, high = this.busy.length - 1
    while (low <= high) {
      const mid = (low + high) >> 1
      if (this.busy[mid].to < now) low = mid + 1
      else if (this.busy[mid].from > now) high = mid - 1
      else return true
    }
    return false
  }

  // under are the messages on their way at a moment.
  under(now) {
    const list = []
    let i = lowerBound(this.flights, now - this.window, f => f.sent)
    for (; i < this.flights.length && this.flights[i].sent <= now; i++) {
      const f = this.flights[i]
      if (f.arrived >= now && f.arrived - f.sent <= this.window) list.push(f)
    }
    for (const f of this.slow) {
      if (f.sent > now) break
      if (f.arrived >= now || f.arrived < 0 && (now - f.sent < this.window || this.isCut(f.from, f.to, now))) list.push(f)
    }
    return list
  }

  // progress is how far a message has come, from 0 to 1. One that is held up by a cut
  // stays before the middle until it goes on.
  progress(f, now) {
    const gone = now - f.sent, trip = this.median
    if (f.arrived < 0) return Math.min(0.42, gone / trip * 0.42)
    const whole = f.arrived - f.sent
    if (whole <= this.window) return whole > 0 ? Math.min(gone / whole, 1) : 1
    const left = f.arrived - now
    return left < trip ? 0.42 + 0.58 * (1 - left / trip) : Math.min(0.42, gone / trip * 0.42)
  }

  isCut(from, to, now) {
    return this.links.some(l => l.from === from && l.to === to && l.since <= now && (l.until < 0 || l.until > now))
  }

  // states says how each member is at a moment.
  states(now) {
    if (!this.#at || this.#at.now > now) this.#at = { now: 0, next: 0, list: this.members.map(m => fresh(m)) }
    const at = this.#at
    while (at.next < this.events.length && this.events[at.next].at <= now) {
      const e = this.events[at.next]
      if (e.m >= 0) apply(at.list[e.m], e, at.next)
      const other = removals[e.what] === undefined ? undefined : at.list[this.index.get(e.peer)]
      if (other) other.removed = removals[e.what]
      at.next++
    }
    at.now = now
    return at.list
  }
  #at

  // before is the index of the last event at or before a moment, or -1.
  before(now) { return upperBound(this.events, now, e => e.at) - 1 }

  step(now, by) {
    const list = this.moments
    if (by > 0) return list[upperBound(list, now + 1e-6, x => x)] ?? this.elapsed
    return list[lowerBound(list, now - 1e-6, x => x) - 1] ?? 0
  }

  // counted are the contest's messages sent since the last thing that was done to anyone.
  counted(now) {
    let since = 0
    for (let i = this.before(now); i >= 0; i--) {
      const e = this.events[i]
      if (e.fault || e.what === 'campaigns' || e.what === 'resigns') { since = e.at; break }
    }
    const counts = new Map()
    for (let i = lowerBound(this.flights, since, f => f.sent); i < this.flights.length && this.flights[i].sent <= now; i++) {
      const f = this.flights[i]
      if (['ask', 'answer', 'tell'].includes(family(f.kind))) counts.set(f.kind, (counts.get(f.kind) || 0) + 1)
    }
    return { since, counts }
  }

  // why follows an event or a message back to what set it off.
  why(start) {
    const chain = [start]
    let at = start
    while (at && chain.length < 12) {
      at = this.#causeOf(at)
      if (at) chain.push(at)
    }
    return chain
  }

  #causeOf(x) {
    const o = x.event ?? x.flight
    if (x.event?.fault) return null
    const m = x.event ? o.m : o.from, t = x.event ? o.at : o.sent
    if (o.cause >= 0) {
      const flight = this.flights[o.cause]
      return { flight, at: flight.sent }
    }
    // Something of its own: what it did shortly before about the same matter.
    const from = x.event ? this.events.indexOf(o) - 1 : this.before(t)
    for (let i = from; i >= 0; i--) {
      const e = this.events[i]
      if (e.m !== m && !(x.event && e.fault && this.members[e.m]?.id === o.peer && ['finds down', 'suspects'].includes(o.what))) continue
      if (e === x.event) continue
      if (x.flight && e.at < t - 1e-6) return null
      if (x.event && (o.what === 'leads' || o.what === 'follows') && !['claims', 'adopts', 'is elected'].includes(e.what)) continue
      return { event: e, at: e.at }
    }
    return null
  }
}

function spanOf(e, now) {
  if (e.fault) {
    if (ends.has(e.what)) return { state: 'down' }
    if (e.what === 'starts' || e.what === 'joins') return { state: 'none' }
    if (e.what === 'freezes') return { ...now, frozen: true }
    if (e.what === 'thaws') return { ...now, frozen: false }
    return null
  }
  switch (e.what) {
    case 'leads': case 'renews': return { state: 'leads', epoch: e.epoch, leader: e.leader }
    case 'follows': return { state: 'follows', epoch: e.epoch, leader: e.leader }
    case 'loses': return { state: 'none' }
  }
  return null
}

function fresh(m) { return { condition: m.absent ? 'absent' : 'alive', role: 'none', epoch: 0, leader: '', last: -1, healthy: true, paused: false, removed: false, suspects: new Set() } }

// apply has a member's state follow an event.
function apply(s, e, i) {
  s.last = i
  if (e.fault) {
    switch (e.what) {
      case 'crashes': case 'exits': s.condition = 'dead'; break
      case 'falls silent': s.condition = 'silent'; break
      case 'loses power': s.condition = 'off'; break
      case 'starts': case 'joins': s.condition = 'alive'; s.paused = false; s.suspects = new Set(); break
      case 'freezes': s.condition = 'frozen'; return
      case 'thaws': s.condition = 'alive'; return
      case 'is unhealthy': s.healthy = false; return
      case 'is healthy': s.healthy = true; return
      default: return
    }
    s.role = 'none'; s.epoch = 0; s.leader = ''
    return
  }
  switch (e.what) {
    case 'leads': case 'renews': s.role = 'leads'; s.epoch = e.epoch; s.leader = e.leader; break
    case 'follows': s.role = 'follows'; s.epoch = e.epoch; s.leader = e.leader; break
    case 'loses': s.role = 'none'; s.epoch = 0; s.leader = ''; break
    case 'claims': case 'is elected': s.role = 'claims'; s.epoch = e.epoch; s.leader = e.leader; break
    case 'probes': case 'asks': if (s.role === 'none') s.role = 'asks'; break
    case 'suspects': case 'finds down': s.suspects.add(e.peer); break
    case 'no longer suspects': s.suspects.delete(e.peer); break
    case 'pauses': s.paused = true; break
    case 'resumes': s.paused = false; break
  }
}

export function lowerBound(list, value, of) {
  let low = 0, high = list.length
  while (low < high) {
    const mid = (low + high) >> 1
    if (of(list[mid]) < value) low = mid + 1
    else high = mid
  }
  return low
}

export function upperBound(list, value, of) {
  let low = 0, high = list.length
  while (low < high) {
    const mid = (low + high) >> 1
    if (of(list[mid]) <= value) low = mid + 1
    else high = mid
  }
  return low
}
