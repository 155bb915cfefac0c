// Votes of a quorum, and the lease as it runs out and is renewed.

import { $, h, listed, replace, s, set, text } from './shared/dom.js'
import { get } from './agent.js'
import { t } from './texts.js'
import { lasting } from './times.js'

const every = 200 // ms between two looks
const span = 30_000 // ms that the strip shows

export class Quorum {
  constructor() {
    this.seen = [] // [when, what is left], the oldest first
    this.line = s('polyline', { class: 'left' })
    replace($('#lease-strip'), s('rect', { class: 'ground', width: 600, height: 60 }), this.line)
  }

  // show follows the votes if the member asked is of a quorum.
  show(status) {
    const there = Boolean(status.quorum)
    $('#quorum').hidden = !there
    if (!there) { clearInterval(this.timer); this.timer = 0; return }
    this.status = status
    this.#draw(status.quorum)
    this.timer ||= setInterval(() => this.#look(), every)
  }

  async #look() {
    if (document.hidden || this.looking || document.body.classList.contains('stale')) return
    this.looking = true
    try { this.#draw(await get('v1/quorum')) } catch { /* the page itself tells that the agent is gone */ } finally { this.looking = false }
  }

  #draw(q) {
    const leads = q.left > 0, whole = q.lease * 1000, now = performance.now()
    const left = 1000 * (leads ? q.left : q.promise)
    text($('#quorum-rule'), q.voters.map(set => t('majority', { n: set.length, m: Math.floor(set.length / 2) + 1 })).join(t('andOf')) + ' ' + t({ attested: 'takeoverAttested', refused: 'takeoverRefused' }[this.status.takeover] ?? 'takeoverLease', { time: lasting(whole) }))
    text($('#lease-words'), leads ? t('leaseLeft') : q.promised_to ? t('promised', { id: q.promised_to }) : q.promise > 0 ? t('promisedBefore') : t('noPromise'))
    const fraction = Math.min(1, left / Math.max(whole, 1))
    $('#lease-bar').style.width = 100 * fraction + '%'
    $('#lease-bar').classList.toggle('low', fraction < .35)
    text($('#lease-left'), left > 0 ? lasting(Math.round(left)) : '—')
    this.seen.push([now, fraction])
    while (this.seen.length && this.seen[0][0] < now - span) this.seen.shift()
    set(this.line, 'points', this.seen.map(([at, f]) => `${(600 * (1 - (now - at) / span)).toFixed(1)},${(58 - 54 * f).toFixed(1)}`).join(' '))
    const ids = [...new Set(q.voters.flat())]
    listed($('#votes'), ids, id => id, id => h('li', {}, h('strong', {}, id), h('span', { class: 'gauge' }, h('i')), h('span', { class: 'vote-words' })), (li, id) => {
      const [, gauge, words] = li.children
      const own = id === this.status.id
      const counts = own ? fraction : !leads || !(id in q.answered) ? 0 : Math.max(0, 1 - q.answered[id] / q.lease)
      gauge.firstChild.style.width = 100 * counts + '%'
      li.classList.toggle('none', counts === 0)
      text(words, this.#vote(id, q, leads, own))
    })
  }

  #vote(id, q, leads, own) {
    if (!leads) return own ? t(q.promise > 0 ? 'refuses' : 'grants') : id === this.status.leader ? t('leads') : this.status.leader ? t('askLeader') : t(this.status.members.find(m => m.id === id)?.state ?? 'unknown')
    if (own) return t('ownVote')
    if (!(id in q.answered)) return t('noAnswer')
    return q.answered[id] > q.lease ? t('oldAnswer', { time: lasting(q.answered[id] * 1000, true) }) : t('answer')
  }
}
