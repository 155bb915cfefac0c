// The members in a circle, and the messages that fly between them.

import { h, s, set, text } from './shared/dom.js'
import { short } from './shared/words.js'
import { family } from './model.js'

const readable = 12 // messages at a time whose content is written beside them
const dot = 6 // of a message, from its middle: what no label of another covers
const tall = [760, 520], broad = [880, 470] // of the picture; broad: in a room, where both pictures are on the screen

const shapes = {
  ask: 'M9 0 L-6 -7 L-6 7 Z', // points where it goes
  answer: 'M6.5 0 A6.5 6.5 0 1 0 -6.5 0 A6.5 6.5 0 1 0 6.5 0 Z',
  tell: 'M9 0 L0 7.5 L-9 0 L0 -7.5 Z',
  hand: 'M-6 -6 H6 V6 H-6 Z',
  know: 'M7 0 L3.5 6 H-3.5 L-7 0 L-3.5 -6 H3.5 Z',
  beat: 'M2.6 0 A2.6 2.6 0 1 0 -2.6 0 A2.6 2.6 0 1 0 2.6 0 Z',
}

// shapeOf is the path of a kind of message.
export const shapeOf = kind => shapes[family(kind)]

export class Circle {
  // on: { member(i, element), link(a, b, element), flight(flight), partition(sides) }
  constructor(root, t, on) {
    this.t = t
    this.on = on
    this.links = s('g')
    this.nodes = s('g')
    this.air = s('g', { class: 'air', 'aria-hidden': 'true' })
    this.knife = s('line', { class: 'knife', visibility: 'hidden' })
    this.sides = s('g', { 'aria-hidden': 'true' })
    this.svg = s('svg', { class: 'circle', role: 'group', 'aria-label': t('circle') }, this.sides, this.links, this.air, this.nodes, this.knife)
    root.append(this.svg)
    this.pool = []
    this.lengths = new Map()
    this.tags = Array.from({ length: readable }, () => s('text', { class: 'payload' }))
    this.air.append(...this.tags)
    this.#knifeWork()
  }

  show(model) {
    this.model = model
    const n = model.members.length
    this.r = Math.max(9, Math.min(34, 620 / (n + 9)))
    this.short = short(model.members.map(m => m.id))
    const [width, height] = this.extent = this.big && innerWidth >= 960 ? broad : tall
    set(this.svg, 'viewBox', `0 0 ${width} ${height}`)
    const rx = Math.min(width * .395, 170 + 22 * n), ry = Math.min(height / 2 - (this.big && this.extent === tall ? 104 : 92), 124 + 14 * n) // the labels of a lecture on a phone are larger
    this.places = model.members.map((_, i) => {
      const turn = n === 1 ? -Math.PI / 2 : -Math.PI / 2 + 2 * Math.PI * ((i + 1) % n) / n // the highest on top
      return { x: width / 2 + (n === 1 ? 0 : rx * Math.cos(turn)), y: height / 2 + 8 + (n === 1 ? 0 : ry * Math.sin(turn)) }
    })
    this.#links(model)
    this.#nodes(model)
    for (const el of this.pool) el.remove()
    this.pool = []
  }

  #links(model) {
    this.links.textContent = ''
    this.lines = []
    const n = model.members.length
    for (let a = 0; a < n; a++) {
      for (let b = a + 1; b < n; b++) {
        const ring = model.ring && (b === a + 1 || a === 0 && b === n - 1)
        const p = this.places[a], q = this.places[b]
        const line = s('line', { x1: p.x, y1: p.y, x2: q.x, y2: q.y, class: 'link' })
        const cross = s('path', { class: 'scissors', visibility: 'hidden' })
        const grip = s('line', { x1: p.x, y1: p.y, x2: q.x, y2: q.y, class: 'grip' })
        grip.append(s('title', {}, this.t('link', { a: model.members[a].id, b: model.members[b].id })))
        grip.addEventListener('click', event => this.on.link(a, b, event))
        const dense = n > 12 && !ring
        this.links.append(s('g', { class: ring ? 'ring' : dense ? 'faint' : '' }, line, cross, dense && n > 24 ? null : grip))
        this.lines.push({ a, b, line, cross, ring })
      }
    }
  }

  #nodes(model) {
    const focused = this.members?.findIndex(m => m.hit === document.activeElement)
    this.nodes.textContent = ''
    const next = i => this.places[(i + 1) % this.places.length]
    const finger = this.big ? 64 : 52 // the circle of a lecture is smaller on a phone
    const near = Math.max(this.r, Math.min(finger, ...this.places.map((p, i) => Math.hypot(p.x - next(i).x, p.y - next(i).y) / 2 || finger)))
    this.members = model.members.map((m, i) => {
      const { x, y } = this.places[i], r = this.r
      const ring = s('circle', { r, class: 'body' })
      const halo = s('circle', { r: r + 6, class: 'halo', visibility: 'hidden' })
      const id = s('text', { class: m.id.length > 3 ? 'id long' : 'id', 'aria-hidden': 'true', dy: '.35em', 'font-size': idSize(this.short(m.id), r) }, this.short(m.id))
      const mark = s('path', { class: 'mark', visibility: 'hidden' })
      const crown = s('g', { class: 'crown', transform: `translate(0 ${-r - 9})`, visibility: 'hidden' },
        s('path', { d: 'M-13 0 L-16 -15 L-7 -8 L0 -19 L7 -8 L16 -15 L13 0 Z' }))
      const paused = s('path', { class: 'paused', d: `M${r * .62} ${-r * .95} v${-r * .36} m${r * .26} 0 v${r * .36}`, visibility: 'hidden' })
      const below = this.places[i].y > this.extent[1] / 2 + 2
      const say = s('text', { class: 'say', 'aria-hidden': 'true', y: below ? r + 17 : -r - 17, dy: below ? '.8em' : '-.2em' }, '')
      const runs = Array.from({ length: 2 }, (_, k) => s('circle', { class: 'run', r: r + 6.5 + 6 * k, pathLength: 1, transform: 'rotate(-90)', visibility: 'hidden' }))
      if (model.members.length > 16) say.setAttribute('display', 'none')
      const hit = s('g', { class: 'hit', tabindex: '0', role: 'button' }, s('circle', { r: near, class: 'near' }), ring, mark)
      const g = s('g', { class: 'member', transform: `translate(${x} ${y})` }, runs, halo, hit, id, crown, paused, say)
      hit.addEventListener('click', event => this.on.member(i, event))
      hit.addEventListener('keydown', event => {
        if (event.key !== 'Enter' && event.key !== ' ') return
        event.preventDefault()
        event.stopPropagation()
        this.on.member(i, event)
      })
      this.nodes.append(g)
      return { g, hit, ring, halo, mark, crown, paused, say, below, runs }
    })
    this.members[focused]?.hit.focus({ preventScroll: true })
  }

  render(now) {
    if (!this.model) return
    const states = this.model.states(now), px = el => parseFloat(getComputedStyle(el).fontSize)
    this.said = px(this.members[0].say) // what a phone and a projector show larger
    this.size = px(this.tags[0])
    states.forEach((state, i) => this.#member(i, state, now))
    let changed = this.parted !== this.model
    for (const l of this.lines) changed = this.#link(l, now) || changed
    if (changed) this.#sides()
    this.#fly(now)
  }

  #member(i, state, now) {
    const el = this.members[i], m = this.model.members[i], r = this.r
    set(el.g, 'class', `member ${state.condition} ${state.role} ${state.healthy ? '' : 'sick'} ${state.removed ? 'removed' : ''}`)
    set(el.paused, 'visibility', state.paused && state.condition === 'alive' ? 'visible' : 'hidden')
    const colour = state.epoch && state.role !== 'claims' ? this.model.leaderships.colour(state.epoch, state.leader) : ''
    if (el.colour !== colour) { el.colour = colour; el.g.style.setProperty('--own', colour || 'var(--soft)') }
    set(el.halo, 'visibility', state.role === 'claims' ? 'visible' : 'hidden')
    set(el.crown, 'visibility', state.role === 'leads' && state.condition !== 'dead' ? 'visible' : 'hidden')
    const k = r * 0.62
    const marks = { dead: `M${-k} ${-k} L${k} ${k} M${k} ${-k} L${-k} ${k}`, off: `M0 ${-k * 1.1} V${-k * .1} M${-k * .7} ${-k * .6} A${k} ${k} 0 1 0 ${k * .7} ${-k * .6}`,
      frozen: `M0 ${-k} V${k} M${-k * .87} ${-k / 2} L${k * .87} ${k / 2} M${-k * .87} ${k / 2} L${k * .87} ${-k / 2}` }
    const mark = marks[state.condition]
    set(el.mark, 'visibility', mark ? 'visible' : 'hidden')
    if (mark) set(el.mark, 'd', mark)
    const words = this.words(state, this.#runs(el, i, state, now))
    text(el.say, words)
    const half = this.#wide(el.say, this.said) / 2 + 4, high = this.said * 1.1 + 4, far = r + 17 + Math.max(0, this.said - 24) / 2, { x, y } = this.places[i], [width, height] = this.extent
    set(el.say, 'x', (Math.max(half, Math.min(width - half, x)) - x).toFixed(1)) // within the picture, its outline too
    set(el.say, 'y', (el.below ? Math.min(far, height - high - y) : Math.max(state.role === 'leads' && state.condition !== 'dead' ? -far - 14 : -far, high - y)).toFixed(1))
    set(el.hit, 'aria-label', this.t('memberLabel', { id: m.id, state: words }))
  }

  // runs draws what runs out at a member as rings round it: inside its T, its lease or its promise,
  // outside what it has asked: until when it waits, or the answers as parts that fill up.
  #runs(el, i, state, now) {
    const waits = ['alive', 'frozen'].includes(state.condition) ? this.model.waiting(i, now) : {}
    const inner = waits.lease ?? waits.leader ?? waits.promise, outer = waits.votes ?? waits.answers ?? waits.campaign
    if (waits.answers) waits.asked = this.model.asked(i, waits.answers.from, now)
    const parts = waits.votes ? Array.from({ length: waits.votes.need }, (_, k) => k < waits.votes.got) : []
    el.runs.forEach((ring, k) => {
      const x = [inner, outer][k]
      set(ring, 'visibility', x && this.r > 12 ? 'visible' : 'hidden')
      if (!x) return
      set(ring, 'class', `run ${x.for}${x.left < .34 && !x.need ? ' low' : ''}`)
      const each = 1 / (parts.length || 1)
      set(ring, 'stroke-dasharray', x.need ? parts.map(full => full ? `${each - .06} .06` : `0 ${each}`).join(' ') : `${x.left.toFixed(3)} 2`)
    })
    return waits
  }

  // words says in short how a member is; waits: what runs out at it.
  words(state, waits = {}) {
    const t = this.t
    if (state.removed && (state.condition !== 'alive' || state.role === 'none')) return t('isRemoved')
    switch (state.condition) {
      case 'dead': return t('isDead')
      case 'off': return t('isOff')
      case 'absent': return t('isAbsent')
      case 'frozen': return t('isFrozen')
      case 'silent': return t('isSilent')
    }
    const sick = (state.healthy ? '' : ' · ' + t('isSick')) + (state.paused ? ' · ' + t('isPaused') : '') + (state.removed ? ' · ' + t('isRemoved') : '')
    if (waits.asked?.size && state.role !== 'leads') return t('isAsking', { got: [...waits.asked.values()].filter(Boolean).length, of: waits.asked.size }) + sick
    switch (state.role) {
      case 'leads': return t('isLeader', { epoch: state.epoch }) + sick
      case 'follows': return t('isFollower', { leader: state.leader, epoch: state.epoch }) + sick
      case 'claims': return t('isClaiming', { epoch: state.epoch }) + sick
    }
    if (waits.votes) return t('isVoting', { ...waits.votes, got: Math.min(waits.votes.got, waits.votes.need) }) + sick
    if (waits.promise?.peer) return t('isPromised', waits.promise) + sick
    return t('isUndefined') + sick
  }

  #link(l, now) {
    const there = this.model.isCut(l.a, l.b, now), back = this.model.isCut(l.b, l.a, now)
    const cut = there && back ? 'both' : there ? 'there' : back ? 'back' : ''
    if (l.cut === cut) return false
    l.cut = cut
    l.line.setAttribute('class', 'link' + (cut ? ' cut' : ''))
    l.cross.setAttribute('visibility', cut ? 'visible' : 'hidden')
    const p = this.places[l.a], q = this.places[l.b]
    const angle = Math.atan2(q.y - p.y, q.x - p.x) * 180 / Math.PI
    l.cross.setAttribute('transform', `translate(${(p.x + q.x) / 2} ${(p.y + q.y) / 2}) rotate(${angle})`)
    // Both ways: a cross. One way: a bar, before it the arrow that does not get through.
    l.cross.setAttribute('d', { both: 'M-8 -8 L8 8 M8 -8 L-8 8', there: 'M7 -11 V11 M-13 0 H1 M-5 -6 L1 0 L-5 6', back: 'M-7 -11 V11 M13 0 H-1 M5 -6 L-1 0 L5 6' }[cut] || '')
    return true
  }

  // sides shades what a partition has parted: members that reach each other, by whatever way.
  #sides() {
    this.parted = this.model
    const side = this.places.map((_, i) => i), root = i => side[i] === i ? i : root(side[i])
    for (const l of this.lines) if (l.cut !== 'both') side[root(l.a)] = root(l.b)
    const groups = Map.groupBy(side.keys(), root)
    this.sides.replaceChildren(...groups.size < 2 ? [] : [...groups.values()].map((list, k) => {
      const d = list.map((i, at) => `${at ? 'L' : 'M'}${this.places[i].x.toFixed(1)} ${this.places[i].y.toFixed(1)}`).join(' ')
      return s('path', { class: `part part${k % 3}`, d: d + ' Z', 'stroke-width': 2 * this.r + 44 })
    }))
  }

  #fly(now) {
    const flights = this.quiet ? this.model.under(now).filter(f => family(f.kind) !== 'beat') : this.model.under(now)
    const shown = Math.min(flights.length, 600)
    while (this.pool.length < shown) {
      const el = s('path', { class: 'message' })
      el.append(s('title'))
      el.addEventListener('click', () => el.flight && this.on.flight(el.flight))
      this.tags[0].before(el)
      this.pool.push(el)
    }
    let tag = 0
    const [width, height] = this.extent
    const taken = this.#taken()
    const told = flights.filter(f => family(f.kind) !== 'beat').length <= readable, labeled = []
    this.pool.forEach((el, i) => {
      const f = flights[i]
      if (i >= shown) { set(el, 'visibility', 'hidden'); return }
      if (el.flight !== f) {
        el.flight = f
        set(el, 'd', shapeOf(f.kind))
        set(el, 'class', 'message ' + family(f.kind))
        el.firstChild.textContent = this.label(f)
      }
      const p = this.places[f.from], q = this.places[f.to]
      const length = Math.hypot(q.x - p.x, q.y - p.y) || 1, gap = Math.min((this.r + 4) / length, .4)
      const k = gap + (1 - 2 * gap) * this.model.progress(f, now)
      // Keep to the right, so that two that meet are seen.
      const side = this.r > 14 ? 5 : 2
      const x = p.x + (q.x - p.x) * k - (q.y - p.y) / length * side, y = p.y + (q.y - p.y) * k + (q.x - p.x) / length * side
      el.setAttribute('transform', `translate(${x.toFixed(1)} ${y.toFixed(1)}) rotate(${(Math.atan2(q.y - p.y, q.x - p.x) * 57.29578).toFixed(1)})`)
      set(el, 'visibility', 'visible')
      if (!told || family(f.kind) === 'beat') return
      labeled.push({ f, x, y, near: Math.abs(this.model.progress(f, now) - .5) > .42 })
    })
    for (const { f, x, y, near } of labeled) {
      if (near) continue // it would lie upon a member
      const label = this.tags[tag]
      text(label, payload(f))
      const wide = this.#wide(label, this.size), high = this.size
      const inward = [1, 1.5].map(k => [k * (wide / 2 + 13) * Math.sign(width / 2 - x), k * (11 + high) * Math.sign(height / 2 - y)])
      const spot = [[0, -11], [0, 11 + .75 * high], [wide / 2 + 13, .35 * high], [-wide / 2 - 13, .35 * high],
        [wide / 2, 11 + .75 * high], [-wide / 2, 11 + .75 * high], [wide / 2, -11], [-wide / 2, -11], ...inward]
        .map(([dx, dy]) => ({ x: x + dx, y: y + dy, box: [x + dx - wide / 2 - 3, y + dy - high, x + dx + wide / 2 + 3, y + dy + .25 * high] }))
        .find(({ box: [a, b, c, d] }) => a >= 0 && c <= width && !taken.some(([e, g, h, k]) => a < h && c > e && b < k && d > g)
          && !labeled.some(m => m.f !== f && a < m.x + dot && c > m.x - dot && b < m.y + dot && d > m.y - dot))
      if (!spot) continue // it would lie upon another's: the tip has it
      taken.push(spot.box)
      tag++
      label.setAttribute('x', spot.x.toFixed(1))
      label.setAttribute('y', spot.y.toFixed(1))
    }
    for (; tag < readable; tag++) text(this.tags[tag], '')
  }

  // wide is how long a label is: a text of one size is measured once.
  #wide(label, size) {
    const key = size + label.textContent
    if (!this.lengths.has(key)) this.lengths.set(key, label.getComputedTextLength())
    return this.lengths.get(key)
  }

  // taken are the boxes on which no label may lie: the members, and how each is.
  #taken() {
    const size = this.said
    return this.members.flatMap(({ say, below, runs }, i) => {
      const { x, y } = this.places[i], rings = runs.findLastIndex(ring => ring.getAttribute('visibility') === 'visible') + 1, r = this.r + (rings && 4 + 6 * rings)
      const half = this.#wide(say, size) / 2, at = x + Number(say.getAttribute('x')), low = y + Number(say.getAttribute('y')) + size * (below ? .8 : -.2)
      return [[x - r, y - r, x + r, y + r], ...half ? [[at - half, low - size, at + half, low + .25 * size]] : []]
    })
  }

  // label says in a line what a message is.
  label(f) {
    const m = this.model.members
    let line = `${f.kind.toUpperCase()}  ${m[f.from].id} → ${m[f.to].id}`
    if (f.leader) line += `\n${this.t('ofLeadership', { leader: f.leader, epoch: f.epoch })}`
    if (f.round) line += `\n${this.t('ofRound', { round: f.round, initiator: f.initiator })}`
    if (f.ring) line += `\n${this.t('carries', { ids: f.ring })}`
    return line
  }

  // A line drawn across the empty ground parts the members on its two sides.
  #knifeWork() {
    let from = null
    const point = event => {
      const m = this.svg.getScreenCTM().inverse()
      return new DOMPoint(event.clientX, event.clientY).matrixTransform(m)
    }
    this.svg.addEventListener('pointerdown', event => {
      if (event.button !== 0 || event.target !== this.svg || event.pointerType === 'touch') return
      from = point(event)
      this.svg.setPointerCapture(event.pointerId)
    })
    this.svg.addEventListener('pointermove', event => {
      if (!from) return
      const to = point(event)
      for (const [key, value] of Object.entries({ x1: from.x, y1: from.y, x2: to.x, y2: to.y })) this.knife.setAttribute(key, value)
      this.knife.setAttribute('visibility', 'visible')
    })
    this.svg.addEventListener('pointerup', event => {
      if (!from) return
      const to = point(event), start = from
      from = null
      this.knife.setAttribute('visibility', 'hidden')
      if (Math.hypot(to.x - start.x, to.y - start.y) < 60 || !this.model) return
      const sides = [[], []]
      this.places.forEach((p, i) => {
        const left = (to.x - start.x) * (p.y - start.y) - (to.y - start.y) * (p.x - start.x) > 0
        sides[left ? 0 : 1].push(this.model.members[i].id)
      })
      if (sides[0].length && sides[1].length) this.on.partition(sides)
    })
  }
}

// payload is what a message says, as short as can be: its kind, and whom it is about.
function payload(f) {
  const about = f.ring || (f.leader && `${f.leader} · ${f.epoch}`)
  return f.kind.toUpperCase() + (about ? ` ${about}` : '')
}

function idSize(shown, r) { return Math.max(8, Math.min(r * 0.85, r * 2.6 / Math.max(shown.length, 1) * 1.1)) }
