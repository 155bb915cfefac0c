// Super peers: the map of an overlay, whose tokens move from round to round. The run is that of
// "batuta sim superpeers", in a simulator of its own.

import { $, h, replace, s, set, text } from './shared/dom.js'
import { colours, lang, locale, still } from './shared/page.js'
import { mistake } from './faults.js'
import { Simulator } from './simulator.js'
import { tours } from './supertours.js'
import { t } from './texts.js'
import { bound } from './tour.js'

const last = 120 // rounds that are played
const pace = 450 // ms a round
const number = new Intl.NumberFormat(locale, { maximumFractionDigits: 2 })
const percent = new Intl.NumberFormat(locale, { style: 'percent', maximumFractionDigits: 1 })

// hue turns the golden angle, so that tokens that follow each other differ.
const hue = token => Math.round(token * 137.508) % 360

export class Superpeers {
  constructor(lab) {
    this.rounds = []
    this.at = 0 // in rounds; between two, tokens are on their way
    $('#super-open').addEventListener('click', () => { lab.pause(); $('#super').showModal(); if (!this.rounds.length) this.#run(); else this.#show(); this.#address() })
    $('#super-close').addEventListener('click', () => $('#super').close())
    $('#super').addEventListener('close', () => { this.#pause(); this.#address() })
    $('#super-form').addEventListener('submit', event => {
      event.preventDefault()
      $('#super-tour').value = ''
      this.begin('') // no tour: it is of another run
      this.#run()
    })
    $('#super-tour').append(h('option', { value: '' }, `${t('tours')}: ${t('noTour')}`), ...tours.map(tour => h('option', { value: tour.name }, tour[lang])))
    $('#super-tour').addEventListener('change', () => this.begin($('#super-tour').value))
    $('#super-next').addEventListener('click', () => this.next())
    $('#super-play').addEventListener('click', () => this.playing ? this.#pause() : this.#play())
    $('#super-back').addEventListener('click', () => this.go(Math.ceil(this.at) - 1))
    $('#super-forth').addEventListener('click', () => this.go(Math.floor(this.at) + 1))
    $('#super-scrub').addEventListener('input', () => this.go(Number($('#super-scrub').value) - 1))
    $('#super-map').addEventListener('pointermove', event => this.#hover(event))
    $('#super').addEventListener('keydown', event => this.#key(event))
    addEventListener('themechange', () => this.#show())
    addEventListener('resize', () => this.#show())
    new ResizeObserver(() => this.#show()).observe($('.overlay'))
  }

  // begin shows a tour by its name, from that stop on; false: there is none.
  begin(name, stop = 1) {
    this.tour = tours.find(tour => tour.name === name)
    $('#super-told').hidden = !this.tour
    if (!this.tour) { this.#show(); this.#address(); return false }
    $('#super-tour').value = name
    for (const [field, value] of Object.entries(this.tour.run)) $('#super-' + field).value = value
    if (!$('#super').open) $('#super').showModal()
    $('#super-next').focus()
    this.stop = -1
    this.first = Math.min(Math.max(stop, 1), this.tour.stops.length) - 1
    text($('#super-said'), '')
    text($('#super-place'), '')
    this.#run()
    return true
  }

  // A pointer in the hand sends these two.
  #key(event) {
    if (!this.tour || !['PageDown', 'PageUp'].includes(event.key) || event.target.closest('input')) return
    event.preventDefault()
    if (event.key === 'PageDown') this.next()
    else if (this.stop > 0) { this.go(this.tour.stops[--this.stop][0] - 1); this.#tell() }
  }

  // next plays on to the next stop; if that is under way, it is shown at once.
  next() {
    if (this.playing) { if (this.until < this.rounds.length) { this.go(this.until); this.#tell() } return } // else its rounds are still to come
    if (this.stop + 1 >= this.tour.stops.length) { $('#super-tour').value = ''; this.begin(''); return }
    this.until = this.tour.stops[++this.stop][0] - 1
    this.#play()
  }

  #tell() {
    const [, en, es] = this.tour.stops[this.stop]
    text($('#super-said'), bound(lang === 'es' ? es : en))
    text($('#super-place'), t('stop', { n: this.stop + 1, of: this.tour.stops.length }))
    this.#address()
  }

  // address has the page's address lead to this stop, and to none if no tour is open.
  #address() {
    if (this.tour && $('#super').open && this.stop >= 0) history.replaceState(null, '', `#superpeers=${this.tour.name}&stop=${this.stop + 1}`)
    else if (location.hash.startsWith('#superpeers=')) history.replaceState(null, '', location.pathname + location.search)
  }

  // run plays the rounds of what the form says, and shows them as they come.
  async #run() {
    const value = name => $('#super-' + name).value, turn = this.turn = Math.random()
    const config = { method: value('method'), space: value('space'), nodes: Number(value('nodes')), fraction: Number(value('share')) / 100, capacity: Number(value('capacity')), seed: Number(value('seed')), churn: value('churn').trim() }
    this.#pause()
    this.simulator ??= new Simulator()
    text($('#super-fault'), '')
    try {
      const begun = await this.simulator.ask('superpeers', JSON.stringify(config))
      if (begun.error) { text($('#super-fault'), mistake(begun.error)); return }
      this.rounds = []
      this.at = 0
      while (this.turn === turn && this.rounds.length < last) {
        const round = await this.simulator.ask('superpeersRound')
        if (this.turn !== turn || !round) return
        this.rounds.push({ ...round, nodes: Float32Array.from(round.nodes.flat()), places: new Map(round.super.map(p => [p.token, p])) })
        this.#curve()
        if (this.rounds.length === 1) { $('#super-view').hidden = false; if (!this.tour && !still.matches) this.#play() }
        if (this.tour && this.stop < 0 && this.rounds.length === this.tour.stops[this.first][0]) { this.stop = this.first; this.go(this.rounds.length - 1); this.#tell() }
      }
    } catch (error) { if (this.turn === turn) text($('#super-fault'), error.message) }
  }

  #play() {
    if (this.at >= last - 1) this.at = 0
    this.playing = true
    this.before = performance.now()
    requestAnimationFrame(now => this.#frame(now))
    this.#show()
  }

  #pause() {
    this.playing = false
    this.#show()
  }

  // go shows a moment, in rounds.
  go(at) {
    this.playing = false
    this.at = Math.max(0, Math.min(this.rounds.length - 1, at))
    this.#show()
  }

  #frame(now) {
    if (!this.playing) return
    this.at = Math.min(this.at + (now - this.before) / pace, this.rounds.length - 1)
    this.before = now
    if (this.at >= last - 1) this.playing = false
    if (this.tour && this.at >= this.until) { this.at = this.until; this.playing = false; this.#tell() }
    this.#show()
    requestAnimationFrame(time => this.#frame(time))
  }

  #show() {
    text($('#super-play'), t(this.playing ? 'pause' : 'play'))
    const r = this.rounds[Math.floor(this.at)]
    if (!r || !$('#super').open) return
    set($('#super-scrub'), 'max', last)
    $('#super-scrub').value = Math.floor(this.at) + 1
    const words = t('sp_figures', { n: r.round, live: r.live, wanted: r.wanted, mean: r.unserved < 1 ? number.format(r.mean) : '—', load: r.loadMax, moves: r.moves, unserved: percent.format(r.unserved) })
    text($('#super-figures'), words)
    set($('#super-map'), 'aria-label', words)
    set($('#super-here'), 'x1', this.at)
    set($('#super-here'), 'x2', this.at)
    this.#draw(r, this.rounds[Math.floor(this.at) + 1])
  }

  // room is how high the map may be, in px: with the words of a tour, all that the screen has.
  #room() {
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize)
    return this.tour && innerWidth >= 960 ? innerHeight - 20 * rem : Math.min(900, innerHeight * .42)
  }

  // draw shows a round, its tokens on their way to where the next round has them.
  #draw(r, next) {
    const canvas = $('#super-map'), scale = devicePixelRatio || 1, box = canvas.parentElement.clientWidth
    const shape = Math.max(.6, Math.min(2, r.shape)), wide = Math.round(Math.min(box, Math.max(260, this.#room()) * shape)), high = Math.round(wide / shape)
    if (canvas.width !== wide * scale || canvas.height !== high * scale) {
      Object.assign(canvas, { width: wide * scale, height: high * scale })
      Object.assign(canvas.style, { width: wide + 'px', height: high + 'px' })
    }
    const g = canvas.getContext('2d'), { ink, alarm, soft } = colours('ink', 'alarm', 'soft'), edge = 12
    const x = at => edge + at * (wide - 2 * edge), y = at => edge + at * (high - 2 * edge)
    g.setTransform(scale, 0, 0, scale, 0, 0)
    g.clearRect(0, 0, wide, high)
    const own = r.super.map(() => []), lost = []
    for (let i = 0; i < r.nodes.length; i += 3) (own[r.nodes[i + 2]] ?? lost).push(i)
    const dot = Math.max(1.3, Math.min(3, 90 / Math.sqrt(r.nodes.length / 3)))
    own.forEach((nodes, of) => {
      const p = r.super[of]
      g.strokeStyle = g.fillStyle = `hsl(${hue(p.token)} 60% 50%)`
      g.globalAlpha = .35
      g.lineWidth = .6
      g.beginPath()
      for (const i of nodes) if (Math.hypot(r.nodes[i] - p.x, r.nodes[i + 1] - p.y) < .5) { g.moveTo(x(p.x), y(p.y)); g.lineTo(x(r.nodes[i]), y(r.nodes[i + 1])) }
      g.stroke()
      g.globalAlpha = 1
      for (const i of nodes) g.fillRect(x(r.nodes[i]) - dot, y(r.nodes[i + 1]) - dot, 2 * dot, 2 * dot)
    })
    g.fillStyle = alarm
    for (const i of lost) { g.beginPath(); g.arc(x(r.nodes[i]), y(r.nodes[i + 1]), dot + .6, 0, 7); g.fill() }
    const gone = still.matches ? 0 : this.at % 1, most = Math.max(1, ...r.super.map(p => p.load)), size = Math.min(11, 60 / Math.sqrt(r.super.length + 1))
    this.seen = r.super.map(p => {
      const to = next?.places.get(p.token) ?? p, near = Math.hypot(to.x - p.x, to.y - p.y) < .5 // a torus has no edge to cross
      const way = near ? gone * gone * (3 - 2 * gone) : gone < .5 ? 0 : 1
      const px = x(p.x + (to.x - p.x) * way), py = y(p.y + (to.y - p.y) * way)
      if (to !== p && near) { g.strokeStyle = soft; g.lineWidth = 1.4; g.beginPath(); g.moveTo(x(p.x), y(p.y)); g.lineTo(x(to.x), y(to.y)); g.stroke() }
      g.fillStyle = `hsl(${hue(p.token)} 65% 52%)`
      g.strokeStyle = ink
      g.lineWidth = 1.6
      g.beginPath()
      g.arc(px, py, Math.max(5, 3 + size * Math.sqrt(p.load / most)), 0, 7) // one without load is seen too
      g.fill()
      g.stroke()
      return { px, py, p }
    })
  }

  #hover(event) {
    const box = $('#super-map').getBoundingClientRect(), far = q => Math.hypot(q.px - event.clientX + box.left, q.py - event.clientY + box.top)
    const near = (this.seen ?? []).reduce((a, b) => !a || far(b) < far(a) ? b : a, null)
    $('#super-map').title = near && far(near) < 20 ? t('sp_token', { token: near.p.token, load: near.p.load }) : ''
  }

  // curve draws the mean latency, and how many tokens moved, over the rounds.
  #curve() {
    const high = Math.max(...this.rounds.map(r => r.mean), 1e-9), moves = Math.max(1, ...this.rounds.map(r => r.moves))
    replace($('#super-curve'),
      this.rounds.map((r, i) => s('line', { class: 'moves', x1: i, x2: i, y1: 60, y2: 60 - 26 * r.moves / moves })),
      s('polyline', { class: 'mean', points: this.rounds.map((r, i) => r.unserved < 1 ? `${i},${(58 - 54 * r.mean / high).toFixed(2)}` : '').join(' ') }),
      s('line', { id: 'super-here', x1: this.at, x2: this.at, y1: 0, y2: 60 }))
  }
}
