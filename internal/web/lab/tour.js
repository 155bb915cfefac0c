// Guided tours: a scenario with stops, at each of which something is told.

import { $, h, replace, text } from './shared/dom.js'
import { lang } from './shared/page.js'
import { t } from './texts.js'

export class Tours {
  constructor(lab) {
    this.lab = lab
    this.list = []
    $('#tours').addEventListener('change', () => {
      const name = $('#tours').value
      if (!name) { this.end(); return }
      this.begin(name)
    })
    $('#tour-next').addEventListener('click', () => this.next())
    $('#tour-back').addEventListener('click', () => this.go(this.stop - 1))
    $('#tour-end').addEventListener('click', () => this.end())
  }

  async load() {
    const list = await this.lab.simulator.ask('tours')
    if (list.error) throw new Error(list.error)
    this.list = list
    replace($('#tours'), h('option', { value: '' }, `${t('tours')}: ${t('noTour')}`), list.map(tour => h('option', { value: tour.name }, tour.title[lang])))
  }

  begin(name) {
    const tour = this.list.find(one => one.name === name)
    if (!tour) return false
    this.#begin(tour)
    return true
  }

  async #begin(tour) {
    $('#tours').value = tour.name
    this.lab.pause()
    const placed = await this.lab.simulator.ask('tour', tour.name, tour.scenario)
    if (placed.error) { this.lab.say(placed.error); return }
    if (!await this.lab.load(tour.scenario, { at: 0 })) return
    this.current = placed
    $('#tour').hidden = false
    text($('#h-tour'), placed.title[lang])
    this.go(0)
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
    $('#tour').hidden = true
    $('#tours').value = ''
  }

  #tell() {
    const { stops } = this.current
    text($('#tour-text'), stops[this.stop].text[lang])
    text($('#tour-place'), t('stop', { n: this.stop + 1, of: stops.length }))
    $('#tour-back').disabled = this.stop === 0
  }
}
