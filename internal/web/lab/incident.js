// An incident of a real cluster: what its members have recorded, as a run that can be played.

import { t } from './texts.js'
import { decimal, lang } from './shared/page.js'
import { causes } from './shared/words.js'

const margin = 3000, quiet = 60_000 // ms around what is shown; ms without a change that end it

// exact is a time in ms, with its micro- and nanoseconds.
const exact = text => Date.parse(text.slice(0, 19) + 'Z') + Number('0.' + (text.match(/\.(\d+)/)?.[1] ?? '0')) * 1000

const units = { ns: 1e-6, 'µs': 1e-3, us: 1e-3, ms: 1, s: 1000, m: 60_000, h: 3_600_000 }
const duration = text => [...String(text ?? '').matchAll(/([\d.]+)(ns|µs|us|ms|s|m|h)/g)].reduce((sum, [, n, unit]) => sum + n * units[unit], 0)

const tokenOf = text => { const [epoch, leader] = /^(\d+):(.*)$/s.exec(text ?? '')?.slice(1) ?? []; return { epoch: Number(epoch ?? 0), leader: leader ?? '' } }

// recorded makes of an incident what a picture needs, and the stops of a tour through it.
export function recorded(incident) {
  if (incident?.batuta !== 'incident' || !incident.members.length) throw new Error('not an incident')
  const { election } = incident.status
  const witnesses = incident.members.filter(w => w.history).map(w => read(w, election))
  const shifts = align(witnesses)
  const ids = [...new Set([...(incident.status.members ?? []).map(m => m.id), ...witnesses.map(w => w.id)])]
  const changes = witnesses.flatMap(w => w.changes.map(c => c.at)).sort((a, b) => a - b)
  let first = changes.length - 1
  while (first > 0 && changes[first] - changes[first - 1] < quiet) first--
  const all = witnesses.flatMap(w => w.records).sort((a, b) => a.at - b.at)
  const from = (changes[first] ?? all[0]?.at ?? 0) - margin, to = (changes.at(-1) ?? all.at(-1)?.at ?? 0) + margin
  const index = new Map(ids.map((id, i) => [id, i]))
  const inside = all.filter(r => r.at >= from && r.at <= to && index.has(r.by)).map(r => ({ ...r, at: r.at - from }))
  const { flights, causeOf } = flown(inside.filter(r => r.message), index)
  const members = ids.map(id => ({ id, priority: incident.status.members?.find(m => m.id === id)?.priority ?? 0, absent: false, observer: false }))
  const events = inside.filter(r => !r.message).map(r => ({ at: r.at, m: index.get(r.by), what: r.what, peer: r.peer, ...tokenOf(r.token), why: r.why, cause: causeOf(r) }))
  ids.forEach((id, i) => {
    const w = witnesses.find(x => x.id === id), began = w ? w.began - from : Infinity
    if (w && began <= 0) {
      const last = w.changes.findLast(c => c.at < from)
      if (last && last.event !== 'lost') events.push({ at: 0, m: i, what: last.leader === id ? 'leads' : 'follows', peer: last.leader, epoch: last.epoch, leader: last.leader, cause: -1 })
      return
    }
    const told = others(id, i, began, events, witnesses, from)
    if (w && !told.some(x => x.what === 'leads')) told.length = 0 // it was missed because it had not begun
    members[i].absent = told.length ? told[0].what === 'starts' : Boolean(w)
    if (!told.length && !w) told.push({ at: 0, m: i, what: 'falls silent', fault: true, cause: -1 })
    events.push(...told)
    if (w) events.push({ at: began, m: i, what: 'starts', fault: true, cause: -1 })
  })
  events.sort((a, b) => a.at - b.at || (b.fault ? 1 : 0) - (a.fault ? 1 : 0))
  const { heartbeat, t_max, t_process, t: silence } = incident.status.timing ?? {}
  const played = {
    algorithm: incident.status.algorithm, ring: incident.status.successor != null, members, events, flights, links: [], steps: [], more: false, elapsed: to - from, trace: '',
    timing: { heartbeat: duration(heartbeat), tMax: duration(t_max), tProcess: duration(t_process), t: duration(silence) },
  }
  return { played, tour: { name: '', title: both(l => say(l, 'i_title', { cluster: incident.status.cluster, time: new Date(from + margin).toISOString().slice(0, 19).replace('T', '\u00a0').replaceAll('-', '\u2060-\u2060') })), stops: stopsOf(incident, played, from, shifts) } }
}

// read is a member's records and changes of leadership, by the clock of who gathered them.
function read(w, election) {
  const at = time => exact(time) - w.ahead * 1000
  const seen = new Map()
  for (const r of [...w.history.events.flatMap(e => e.records ?? []), ...w.trace ?? []]) {
    if (r.election === election) seen.set([r.time, r.what, r.message, r.peer, r.token].join('|'), { ...r, by: w.id, at: at(r.time) })
  }
  const changes = w.history.events.filter(e => e.seat == null && ['leader', 'lost', 'renewed'].includes(e.event)).map(e => ({ ...e, at: at(e.time) }))
  return { id: w.id, began: at(w.history.began), records: [...seen.values()], changes }
}

// paired finds for each message that was sent its arrival: the last with the last, since the
// oldest records are those that are gone. What has no counterpart remains without one.
function paired(records) {
  const kept = new Map()
  for (const r of records) {
    const sends = r.what === 'sends', key = JSON.stringify([...sends ? [r.by, r.peer] : [r.peer, r.by], r.message, r.token])
    if (!kept.has(key)) kept.set(key, [[], []])
    kept.get(key)[sends ? 0 : 1].push(r)
  }
  return [...kept.values()].flatMap(([sent, got]) => Array.from({ length: Math.max(sent.length, got.length) }, (_, i) => [sent.at(-1 - i), got.at(-1 - i)]))
}

// align moves each member's times so that no message arrives before it is sent, half way between
// what those to and from the first one allow; it gives by how much.
function align(witnesses) {
  const [base, ...rest] = witnesses, shifts = new Map(witnesses.map(w => [w.id, 0]))
  for (const w of rest) {
    let low = -Infinity, high = Infinity
    for (const [s, r] of paired([...base.records, ...w.records].filter(x => x.message && [base.id, w.id].includes(x.peer)))) {
      if (!s || !r || Math.abs(s.at - r.at) > 1000) continue
      if (s.by === base.id) low = Math.max(low, s.at - r.at)
      else high = Math.min(high, r.at - s.at)
    }
    const shift = low > high ? 0 : low > -Infinity && high < Infinity ? (low + high) / 2 : Math.min(Math.max(0, low), high)
    shifts.set(w.id, shift)
    for (const x of [...w.records, ...w.changes]) x.at += shift
    w.began += shift
  }
  return shifts
}

// flown makes messages in flight of records. One whose sender has kept no record is drawn as sent
// shortly before; one whose arrival is not recorded has none.
function flown(records, index) {
  const last = new Map(), flights = []
  for (const [s, r] of paired(records)) {
    const from = index.get(s?.by ?? r.peer), to = index.get(r?.by ?? s.peer)
    if (from === undefined || to === undefined) continue
    const sent = s?.at ?? r.at - 0.2
    flights.push({ kind: (s ?? r).message, from, to, sent, arrived: r ? Math.max(r.at, sent + 0.01) : -1, ...tokenOf((s ?? r).token), drop: r?.what === 'drops' ? r.why : undefined, cause: -1 })
  }
  flights.sort((a, b) => a.sent - b.sent)
  flights.forEach((f, i) => { if (f.arrived >= 0) last.set(f.to, [...last.get(f.to) ?? [], i]) })
  const causeOf = r => (last.get(index.get(r.by)) ?? []).findLast(i => flights[i].arrived <= r.at + 1e-6 && r.at - flights[i].arrived < 5) ?? -1
  return { flights, causeOf }
}

// others is what the others have recorded of a member that has no records of its own until then.
function others(id, i, until, events, witnesses, from) {
  const led = events.filter(e => e.what === 'follows' && e.leader === id && e.at < until).map(e => ({ at: e.at, epoch: e.epoch }))
  for (const w of witnesses) {
    const last = w.changes.findLast(c => c.at < from)
    if (last && last.event !== 'lost' && last.leader === id) led.push({ at: 0, epoch: last.epoch })
  }
  led.sort((a, b) => a.at - b.at)
  const told = led.filter((x, k) => led.findIndex(y => y.epoch === x.epoch) === k).map(x => ({ at: x.at, m: i, what: 'leads', epoch: x.epoch, leader: id, cause: -1 }))
  const begins = told[0]?.at ?? 0, missed = e => ['finds down', 'loses'].includes(e.what) && e.peer === id && e.at < until && !/^(superseded|resigned)/.test(e.why)
  if (events.some(e => missed(e) && e.at < begins)) told.unshift({ at: begins, m: i, what: 'starts', fault: true, cause: -1 }) // missed before it led: it had not begun
  const gone = events.find(e => missed(e) && e.at > (told.at(-1)?.at ?? 0))
  if (gone) told.push({ at: gone.at, m: i, what: /refuses|connection|crashed/.test(gone.why) ? 'crashes' : 'falls silent', fault: true, why: gone.why, cause: -1 })
  return told
}

const both = make => ({ en: make('en'), es: make('es') })

const say = (l, key, values) => l === lang ? t(key, values) : ''

// changesOf are the changes of leadership, each as the first member has it that detected more
// than its successor; from is where the picture begins.
function changesOf(incident, from, shifts) {
  const found = new Map(), late = c => c.cause === 'superseded' ? 1 : 0
  incident.members.forEach(w => (w.changes ?? []).forEach(own => {
    const c = { ...own, by: w.id, at: exact(own.time) - w.ahead * 1000 + shifts.get(w.id) - from }
    const key = c.lost ? `${c.lost_epoch}:${c.lost}` : `began ${c.epoch}:${c.leader}`, old = found.get(key)
    if (!old || late(c) < late(old) || late(c) === late(old) && c.at < old.at) found.set(key, { ...c, leader: c.leader ?? old?.leader, epoch: c.epoch || old?.epoch })
  }))
  const list = [...found.values()].sort((a, b) => a.at - b.at)
  return list.filter(c => c.lost || !list.some(o => o !== c && o.lost && o.epoch === c.epoch && o.leader === c.leader))
}

// stopsOf are the changes of leadership within the run.
function stopsOf(incident, played, from, shifts) {
  const missing = incident.members.filter(w => !w.history).map(w => t('i_missing', { id: w.id || '?', why: w.error })).join(' ')
  const doubt = Math.max(...incident.members.map(w => w.doubt ?? 0)) * 1000
  const stops = [{ at: 0, text: both(l => say(l, 'i_start', { ids: incident.members.filter(w => w.history).map(w => w.id).join(', '), missing, doubt: decimal(doubt, 1) })) }]
  for (const c of changesOf(incident, from, shifts)) {
    const { at } = c
    if (at < 0 || at > played.elapsed) continue
    const losses = c.lost ? played.events.filter(e => e.what === 'loses' && e.epoch === c.lost_epoch && e.leader === c.lost && Math.abs(e.at - at) < 1000) : []
    const begins = losses[0]?.at ?? at // as the first detected it
    if (c.lost) stops.push({ at: losses.find(e => played.members[e.m].id === c.by)?.at ?? at, text: both(l => say(l, 'i_lost', { lost: c.lost, epoch: c.lost_epoch, cause: l === 'en' ? c.why : causes[c.cause] ?? c.why })) })
    if (!c.leader) continue
    const when = (what, all = false) => { const list = played.events.filter(e => e.what === what && e.epoch === c.epoch && e.leader === c.leader && e.at > 0).map(e => e.at - begins); return list.length ? decimal(all ? Math.max(...list) : list[0], 1) : '?' }
    const until = Math.max(at, ...played.events.filter(e => e.what === 'follows' && e.epoch === c.epoch).map(e => e.at))
    stops.push({ at: until, text: both(l => say(l, !c.lost ? 'i_began' : when('claims') === '?' ? 'i_led' : 'i_leads', { leader: c.leader, epoch: c.epoch, claims: when('claims'), leads: when('leads'), all: when('follows', true) })) })
  }
  return stops.sort((a, b) => a.at - b.at)
}
