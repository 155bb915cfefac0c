// The space-time diagram: a lane a member, time to the right, messages as lines that
// slope by how long they take. It grows as time passes.

import { colours, decimal } from './shared/page.js'
import { family, lowerBound, upperBound } from './model.js'
import { shapeOf } from './circle.js'
import { reason, short } from './shared/words.js'

const left = 96, top = 26, right = 18

// told are the events that bear a label, the weightiest first.
const told = ['crashes', 'loses power', 'freezes', 'starts', 'thaws', 'claims', 'is elected', 'steps down', 'reaps', 'removes', 'pauses', 'resumes', 'resigns', 'campaigns', 'asks', 'no longer suspects', 'suspects', 'stalled', 'loses', 'finds down']

export class SpaceTime {
  #stale = true

  // on: { seek(at), pick({event|flight}), stale() }
  constructor(canvas, tip, t, on) {
    this.canvas = canvas
    this.tip = tip
    this.t = t
    this.on = on
    this.width = 400 // ms that are seen
    this.shift = 0
    this.#listen()
    const restyle = () => { this.style = null; this.stale = true }
    addEventListener('themechange', restyle)
    new ResizeObserver(() => { this.stale = true }).observe(canvas)
  }

  show(model) {
    this.model = model
    this.shift = 0
    const n = model.members.length
    this.scale = this.big ? Math.max(1, Math.min(innerWidth / 1280, innerHeight / 800)) : Math.max(1, parseFloat(getComputedStyle(document.documentElement).fontSize) / 15) // a room reads a share of the screen
    this.lane = Math.max(10, Math.min(46, (!this.big ? 420 : innerWidth < 960 ? 140 : 210) / n))
    this.canvas.style.height = (top + this.lane * n + 30) * this.scale + 'px'
    this.stale = true
  }

  zoom(by) {
    this.width = Math.max(8, Math.min(60_000, this.width * by))
    this.stale = true
  }

  // stale: what is drawn is not so any more, though time has not passed.
  get stale() { return this.#stale }
  set stale(is) {
    this.#stale = is
    if (is) this.on.stale()
  }

  get #span() {
    const from = this.now - this.width * 0.8 + this.shift
    return { from, to: from + this.width }
  }

  x(at) {
    const { from, to } = this.#span
    return left + (this.w - left - right) * (at - from) / (to - from)
  }

  at(x) {
    const { from, to } = this.#span
    return from + (x - left) / (this.w - left - right) * (to - from)
  }

  #font(px, most = Infinity) { return `${Math.min(this.big ? Math.min(px * 1.5, this.lane * .6) : px, most)}px system-ui, sans-serif` }

  // The highest is on top, as in every book.
  y(i) { return top + this.lane * (this.model.members.length - 1 - i + 0.5) }

  render(now, picked) {
    if (!this.model || now === this.now && picked === this.picked && !this.stale) return
    this.now = now
    this.picked = picked
    this.stale = false
    const ratio = (devicePixelRatio || 1) * this.scale
    this.w = this.canvas.clientWidth / this.scale
    this.h = this.canvas.clientHeight / this.scale
    if (this.canvas.width !== Math.round(this.w * ratio) || this.canvas.height !== Math.round(this.h * ratio)) {
      this.canvas.width = Math.round(this.w * ratio)
      this.canvas.height = Math.round(this.h * ratio)
    }
    this.style ??= colours('ink', 'soft', 'line', 'surface', 'alarm', 'gold', 'accent', 'kind-ask', 'kind-answer', 'kind-tell', 'kind-hand', 'kind-know', 'kind-beat')
    const c = this.canvas.getContext('2d')
    c.setTransform(ratio, 0, 0, ratio, 0, 0)
    c.clearRect(0, 0, this.w, this.h)
    c.font = this.#font(12)
    this.#axis(c)
    this.#lanes(c)
    c.save()
    c.beginPath()
    c.rect(left - 6, 0, this.w - left + 6, this.h) // labels reach to the edge
    c.clip()
    this.#flights(c)
    this.#events(c)
    c.restore()
    const x = this.x(now)
    c.strokeStyle = this.style.accent
    c.lineWidth = 1.5
    c.beginPath()
    c.moveTo(x, top - 8)
    c.lineTo(x, this.h - 22)
    c.stroke()
  }

  #axis(c) {
    const { from, to } = this.#span, s = this.style
    const step = niceStep((to - from) / Math.max(3, this.w / 130))
    c.textAlign = 'center'
    for (let t = Math.ceil(Math.max(from, 0) / step) * step; t <= to; t += step) {
      const x = this.x(t)
      c.strokeStyle = s.line
      c.lineWidth = 1
      c.beginPath()
      c.moveTo(x, top - 6)
      c.lineTo(x, this.h - 24)
      c.stroke()
      c.fillStyle = s.soft
      const label = decimal(t / 1000, step >= 1000 ? 0 : step >= 100 ? 1 : step >= 10 ? 2 : 3) + ' s'
      c.fillText(label, Math.min(x, this.w - c.measureText(label).width / 2 - 1), this.h - 8)
    }
  }

  #lanes(c) {
    const { from, to } = this.#span, s = this.style, m = this.model, named = short(m.members.map(x => x.id))
    m.members.forEach((member, i) => {
      const y = this.y(i)
      c.textAlign = 'right'
      c.fillStyle = s.ink
      c.font = '600 ' + this.#font(this.lane > 16 ? 13 : 10)
      if (this.lane > 11 || i % 2 === 0) c.fillText(c.measureText(member.id).width > left - 26 ? fit(c, named(member.id), left - 26) : member.id, left - 14, y + (this.big ? 6 : 4))
      for (const span of m.spans[i]) {
        if (span.until < from || span.since > Math.min(to, this.now)) continue
        const x1 = Math.max(this.x(span.since), left), x2 = Math.min(this.x(Math.min(span.until, this.now)), this.w - right)
        if (x2 < x1) continue
        this.#span1(c, span, x1, x2, y)
      }
    })
  }

  #span1(c, span, x1, x2, y) {
    const s = this.style
    c.lineWidth = 1.2
    c.setLineDash(span.state === 'down' ? [2, 5] : [])
    c.strokeStyle = s.soft
    c.globalAlpha = span.state === 'down' ? .6 : .75
    c.beginPath()
    c.moveTo(x1, y)
    c.lineTo(x2, y)
    c.stroke()
    c.setLineDash([])
    if (span.colour) {
      const thick = Math.min(this.lane * .5, span.state === 'leads' ? this.big ? 21 : 15 : 6)
      c.globalAlpha = span.frozen ? .25 : span.state === 'leads' ? .95 : .6
      c.fillStyle = span.colour
      c.beginPath()
      c.roundRect(x1, y - thick / 2, Math.max(x2 - x1, 1), thick, 3)
      c.fill()
      if (span.state === 'leads' && x2 - x1 > 90 && this.lane > 20) {
        c.globalAlpha = 1
        c.fillStyle = span.frozen ? s.ink : '#10151c' // the bar of a frozen leader is pale
        c.textAlign = 'left'
        c.font = '600 ' + this.#font(11, thick * .8)
        c.fillText(this.t('leadsEpoch', { epoch: span.epoch }), x1 + 7, y + thick * .27)
      }
    }
    if (span.frozen) {
      c.globalAlpha = .8
      c.strokeStyle = s.accent
      c.lineWidth = 2
      c.setLineDash([1, 4])
      c.beginPath()
      c.moveTo(x1, y)
      c.lineTo(x2, y)
      c.stroke()
      c.setLineDash([])
    }
    c.globalAlpha = 1
  }

  #flights(c) {
    const { from } = this.#span, m = this.model, s = this.style
    this.seen = []
    const draw = f => {
      const kind = family(f.kind)
      if (this.quiet && kind === 'beat') return
      const arrived = f.arrived < 0 ? f.sent + m.median * .5 : f.arrived
      const until = Math.min(arrived, this.now)
      if (until < from) return
      const whole = arrived - f.sent || 1
      const share = f.arrived < 0 ? .45 * (until - f.sent) / whole : (until - f.sent) / whole
      const x1 = this.x(f.sent), y1 = this.y(f.from), x2 = this.x(until), y2 = y1 + (this.y(f.to) - y1) * share
      const picked = this.picked?.flight === f
      c.strokeStyle = s['kind-' + kind]
      c.fillStyle = s['kind-' + kind]
      c.globalAlpha = kind === 'beat' ? .28 : kind === 'know' ? .55 : f.drop ? .4 : .95
      c.lineWidth = picked ? 3.5 : kind === 'beat' ? 1 : kind === 'know' ? 1.2 : 1.7
      c.setLineDash(f.drop || f.arrived < 0 ? [4, 3] : [])
      c.beginPath()
      c.moveTo(x1, y1)
      c.lineTo(x2, y2)
      c.stroke()
      c.setLineDash([])
      if (kind !== 'beat') this.#head(c, f, x1, y1, x2, y2)
      c.globalAlpha = 1
      if (this.seen.length < 4000) this.seen.push({ flight: f, x1, y1, x2, y2 })
    }
    for (let i = lowerBound(m.flights, from - m.window, f => f.sent); i < m.flights.length && m.flights[i].sent <= this.now; i++) {
      const f = m.flights[i]
      if (f.arrived < 0 || f.arrived - f.sent > m.window) continue
      draw(f)
    }
    for (const f of m.slow) if (f.sent <= this.now && (f.arrived >= from || f.sent >= from)) draw(f)
  }

  // The head of a line is the shape of its kind: colour is never the only sign.
  #head(c, f, x1, y1, x2, y2) {
    const path = new Path2D(shapeOf(f.kind))
    c.save()
    c.translate(x1 + (x2 - x1) * .97, y1 + (y2 - y1) * .97)
    c.rotate(Math.atan2(y2 - y1, x2 - x1))
    const k = this.lane > 20 ? .62 : .4
    c.scale(k, k)
    c.fill(path)
    c.restore()
  }

  #events(c) {
    const m = this.model, { from, to } = this.#span
    this.marks = []
    const labels = []
    for (let i = Math.max(0, lowerBound(m.events, from, e => e.at)); i < m.events.length && m.events[i].at <= Math.min(to, this.now); i++) {
      const e = m.events[i]
      if (e.m < 0) { this.#whole(c, e); continue }
      const x = this.x(e.at), y = this.y(e.m)
      this.#mark(c, e, x, y)
      this.marks.push({ event: e, x, y })
      const rank = told.indexOf(e.what)
      if (rank >= 0) labels.push({ e, x, y, rank })
    }
    if (this.lane >= 26) this.#labels(c, labels)
  }

  // Where several are in one place, the weightiest is shown.
  #labels(c, labels) {
    c.font = this.#font(11)
    c.textAlign = 'left'
    const taken = this.model.members.map(() => []), above = Math.min(this.big ? 15 : 11, this.lane * .35) // a leader's bar
    for (const { e, x, y } of labels.sort((a, b) => a.rank - b.rank)) {
      const label = this.t.sentence(e, true), [begin, end] = this.#within(c, label, x + 5)
      if (taken[e.m].some(([a, b]) => begin < b && end + 5 > a)) continue
      taken[e.m].push([begin, end + 5])
      c.strokeStyle = this.style.surface
      c.lineWidth = 3
      c.strokeText(label, begin, y - above)
      c.fillStyle = e.fault ? this.style.alarm : this.style.ink
      c.fillText(label, begin, y - above)
    }
  }

  // within is where a label begins and ends that is not cut off at the right.
  #within(c, label, x) {
    const width = c.measureText(label).width, begin = Math.min(x, this.w - width - 2)
    return [begin, begin + width]
  }

  // What is done to links is at the top, over the whole.
  #whole(c, e) {
    const x = this.x(e.at), s = this.style
    c.strokeStyle = s.alarm
    c.setLineDash([3, 4])
    c.beginPath()
    c.moveTo(x, top - 4)
    c.lineTo(x, this.h - 26)
    c.stroke()
    c.setLineDash([])
    c.fillStyle = s.alarm
    c.textAlign = 'left'
    c.font = this.#font(11)
    const label = this.t.sentence(e)
    c.fillText(label, this.#within(c, label, x + 4)[0], top - 8)
    this.marks.push({ event: e, x, y: top - 8 })
  }

  #mark(c, e, x, y) {
    const s = this.style, picked = this.picked?.event === e
    c.lineWidth = picked ? 4 : 2.4
    c.strokeStyle = c.fillStyle = e.fault ? s.alarm : s.ink
    c.beginPath()
    switch (e.what) {
      case 'crashes': case 'loses power':
        c.moveTo(x - 6, y - 6); c.lineTo(x + 6, y + 6); c.moveTo(x + 6, y - 6); c.lineTo(x - 6, y + 6); c.stroke(); break
      case 'freezes':
        c.moveTo(x - 3, y - 7); c.lineTo(x - 3, y + 7); c.moveTo(x + 3, y - 7); c.lineTo(x + 3, y + 7); c.stroke(); break
      case 'claims': case 'is elected':
        c.moveTo(x, y - 7); c.lineTo(x + 7, y); c.lineTo(x, y + 7); c.lineTo(x - 7, y); c.closePath(); c.fillStyle = s.gold; c.fill(); c.lineWidth = 1.2; c.strokeStyle = s.ink; c.stroke(); break
      case 'suspects': case 'finds down':
        c.arc(x, y, 4.5, 0, 7); c.fillStyle = s.surface; c.fill(); c.strokeStyle = s.alarm; c.lineWidth = 2; c.stroke(); break
      default:
        c.arc(x, y, picked ? 5 : 2.8, 0, 7); c.fill()
    }
  }

  // near is what lies under the pointer.
  near(px, py) {
    let best = null, least = 11
    for (const m of this.marks || []) {
      const d = Math.hypot(m.x - px, m.y - py)
      if (d < least) { best = { event: m.event, at: m.event.at }; least = d }
    }
    if (best) return best
    least = 6
    for (const l of this.seen || []) {
      const d = toSegment(px, py, l)
      if (d < least) { best = { flight: l.flight, at: l.flight.sent }; least = d }
    }
    return best
  }

  #listen() {
    const place = event => {
      const box = this.canvas.getBoundingClientRect()
      return [(event.clientX - box.left) / this.scale, (event.clientY - box.top) / this.scale]
    }
    let pressed = null
    this.canvas.addEventListener('pointermove', event => {
      const [x, y] = place(event)
      if (pressed && Math.abs(x - pressed.x) > 4) {
        pressed.moved = true
        this.shift = Math.max(-this.now, Math.min(this.width * .75, pressed.shift - (x - pressed.x) * this.width / (this.w - left - right)))
        this.stale = true
        return
      }
      const found = this.near(x, y)
      this.canvas.style.cursor = found ? 'pointer' : 'crosshair'
      this.tip.hidden = !found
      if (!found) return
      this.tip.textContent = found.event ? this.t.sentence(found.event) + (found.event.why ? ` (${reason(found.event.why)})` : '') : this.t.flight(found.flight)
      this.tip.style.left = Math.min(x * this.scale + 14, this.canvas.clientWidth - 260) + 'px'
      this.tip.style.top = y * this.scale + 16 + 'px'
    })
    this.canvas.addEventListener('pointerleave', () => { this.tip.hidden = true })
    this.canvas.addEventListener('pointerdown', event => {
      const [x] = place(event)
      pressed = { x, shift: this.shift, moved: false }
      this.canvas.setPointerCapture(event.pointerId)
    })
    this.canvas.addEventListener('pointercancel', () => { pressed = null }) // the page scrolls
    this.canvas.addEventListener('pointerup', event => {
      const [x, y] = place(event), was = pressed
      pressed = null
      if (!was || was.moved) return
      const found = this.near(x, y)
      if (found) this.on.pick(found)
      else if (x > left) this.on.seek(this.at(x))
    })
    this.canvas.addEventListener('wheel', event => {
      if (!event.ctrlKey && !event.shiftKey && Math.abs(event.deltaY) > Math.abs(event.deltaX)) return // the page scrolls
      event.preventDefault()
      if (event.ctrlKey) this.zoom(event.deltaY > 0 ? 1.2 : 1 / 1.2)
      else { this.shift = Math.max(-this.now, Math.min(this.width * .75, this.shift + (event.deltaX || event.deltaY) / this.w * this.width)); this.stale = true }
    }, { passive: false })
  }

  // follow has the diagram show the present again.
  follow() { if (this.shift) { this.shift = 0; this.stale = true } }
}

// fit is a text that is not wider than there is room.
function fit(c, words, room) {
  if (c.measureText(words).width <= room) return words
  while (words.length > 1 && c.measureText(words + '…').width > room) words = words.slice(0, -1)
  return words + '…'
}

function toSegment(x, y, { x1, y1, x2, y2 }) {
  const l = (x2 - x1) ** 2 + (y2 - y1) ** 2 || 1
  const k = Math.max(0, Math.min(1, ((x - x1) * (x2 - x1) + (y - y1) * (y2 - y1)) / l))
  return Math.hypot(x - x1 - k * (x2 - x1), y - y1 - k * (y2 - y1))
}

function niceStep(least) {
  const unit = 10 ** Math.floor(Math.log10(Math.max(least, .1)))
  return [1, 2, 5, 10].map(k => k * unit).find(k => k >= least)
}

// Overview is the whole run in a strip: whose leadership, and when something was done.
export class Overview {
  constructor(canvas) {
    this.canvas = canvas
    new ResizeObserver(() => this.draw()).observe(canvas)
    addEventListener('themechange', () => this.draw())
  }
  show(model) { this.model = model; this.draw() }
  draw() {
    const m = this.model, ratio = devicePixelRatio || 1, w = this.canvas.clientWidth, h = this.canvas.clientHeight
    if (!m || !w) return
    this.canvas.width = w * ratio
    this.canvas.height = h * ratio
    const c = this.canvas.getContext('2d'), s = colours('soft', 'alarm', 'line')
    c.scale(ratio, ratio)
    const x = at => w * Math.min(at, m.elapsed) / (m.elapsed || 1)
    const row = h / m.members.length
    m.spans.forEach((spans, i) => {
      const y = h - row * (i + 1)
      for (const span of spans) {
        c.globalAlpha = span.state === 'leads' ? 1 : .45
        c.fillStyle = span.colour || (span.state === 'down' ? 'transparent' : s.line)
        c.fillRect(x(span.since), y, Math.max(x(span.until) - x(span.since), .5), row)
      }
    })
    c.globalAlpha = 1
    c.fillStyle = s.alarm
    for (const e of m.events) if (e.fault) c.fillRect(x(e.at) - .75, 0, 1.5, h)
  }
}
