// Guided tours: a scenario with stops, at each of which something is told or asked. An
// exercise is a tour that a seed has made.

import { $, h, replace, text } from './shared/dom.js'
import { lang } from './shared/page.js'
import { t } from './texts.js'
import { exercise, exercises } from './exercises.js'
import { Prediction } from './predict.js'
import { parse, place } from './script.js'

const names = ['1-bully-cascade', '2-bully-crash-and-return', '3-chang-roberts', '4-ring-skips-the-dead', '5-partition', '6-frozen-leader', '7-one-link', '8-quorum',
  '9-attested-takeover', '10-flapping-follower', '11-lesser-side']

// bound keeps on one line what belongs together: a number and its unit, a member's article, a formula.
export const bound = words => words.replace(/(\d) (ms|s|%)(?!\w)/g, '$1\u00a0$2').replace(/(^|[\s(])(el|al|del|n\.º|no\.) (?=\d)/gi, '$1$2\u00a0')
  .replace(/ ([−+]) /g, '\u00a0$1\u00a0').replace(/ = /g, ' =\u00a0')

const anySeed = () => 1 + Math.floor(Math.random() * 9999)

export class Tours {
  constructor(lab) {
    this.lab = lab
    this.list = []
    this.prediction = new Prediction($('#predict'), $('#graded'), answers => this.#predicted(answers))
    $('#tours').addEventListener('change', () => {
      const name = $('#tours').value
      if (!name) { this.end(); return }
      const [kind, of] = name.split(':')
      if (of) this.exercise(kind, anySeed())
      else this.begin(name)
    })
    $('#tour-next').addEventListener('click', () => this.next())
    $('#tour-back').addEventListener('click', () => this.go(this.stop - 1))
    $('#tour-end').addEventListener('click', () => this.end())
    $('#tour-again').addEventListener('click', () => this.exercise(this.current.exercise, anySeed()))
  }

  async load() {
    const list = this.list = await Promise.all(names.map(async name => {
      const answer = await fetch(`tours/${name}.txt`)
      if (!answer.ok) throw new Error(`tours/${name}.txt: ${answer.status}`)
      return parse(name, await answer.text())
    }))
    const titles = name => exercise(name, 1).match(new RegExp(`^${lang}: (.*)$`, 'm'))[1]
    replace($('#tours'), h('option', { value: '' }, `${t('tours')}: ${t('noTour')}`), list.map(tour => h('option', { value: tour.name }, tour.title[lang])),
      h('optgroup', { label: t('exercises') }, exercises.map(name => h('option', { value: name + ':exercise' }, titles(name)))))
  }

  begin(name, stop) {
    const tour = this.list.find(one => one.name === name)
    if (!tour) return false
    this.#begin(tour.name, tour, stop)
    return true
  }

  // exercise begins one; without a seed any.
  exercise(name, seed) {
    if (!exercises.includes(name)) return false
    seed = Number.isSafeInteger(seed) && seed >= 0 ? seed : anySeed()
    this.#begin(name + ':exercise', { ...parse(name, exercise(name, seed)), exercise: name, seed })
    return true
  }

  // link is what an address has behind the # for this tour and its stop; null: there is none. An exercise
  // begins at its first question.
  get link() {
    const { current, stop } = this
    return current && (current.exercise ? `exercise=${current.exercise}&seed=${current.seed}` : `tour=${encodeURIComponent(current.name)}${stop ? `&stop=${stop + 1}` : ''}`)
  }

  async #begin(choice, tour, stop = 1) {
    $('#tours').value = choice
    this.lab.pause()
    if (!await this.lab.load(tour.scenario, { at: 0 })) return
    try { this.show(place(tour, this.lab.model), stop - 1) } catch (error) { this.lab.say(error.message) }
  }

  // show begins a tour of the run that is shown.
  show(placed, stop = 0) {
    this.current = placed
    this.answers = []
    $('#tour').hidden = false
    text($('#h-tour'), placed.title[lang] + (placed.exercise ? ` · ${bound(t('exerciseNo', { seed: placed.seed }))}` : ''))
    this.go(stop)
  }

  go(i) {
    if (!this.current) return
    this.stop = Math.max(0, Math.min(i, this.current.stops.length - 1))
    this.lab.pause()
    this.lab.seek(this.current.stops[this.stop].at)
    this.#tell()
  }

  // next plays on to the next stop.
  next() {
    const { stops } = this.current
    if (this.stop + 1 >= stops.length) { this.end(); return }
    const now = stops[this.stop].at
    if (this.lab.playing || Math.abs(this.lab.now - now) > 1e-3 && this.lab.now > now) { this.go(this.stop + 1); return } // no patience
    if (stops[this.stop + 1].at <= now) { this.go(this.stop + 1); return }
    this.lab.play()
  }

  // limit is how far to play: to the next stop.
  limit(now) {
    if (!this.current) return undefined
    return this.current.stops.slice(this.stop + 1).map(s => s.at).find(at => at > now + 1e-6)
  }

  arrived(now) {
    if (!this.current) return
    const i = this.current.stops.findIndex((s, k) => k > this.stop && s.at >= now - 1e-6)
    if (i >= 0) { this.stop = i; this.#tell() }
  }

  end() {
    if (!this.current) return
    this.current = null
    if ($('#tour').contains(document.activeElement)) $('#stage').focus({ preventScroll: true })
    $('#tour').hidden = true
    $('#tours').value = ''
    document.body.classList.remove('predicting')
    if (location.hash.includes('=')) history.replaceState(null, '', location.pathname + location.search)
  }

  #predicted(answers) {
    this.answers[this.stop] = answers
    $('#tour-next').focus({ preventScroll: true }) // the form will be hidden
    this.next()
  }

  #tell() {
    const { stops } = this.current, here = stops[this.stop], before = stops[this.stop - 1]
    if (this.current.name) history.replaceState(null, '', '#' + this.link) // a reload is at this stop
    text($('#tour-text'), bound(here.text[lang]))
    text($('#tour-place'), t('stop', { n: this.stop + 1, of: stops.length }))
    $('#tour-back').disabled = this.stop === 0
    $('#tour-again').hidden = !this.current.exercise || this.stop + 1 < stops.length
    const last = this.stop + 1 === stops.length
    text($('#tour-next'), t(last ? 'leave' : here.ask && !this.answers[this.stop] ? 'p_skip' : 'next'))
    $('#tour-end').hidden = last
    $('#tour-next').classList.toggle('first', !here.ask)
    this.prediction.grade(this.lab.model, before?.ask, this.answers[this.stop - 1], before?.at, here.at)
    this.prediction.ask(this.lab.model, here.ask, this.answers[this.stop])
  }
}
