// The lab's page: a scenario, the run that it gives, and the moment that is looked at.

import { $, h, replace, s, text } from './shared/dom.js'
import { locale, still, toggles, translate } from './shared/page.js'
import { t } from './texts.js'
import { Circle, shapeOf } from './circle.js'
import { Model } from './model.js'
import { Overview, SpaceTime } from './spacetime.js'
import { Simulator } from './simulator.js'
import { EventLog, stamp, Why } from './log.js'
import { Editor } from './editor.js'
import { mistake } from './faults.js'
import { Menu } from './menu.js'
import { Tours } from './tour.js'
import { readLink, writeLink } from './link.js'
import { leading } from './predict.js'
import { recorded } from './incident.js'
import { soak } from './soak.js'
import { Explorer } from './explore.js'
import { Superpeers } from './superpeers.js'

const fresh = 'members 1 2 3 4 5\nalgorithm bully\nseed 1\nlatency 10ms 30ms\nrun 2s\n'
const long = 2000 // ms that a run takes at most while another one waits
const paces = ['auto', 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.002]

class Lab {
  #dirty = false

  constructor() {
    translate(t)
    toggles($('#lang'), $('#theme'), () => this.#keep())
    this.simulator = new Simulator()
    this.simulator.loading = share => {
      $('#loading').hidden = share >= 1
      $('#loading').value = share
    }
    this.now = 0
    this.playing = false
    this.turn = 0 // of what has been asked to play
    this.open = 0 // runs without an answer
    this.before = null // resolves once another run may begin
    this.frame = null // the one that is asked for
    this.picked = null
    this.circle = new Circle($('#circle'), t, {
      member: (i, event) => this.menu.member(i, event),
      link: (a, b, event) => this.menu.link(a, b, event),
      flight: flight => this.pick({ flight, at: flight.sent }),
      partition: sides => this.act(`partition ${sides.map(side => side.join(',')).join(' | ')}`),
    })
    this.spacetime = new SpaceTime($('#spacetime'), $('#hover'), t, { seek: at => this.seek(at), pick: x => this.pick(x), stale: () => this.#wake() })
    this.overview = new Overview($('#overview'))
    this.log = new EventLog($('#log'), t, x => this.pick(x, true))
    this.why = new Why($('#why'), t, x => this.pick(x, true))
    this.editor = new Editor(this)
    this.menu = new Menu($('#menu'), this)
    this.tours = new Tours(this)
    this.#transport()
    this.#legend()
    soak(this)
    this.explorer = new Explorer(this)
    this.superpeers = new Superpeers(this)
    addEventListener('hashchange', () => location.reload()) // another link was pasted, or the one before it is shown again by Back
    $('.skip').addEventListener('click', event => { event.preventDefault(); $('#stage').focus() }) // the address is the scenario's
    $('#share').addEventListener('click', () => this.#share())
    $('#lecture').addEventListener('click', () => this.present(!this.presenting))
    addEventListener('resize', () => { if (this.presenting) this.present(true) })
    this.#start()
  }

  async #start() {
    if (location.hash === '#incident') { this.#handed(); return }
    this.say(t('loading'), true)
    const asked = location.hash.includes('=')
    let linked
    try {
      await this.tours.load()
      linked = await readLink()
    } catch (error) {
      this.say(t('broken', { why: error.message }))
      return
    }
    this.say('')
    const shown = linked?.text !== undefined || linked?.superpeers && this.superpeers.begin(linked.superpeers, linked.stop)
    if (linked?.tour && this.tours.begin(linked.tour, linked.stop) || linked?.exercise && this.tours.exercise(linked.exercise, linked.seed)) return
    if (linked?.incident && await this.fetched(linked.incident)) return
    const why = $('#state').textContent || asked && !shown && t(linked?.long ? 'longLink' : 'noLink')
    if (await this.load(linked?.text ?? fresh, { at: linked?.at ?? 0, play: !asked }) && why) this.say(why)
    document.body.dataset.ready = 'yes'
  }

  // handed asks the dashboard that has opened this page for its incident. An agent has no simulator.
  #handed() {
    document.body.classList.add('handed')
    addEventListener('message', ({ origin, data }) => { if (origin === location.origin) this.incident(data) })
    if (opener) opener.postMessage('incident', location.origin)
    else this.say(t('i_none'))
  }

  say(words, calm = false) {
    text($('#state'), words)
    $('#state').classList.toggle('calm', calm)
  }

  // load plays a scenario and shows the moment at. It resolves to whether it could be read.
  async load(scenario, { at = this.now, play = false, keep = true } = {}) {
    const turn = ++this.turn
    const slow = setTimeout(() => this.say(t($('#loading').hidden ? 'running' : 'loading'), true), 300)
    let played
    try {
      await this.before
      if (turn !== this.turn) return false
      played = await this.#run(scenario)
      if (!this.about) this.editor.offer(this.about = await this.simulator.ask('about', scenario)) // the simulator that plays it
    } catch (error) {
      if (turn === this.turn) this.say(t('broken', { why: error.message }))
      return false
    } finally {
      clearTimeout(slow)
    }
    if (turn !== this.turn) return false // another has come since
    this.say('')
    this.editor.show(scenario, played, keep)
    if (played.fault) return false
    this.#show(played, at, play, false)
    return true
  }

  // run plays a scenario. The next run waits until this one is over, or has taken long and is ended.
  #run(scenario) {
    if (this.open && $('#loading').hidden) this.simulator.stop()
    this.open++
    const played = this.simulator.ask('play', scenario).finally(() => this.open--)
    this.before = Promise.race([played.catch(() => {}), new Promise(done => setTimeout(done, long))])
    return played
  }

  // fetched opens the incident of a file beside the page; it resolves to whether there is one.
  async fetched(file) {
    try {
      const answer = await fetch(file)
      if (!answer.ok) throw new Error(`${file}: ${answer.status}`)
      return this.incident(await answer.text())
    } catch (error) {
      this.say(error.message)
      return false
    }
  }

  // incident shows what the members of a real cluster have recorded.
  incident(text) {
    try {
      const { played, tour } = recorded(JSON.parse(text))
      this.turn++
      this.#show(played, 0, false, true)
      this.tours.show(tour)
      return true
    } catch {
      this.say(t('i_none'))
      return false
    }
  }

  #show(played, at, play, real) {
    this.real = real
    if (real) this.editor.steps = []
    document.body.classList.toggle('recorded', real)
    this.model = new Model(played)
    t.member = i => this.model.members[i].id
    this.picked = null
    this.circle.show(this.model)
    if (real || this.spacetime.real) this.spacetime.width = real ? Math.max(8, 40 * this.model.median) : 400 // a real network is quicker than a lecture's
    this.spacetime.real = real
    this.spacetime.show(this.model)
    this.overview.show(this.model)
    this.log.show(this.model)
    this.why.show(this.model, null)
    if (played.more) this.say(t('tooMany'), true)
    $('#scrub').max = this.model.elapsed
    this.menu.close(false)
    this.seek(Math.min(at, this.model.elapsed))
    if (play && !still.matches) this.play()
    document.body.dataset.ready = 'yes'
  }

  // act does something to the cluster at this moment: it becomes a line of the scenario.
  async act(line) {
    this.menu.close()
    if (this.real) return
    const edited = await this.simulator.ask('insert', this.editor.text, this.now, line)
    if (edited.error) { this.say(mistake(edited.error)); return }
    if (await this.load(edited.text)) this.play()
  }

  seek(at) {
    this.now = Math.max(0, Math.min(at, this.model?.elapsed ?? 0))
    this.spacetime.follow()
    this.dirty = true
  }

  // pick chooses an event or a message; go has the pictures show its moment.
  pick(x, go = false) {
    this.picked = x
    if (go) { this.pause(); this.seek(x.flight ? (x.flight.arrived < 0 ? x.at : (x.flight.sent + x.flight.arrived) / 2) : x.at) }
    this.why.show(this.model, x)
    this.dirty = true
    this.spacetime.stale = true
  }

  play() {
    if (!this.model) return
    if (this.now >= this.model.elapsed) this.seek(0)
    this.playing = true
    this.#wake()
    this.#showPlay()
  }

  pause() {
    this.playing = false
    this.#showPlay()
  }

  #showPlay() {
    replace($('#play'), h('span', { 'aria-hidden': 'true' }, this.playing ? '❚❚' : '▶'), this.playing ? t('pause') : t('play'))
  }

  // present shows the two pictures and the tour alone, large: for a room.
  present(on) {
    this.presenting = on
    document.body.classList.toggle('presenting', on)
    $('#lecture').setAttribute('aria-pressed', on)
    this.circle.big = this.spacetime.big = on
    if (!this.model) return
    this.circle.show(this.model)
    this.spacetime.show(this.model)
    this.dirty = true
  }

  step(by) {
    if (!this.model) return
    this.pause()
    this.seek(this.model.step(this.now, by))
  }

  #transport() {
    this.#showPlay()
    $('#play').addEventListener('click', () => this.playing ? this.pause() : this.play())
    $('#first').addEventListener('click', () => { this.pause(); this.seek(0) })
    $('#last').addEventListener('click', () => { this.pause(); this.seek(Infinity) })
    $('#back').addEventListener('click', () => this.step(-1))
    $('#forth').addEventListener('click', () => this.step(1))
    $('#scrub').addEventListener('input', () => { this.pause(); this.seek(Number($('#scrub').value)) })
    $('#more').addEventListener('click', async () => {
      const { text } = await this.simulator.ask('extend', this.editor.text, 5000)
      if (await this.load(text)) this.play()
    })
    const number = new Intl.NumberFormat(locale, { maximumFractionDigits: 3 })
    $('#pace').append(...paces.map(p => h('option', { value: p }, p === 'auto' ? t('auto') : `× ${number.format(p)}`)))
    $('#quiet').addEventListener('change', () => {
      this.circle.quiet = this.spacetime.quiet = $('#quiet').checked
      this.dirty = this.spacetime.stale = true
    })
    $('#closer').addEventListener('click', () => this.spacetime.zoom(1 / 1.6))
    $('#wider').addEventListener('click', () => this.spacetime.zoom(1.6))
    $('#present').addEventListener('click', () => this.spacetime.follow())
    addEventListener('keydown', event => this.#key(event))
  }

  #key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest('input, select, textarea, dialog, .menu, summary, pre')) return
    const onButton = event.target.closest('button, a, [role=button]')
    const keys = {
      ' ': () => this.playing ? this.pause() : this.play(),
      ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1),
      PageDown: () => this.tours.current ? this.tours.next() : this.step(1), PageUp: () => this.tours.current ? this.tours.go(this.tours.stop - 1) : this.step(-1), // as a pointer in the hand sends
      Escape: () => this.present(false),
      Home: () => { this.pause(); this.seek(0) }, End: () => { this.pause(); this.seek(Infinity) },
    }
    if (!keys[event.key] || event.key === ' ' && onButton || /^Page|Esc/.test(event.key) && !this.presenting) return
    event.preventDefault()
    keys[event.key]()
  }

  // pace is how many simulated milliseconds pass in a real one.
  #pace() {
    const chosen = $('#pace').value
    if (chosen !== 'auto') return Number(chosen)
    const trip = this.model.median / 700 // a message takes 0.7 s
    if (this.model.isBusy(this.now)) return trip
    const next = this.model.busy.find(b => b.from > this.now)
    const gap = (next ? next.from : this.model.elapsed) - this.now
    return Math.max(trip, Math.min(1.5, gap / 250)) // quick, and slowing down before the next
  }

  // dirty: the pictures are not of this moment.
  get dirty() { return this.#dirty }
  set dirty(is) {
    this.#dirty = is
    if (is) this.#wake()
  }

  // wake has the next frame drawn. While nothing changes there are none.
  #wake() { this.frame ??= requestAnimationFrame(time => this.#frame(time)) }

  #frame(time) {
    const passed = Math.min(time - (this.last ?? time), 100)
    this.last = time
    this.frame = null
    if (this.model) {
      if (this.playing) {
        const end = this.tours.limit(this.now) ?? this.model.elapsed
        this.now = Math.min(this.now + passed * this.#pace(), end)
        if (this.now >= end) { this.pause(); this.tours.arrived(this.now) }
        this.dirty = true
      }
      if (this.dirty) this.#render()
      this.spacetime.render(this.now, this.picked)
    }
    if (this.playing) this.#wake()
    else this.last = undefined
  }

  #render() {
    this.dirty = false
    this.circle.render(this.now)
    text($('#clock'), stamp(this.now) + ' s')
    if (document.activeElement !== $('#scrub') || this.playing) $('#scrub').value = this.now
    $('#scrub').setAttribute('aria-valuetext', stamp(this.now) + ' s')
    this.log.render(this.now)
    this.editor.mark(this.now)
    this.#leaders()
    const { counts } = this.model.counted(this.now)
    text($('#counts'), [...counts].map(([kind, n]) => `${n}\u00a0×\u00a0${kind.toUpperCase().replace(/-/g, '\u2060-\u2060')}`).join('  '))
    $('#counts').title = t('counts')
  }

  // leaders says in a line who leads, which may be several.
  #leaders() {
    const lead = leading(this.model, this.now)
    const key = lead.map(x => x.epoch + ':' + x.leader).join()
    if (key === this.leadKey && this.leadModel === this.model) return
    this.leadKey = key
    this.leadModel = this.model
    const el = $('#leaders')
    el.classList.toggle('two', lead.length > 1)
    const swatch = x => {
      const dot = h('span', { class: 'swatch', 'aria-hidden': 'true' })
      dot.style.background = this.model.leaderships.colour(x.epoch, x.leader)
      return dot
    }
    if (!lead.length) replace(el, t('noLeader'))
    else if (lead.length === 1) replace(el, swatch(lead[0]), t('oneLeader', lead[0]))
    else replace(el, lead.map(swatch), t('twoLeaders', { n: lead.length, list: lead.map(x => x.leader).join(', ') }))
  }

  #legend() {
    const kinds = { ask: 'election', answer: 'answer', tell: 'coordinator', hand: 'resign', know: 'query', beat: 'beat' }
    for (const [kind, example] of Object.entries(kinds)) {
      $('#legend').append(h('li', {}, s('svg', { viewBox: '-11 -10 22 20', 'aria-hidden': 'true' }, s('path', { d: shapeOf(example), class: kind })), t('legend_' + kind)))
    }
    for (const kind of ['leader', 'lease', 'promise', 'answers', 'votes']) {
      $('#legend').append(h('li', {}, s('svg', { viewBox: '-11 -10 22 20', 'aria-hidden': 'true' }, s('circle', { r: 7, class: 'run ' + kind, pathLength: 1, transform: 'rotate(-90)', 'stroke-dasharray': kind === 'votes' ? '.27 .06 .27 .06 0 .34' : '.7 2' })), t('run_' + kind)))
    }
  }

  // keep writes what is shown into the page's address; false: it is longer than a link may hold.
  async #keep() {
    if (this.real || !this.model) return true
    const { current, link } = this.tours
    const address = await writeLink({ text: this.editor.text, at: Math.round(this.now * 1000) / 1000, tour: current?.scenario === this.editor.text ? link : undefined })
    if (address) history.replaceState(null, '', address)
    else this.say(t('tooLong'))
    return Boolean(address)
  }

  async #share() {
    if (!await this.#keep()) return
    let words = t('copied')
    try { await navigator.clipboard.writeText(location.href) } catch { words = t('inAddress') }
    this.say(words, true)
    setTimeout(() => this.say(''), 2500)
  }
}

globalThis.lab = new Lab()
