// The events as a list, and why one happened.

import { h, replace } from './shared/dom.js'
import { decimal } from './shared/page.js'
import { reason } from './shared/words.js'
import { upperBound } from './model.js'

const shown = 400 // rows at one time

const big = new Set(['leads', 'claims', 'is elected', 'loses'])

export const stamp = at => decimal(at / 1000, 3)

// EventLog shows what has happened up to the present, the newest last.
export class EventLog {
  constructor(list, t, pick) {
    this.list = list
    this.t = t
    this.pick = pick
    this.rows = new Map()
    list.addEventListener('keydown', event => {
      if (!this.model || !['ArrowUp', 'ArrowDown', 'Enter'].includes(event.key)) return
      event.preventDefault()
      event.stopPropagation()
      const last = this.last - 1
      const at = event.key === 'ArrowUp' ? Math.max(0, (this.chosen ?? last + 1) - 1) : event.key === 'ArrowDown' ? Math.min(this.model.events.length - 1, (this.chosen ?? last) + 1) : this.chosen ?? last
      const e = this.model.events[at]
      if (e) { this.chosen = at; this.pick({ event: e, at: e.at }) }
    })
  }

  show(model) {
    this.model = model
    this.first = this.last = 0
    this.chosen = null
    replace(this.list, h('li', { class: 'soft none' }, this.t('logEmpty')))
  }

  render(now) {
    const events = this.model.events
    if (this.chosen !== null && events[this.chosen].at !== now) this.chosen = null // arrow keys begin at the present
    const last = upperBound(events, now, e => e.at), first = Math.max(0, last - shown)
    if (last !== this.last || first !== this.first) this.#rows(first, last)
  }

  #rows(first, last) {
    const grows = first >= this.first && first < this.last && last >= this.last
    if (!grows) { this.list.textContent = ''; this.last = first }
    else for (let i = this.first; i < first; i++) this.list.firstElementChild.remove()
    if (grows && this.last === 0 || !grows) this.list.textContent = ''
    const rows = []
    for (let i = this.last; i < last; i++) rows.push(this.#row(this.model.events[i]))
    this.list.append(...rows)
    this.first = first
    this.last = last
    for (const el of this.list.querySelectorAll('.now')) el.classList.remove('now')
    this.list.lastElementChild?.classList.add('now')
    this.list.scrollTop = this.list.scrollHeight
  }

  #row(e) {
    const row = h('li', { class: e.fault ? 'fault' : big.has(e.what) ? 'big' : '', title: reason(e.why) || null, onclick: () => this.pick({ event: e, at: e.at }) },
      h('time', {}, stamp(e.at)), h('span', {}, this.t.sentence(e)))
    return row
  }
}

// Why shows what led to an event or a message, the newest first.
export class Why {
  constructor(list, t, pick) {
    this.list = list
    this.t = t
    this.pick = pick
  }

  show(model, picked) {
    if (!picked) { replace(this.list, h('li', { class: 'soft' }, this.t('whyEmpty'))); return }
    replace(this.list, model.why(picked).map((x, i) => {
      const o = x.event ?? x.flight
      const times = x.flight ? `${this.t('sentAt', { time: stamp(o.sent) })}, ${o.arrived < 0 ? this.t('neverArrives') : this.t('arrivesAt', { time: stamp(o.arrived) })}` : stamp(x.at)
      const said = reason(x.event ? o.why : o.drop)
      return h('li', {}, h('button', { type: 'button', onclick: () => this.pick(x), 'aria-current': i === 0 ? 'true' : null },
        i > 0 && h('span', { class: 'only-read' }, this.t('because') + ' '),
        x.event ? this.t.sentence(o) : this.t.flight(o),
        h('span', { class: 'reason' }, [said, times].filter(Boolean).join(' · '))))
    }))
  }
}
