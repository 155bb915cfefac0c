// Every order of events of a small cluster, as a graph to walk in: each state is a picture,
// each edge what may happen. The search runs in a simulator of its own.

import { $, h, listed, replace, s, text } from './shared/dom.js'
import { locale } from './shared/page.js'
import { Leaderships } from './shared/leaderships.js'
import { shapeOf } from './circle.js'
import { mistake } from './faults.js'
import { family } from './model.js'
import { Simulator } from './simulator.js'
import { t } from './texts.js'

const part = 250 // states that are looked into at a time
const drawn = 700 // states that the map bears one by one
const number = new Intl.NumberFormat(locale)

export class Explorer {
  constructor(lab) {
    this.lab = lab
    this.path = []
    $('#explore-open').addEventListener('click', () => { lab.pause(); this.#offer(); $('#explore').showModal() })
    $('#explore-close').addEventListener('click', () => $('#explore').close())
    $('#explore').addEventListener('close', () => this.#stop())
    $('#explore-form').addEventListener('submit', event => { event.preventDefault(); this.running ? this.#stop() : this.#run() })
    $('#explore-script').addEventListener('click', () => this.#script())
    $('#explore-broken').addEventListener('click', () => this.#jump(this.reached.broken))
    this.#show()
  }

  #offer() {
    const algorithm = this.lab.model?.algorithm
    if (!this.config && ['bully', 'ring', 'chang-roberts'].includes(algorithm)) $('#explore-algorithm').value = algorithm
  }

  #show() { text($('#explore-run'), this.running ? t('soakStop') : t('x_run')) }

  #stop() {
    this.running = false
    this.#show()
  }

  async #run() {
    const value = name => Number($('#explore-' + name).value)
    this.config = { algorithm: $('#explore-algorithm').value, probe: '', nodes: value('nodes'), crashes: value('crashes'), restarts: value('restarts'), suspicions: value('suspicions'), initiators: value('initiators') }
    this.simulator ??= new Simulator()
    this.running = true
    const run = this.run = this.asked = {}, over = () => this.run !== run // another has begun
    this.#show()
    this.leaderships = new Leaderships()
    this.path = []
    $('#explore-graph').hidden = true
    try {
      const begun = await this.simulator.ask('explore', JSON.stringify(this.config))
      if (over()) return
      if (begun.error) { text($('#explore-result'), mistake(begun.error)); return }
      for (let more = true; more && this.running;) {
        const reached = await this.simulator.ask('exploreGrow', part)
        if (over()) return
        this.reached = reached
        more = reached.more
        this.#progress()
        if (!this.path.length) await this.#go(0)
      }
      if (over()) return
      await this.#map()
      if (this.path.length && !over()) await this.#go(this.path.at(-1).no, true)
    } catch (error) {
      if (!over()) text($('#explore-result'), t('broken', { why: error.message }))
    } finally {
      if (!over()) this.#stop()
    }
  }

  #progress() {
    const r = this.reached, bar = $('#explore-progress')
    bar.max = r.states
    bar.value = r.expanded
    text($('#explore-result'), t(r.broken >= 0 ? 'x_bad' : r.cut ? 'x_cut' : r.more ? 'x_far' : 'x_all', { n: number.format(r.states), done: number.format(r.expanded), depth: r.depth }))
    $('#explore-result').classList.toggle('bad', r.broken >= 0)
    $('#explore-broken').hidden = r.broken < 0
  }

  // go walks to a state; again shows the same one anew.
  async #go(no, again = false, by = '') {
    const asked = again ? this.asked : this.asked = {}
    const [place] = await this.simulator.ask('explorePlaces', JSON.stringify([no]))
    const next = await this.simulator.ask('explorePlaces', JSON.stringify([...new Set(place.ways.map(w => w.to).filter(to => to >= 0))]))
    if (this.asked !== asked || again && this.path.at(-1)?.no !== no) return // another way has been taken meanwhile
    if (again) this.path[this.path.length - 1].place = place
    else this.path.push({ no, by, place })
    this.#draw(place, new Map(next.map(p => [p.no, p])))
  }

  // jump shows a state by the shortest way to it.
  async #jump(no) {
    const way = []
    for (let at = no; at >= 0;) {
      const [place] = await this.simulator.ask('explorePlaces', JSON.stringify([at]))
      way.unshift({ no: at, by: '', place })
      at = place.from
    }
    for (let i = 1; i < way.length; i++) way[i].by = this.words(way[i - 1].place.ways.find(w => w.to === way[i].no)?.step ?? '', way[i - 1].place)
    this.path = way.slice(0, -1)
    await this.#go(no, false, way.at(-1).by)
  }

  #draw(place, next) {
    $('#explore-graph').hidden = false
    this.way = undefined
    const leads = place.members.filter(m => !m.dead && m.leader === m.id)
    const said = t('x_state', { no: number.format(place.no), depth: place.depth }) + (place.rests ? ' · ' + t('x_rests') : '') + (leads.length ? '' : ' · ' + t('noLeader'))
    text($('#explore-state'), said)
    replace($('#explore-picture'), this.picture(place, 420, 300, said))
    text($('#explore-violation'), place.broken ? t('x_broken', { what: mistake(place.broken) }) : '')
    const walks = $('#explore-ways').contains(document.activeElement)
    listed($('#explore-ways'), place.ways.map((w, i) => ({ ...w, i })), w => `${place.no}:${w.i}:${w.to}`, w => {
      const words = this.words(w.step, place), to = next.get(w.to)
      const known = this.path.some(p => p.no === w.to)
      return h('li', {}, h('button', { type: 'button', class: w.broken ? 'danger' : '', disabled: w.to < 0 && !w.broken, onclick: () => w.broken ? this.#say(w, place) : this.#go(w.to, false, words) },
        to ? this.picture(to, 96, 74) : h('span', { class: 'thumb' }, w.broken ? '✕' : '…'),
        h('span', {}, h('strong', {}, words), h('span', { class: 'soft' }, w.broken ? t('x_broken', { what: mistake(w.broken) }) : w.to < 0 ? t('x_left') : t(known ? 'x_back' : 'x_to', { no: number.format(w.to) })))))
    })
    if (walks) ($('#explore-ways button:enabled') ?? $('#explore-script')).focus() // the keyboard goes on from here
    text($('#explore-none'), place.ways.length ? '' : t('x_end'))
    listed($('#explore-path'), this.path.map((p, i) => ({ ...p, i })), p => p.i + ':' + p.no, p => h('li', {}, h('button', { type: 'button', onclick: () => { this.path.length = p.i; this.#go(p.no, false, p.by) } }, p.i ? p.by : t('x_first'))))
    $('#explore-path').lastElementChild?.scrollIntoView({ block: 'nearest' })
    this.#mark()
  }

  #say(way, place) {
    text($('#explore-violation'), t('x_broken', { what: mistake(way.broken) }))
    this.way = place.ways.indexOf(way)
  }

  // words says a step of a script.
  words(step, place) {
    const [what, a, b] = step.split(/[\s>]+/)
    const sent = what === 'deliver' && place.sent.find(u => u.from === a && u.to === b)
    if (sent) return sent.kind ? t('x_deliver', { kind: sent.kind.toUpperCase(), a, b }) : t('x_goodbye', { a, b })
    const key = 'x_' + what, said = t(key, { a, b })
    return said === key ? step : said
  }

  // picture draws a state: members in a circle, messages where they have got to on their way.
  picture(place, width, height, label = '') {
    const n = place.members.length, r = Math.min(width, height) * (n > 3 ? .1 : .115), small = width < 200
    const spot = new Map(place.members.map((m, i) => {
      const turn = -Math.PI / 2 + 2 * Math.PI * ((i + 1) % n) / n
      return [m.id, { x: width / 2 + (n === 1 ? 0 : width * .36 * Math.cos(turn)), y: height / 2 + (n === 1 ? 0 : height * .34 * Math.sin(turn)) }]
    }))
    const svg = s('svg', { viewBox: small ? `0 -16 ${width} ${height + 16}` : `-30 -56 ${width + 60} ${height + 56}`, class: 'circle place' + (small ? ' thumb' : ''), ...label ? { role: 'img', 'aria-label': label } : { 'aria-hidden': 'true' } })
    const ids = [...spot.keys()]
    ids.forEach((a, i) => ids.slice(i + 1).forEach(b => { const p = spot.get(a), q = spot.get(b); svg.append(s('line', { class: 'link', x1: p.x, y1: p.y, x2: q.x, y2: q.y })) }))
    const before = new Map()
    for (const u of place.sent) {
      const p = spot.get(u.from), q = spot.get(u.to), link = u.from + '>' + u.to, k = .66 - .13 * (before.get(link) ?? 0)
      before.set(link, (before.get(link) ?? 0) + 1)
      const length = Math.hypot(q.x - p.x, q.y - p.y) || 1, side = small ? 3 : 8
      const x = p.x + (q.x - p.x) * k - (q.y - p.y) / length * side, y = p.y + (q.y - p.y) * k + (q.x - p.x) / length * side
      const turn = Math.atan2(q.y - p.y, q.x - p.x) * 57.29578
      svg.append(s('path', { class: 'message ' + (u.kind ? family(u.kind) : 'goodbye'), d: u.kind ? shapeOf(u.kind) : 'M-6 -6 L6 6 M6 -6 L-6 6', transform: `translate(${x.toFixed(1)} ${y.toFixed(1)}) rotate(${turn.toFixed(1)}) scale(${small ? .55 : 1.2})` },
        s('title', {}, `${u.kind ? u.kind.toUpperCase() : t('x_hangup')} ${u.from} → ${u.to}${u.leader ? `\n${t('ofLeadership', u)}` : ''}`)))
    }
    for (const m of place.members) svg.append(this.#member(m, spot.get(m.id), r, small, height))
    return svg
  }

  #member(m, { x, y }, r, small, height) {
    const leads = !m.dead && m.leader === m.id
    const g = s('g', { class: `member ${m.dead ? 'dead' : leads ? 'leads' : m.leader ? 'follows' : 'none'}`, transform: `translate(${x} ${y})` }, s('circle', { class: 'body', r }))
    g.style.setProperty('--own', m.leader ? this.leaderships.colour(m.epoch, m.leader) : 'var(--soft)')
    const k = r * .6
    if (m.dead) g.append(s('path', { class: 'mark', d: `M${-k} ${-k} L${k} ${k} M${k} ${-k} L${-k} ${k}` }))
    g.append(s('text', { class: 'id', dy: '.35em', 'font-size': r }, m.id))
    if (leads) g.append(s('g', { class: 'crown', transform: `translate(0 ${-r - 2}) scale(${small ? .4 : 1})` }, s('path', { d: 'M-12 0 L-15 -14 L-6.5 -7.5 L0 -18 L6.5 -7.5 L15 -14 L12 0 Z' })))
    if (small) return g
    const say = m.dead ? t('isDead') : leads ? t('isLeader', { epoch: m.epoch }) : m.leader ? t('isFollower', { leader: m.leader, epoch: m.epoch }) : t('isUndefined')
    const lines = [say, m.timers.length && t('x_waits', { timers: m.timers.map(x => x.replace(/^machine:/, '')).join(', ') })].filter(Boolean), above = y < height / 2
    g.append(s('text', { class: 'say', y: above ? -r - (leads ? 24 : 6) : r + 4 }, lines.map((line, i) => s('tspan', { x: 0, dy: i ? '1.15em' : above ? `${-1.15 * (lines.length - 1) - .2}em` : '1em' }, line))))
    return g
  }

  // map draws the whole graph, a column a depth; of a large one only how many states there are.
  async #map() {
    const { depths, edges, broken } = await this.simulator.ask('exploreGraph')
    const most = Math.max(...depths) + 1, count = new Array(most).fill(0), width = 900, height = 220
    this.spots = depths.map(d => ({ d, i: count[d]++ }))
    const x = d => 20 + (width - 40) * (most === 1 ? .5 : d / (most - 1))
    const map = $('#explore-map')
    map.textContent = ''
    this.whole = depths.length <= drawn
    if (!this.whole) {
      const top = Math.max(...count)
      map.append(...count.map((c, d) => s('rect', { class: 'bar', x: x(d) - 300 / most, width: Math.max(2, 600 / most), y: height - 8 - (height - 20) * c / top, height: (height - 20) * c / top }, s('title', {}, t('x_layer', { n: number.format(c), depth: d })))))
    } else {
      const y = p => height / 2 + (p.i - (count[p.d] - 1) / 2) * Math.min(26, (height - 16) / Math.max(count[p.d], 1))
      for (const p of this.spots) { p.x = x(p.d); p.y = y(p) }
      map.append(...edges.map(([a, b]) => s('line', { class: 'edge', x1: this.spots[a].x, y1: this.spots[a].y, x2: this.spots[b].x, y2: this.spots[b].y })))
      const bad = new Set(broken)
      map.append(...this.spots.map((p, no) => {
        const dot = s('circle', { class: 'dot' + (bad.has(no) ? ' bad' : ''), cx: p.x, cy: p.y, r: depths.length > 200 ? 3 : 5 }, s('title', {}, t('x_to', { no })))
        dot.addEventListener('click', () => this.#jump(no))
        return dot
      }))
    }
    this.here = s('circle', { class: 'here', r: 8 })
    map.append(this.here)
    this.x = x
    this.#mark()
  }

  #mark() {
    const at = this.path.at(-1)
    if (!this.here || !at || !this.spots?.[at.no]) return
    const p = this.spots[at.no]
    this.here.setAttribute('cx', this.whole ? p.x : this.x(p.d))
    this.here.setAttribute('cy', this.whole ? p.y : 8)
  }

  async #script() {
    const made = await this.simulator.ask('exploreScript', this.path.at(-1).no, this.way ?? -1)
    if (made.error) { text($('#explore-violation'), mistake(made.error)); return }
    $('#explore').close()
    this.lab.tours.end()
    this.lab.load(made.text, { at: 0, play: false })
  }
}
