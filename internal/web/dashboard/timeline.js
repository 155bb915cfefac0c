// Leaderships: who, when, why each ended, the time without one, and the time with two.

import { h, listed, replace, text } from './shared/dom.js'
import { lang } from './shared/page.js'
import { causes, doing, reason, short } from './shared/words.js'
import { merge, reigns } from './reigns.js'
import { t } from './texts.js'
import { at, exact, lasting, now as clock, toMilli } from './times.js'

// shown is a number of rows that a page bears.
const shown = 200

// seen is what each member has seen that is known of: the one asked first, by its own
// history, the others as they were gathered.
function seen(id, history, gathered) {
  const others = (gathered?.members ?? []).filter(m => m.id !== id && m.history)
  const asOf = gathered ? exact(gathered.at) : 0
  return [{ id, doubt: 0, asOf: Infinity, began: exact(history.began), reigns: reigns(history) },
    ...others.map(m => ({ id: m.id, asOf, doubt: m.doubt * 1000, began: exact(m.history.began) - m.ahead * 1000, reigns: reigns(m.history, m.ahead * 1000) }))]
}

export function draw(el, id, history, gathered, leaderships, range) {
  const now = clock(), members = seen(id, history, gathered), list = merge(members)
  const begin = Math.min(...members.map(m => m.began), list[0]?.from ?? Infinity)
  const from = Math.max(range ? now - range : -Infinity, begin)
  const x = when => 100 * (when - from) / Math.max(now - from, 1)
  const place = (div, r, until = now) => {
    const left = Math.max(0, x(r.from))
    div.style.left = left + '%'
    div.style.width = Math.max(0, x(r.to ?? until) - left) + '%'
    return div
  }
  const named = short([...new Set([...members.map(m => m.id), ...list.filter(r => r.leader).map(r => r.leader)])])
  const ago = r => (r.to ?? now) >= from
  replace(el.band, ...list.filter(r => ago(r) && !r.twice).map(r => {
    const div = place(h('div', { class: r.gap ? 'gap' : '' }), r)
    if (!r.gap && x(r.to ?? now) - x(r.from) >= 2) div.textContent = named(r.leader)
    if (!r.gap) div.style.background = leaderships.colour(r.epoch, r.leader)
    return div
  }), ...list.filter(r => r.twice && ago(r)).map(r => place(h('div', { class: 'twice' }), r)))
  listed(el.lanes, members.length > 1 ? members : [], m => m.id, m => h('div', { class: 'lane' }, h('span', { class: 'of', title: m.id }, named(m.id)), h('div', { class: 'views' })), (lane, m) =>
    replace(lane.lastChild, m.reigns.filter(ago).map(r => {
      const div = place(h('div', { class: r.gap ? 'gap' : r.leader === m.id ? 'own' : '' }), r, Math.min(now, m.asOf)) // later it has not been asked
      if (!r.gap) div.style.background = leaderships.colour(r.epoch, r.leader)
      return div
    })))
  const opened = new Set([...el.rows.querySelectorAll('details[open]')].map(d => d.dataset.key))
  const visible = list.filter(ago).slice(-shown).reverse()
  const row = r => r.gap ? gap(r, now) : r.twice ? twice(r, now) : reign(r, now, leaderships, opened, id, members.length)
  const focused = el.rows.contains(document.activeElement) && document.activeElement.closest('details')?.dataset.key
  replace(el.rows, visible.length ? visible.map(row) : h('li', {}, h('span', { class: 'soft' }, t('noReigns'))))
  if (focused) [...el.rows.querySelectorAll('details')].find(d => d.dataset.key === focused)?.firstElementChild.focus({ preventScroll: true })
  text(el.doubles, list.some(r => r.twice) ? t('doubles', { n: list.filter(r => r.twice).length }) : '')
}

function gap(r, now) {
  return h('li', { class: 'gap' }, h('span', { class: 'gap-line' }, r.to === null ? t('gapNow', { from: at(r.from) }) + ` (${lasting(now - r.from, true)})` : t('gap', { time: lasting(r.to - r.from) })),
    h('span', { class: 'when' }, at(r.from)))
}

function twice(r, now) {
  const [a, b] = r.twice.map(x => t('reignLine', x))
  return h('li', { class: 'gap' }, h('span', { class: 'gap-line' }, t('twice', { a, b, time: lasting((r.to ?? now) - r.from, r.to === null) })), h('span', { class: 'when' }, at(r.from)))
}

function reign(r, now, leaderships, opened, id, members) {
  const key = r.epoch + ':' + r.leader, own = r.views.find(v => v.by === id)
  const li = h('li', {}, h('strong', {}, t('reignLine', r)),
    h('span', { class: 'when' }, r.to === null ? t('since', { from: at(r.from) }) : t('fromTo', { from: at(r.from), to: at(r.to), time: lasting(r.to - r.from) })),
    members > 1 && h('span', { class: 'when' }, t(r.own ? 'toldByItself' : 'toldByOthers', { ids: r.views.map(v => v.by).join(', ') })),
    r.cause && h('span', {}, t('ended', { cause: causeOf(r, own) })),
    h('details', { 'data-key': key, open: opened.has(key) }, h('summary', {}, t('whyButton'), h('span', { class: 'only-read' }, ' ' + t('reignLine', r))),
      steps(own ? [...own.began, ...own.ended] : [])))
  li.style.setProperty('--own', leaderships.colour(r.epoch, r.leader))
  return li
}

// causeOf is why a leadership ended, and a word for it: its leader's own, else that of the
// member asked. A word that only repeats the cause is none.
export function causeOf(r, own) {
  const words = causes[r.cause] ?? r.cause
  const said = [r.views.find(v => v.by === r.leader), own].find(v => v?.cause === r.cause && v.why && v.why !== v.cause)
  return said ? `${words} (${reason(said.why)})` : words
}

function steps(records) {
  if (!records.length) return h('p', { class: 'soft' }, t('noTrace'))
  return h('ol', { class: 'steps' }, records.map(r => h('li', {}, h('time', { datetime: r.time }, toMilli(r.time)), h('span', {}, sentence(r)))))
}

// sentence says a record in the words of "batuta explain".
export function sentence(r) {
  const peer = r.peer !== r.member && r.peer, does = [r.member, doing(r.what, peer), peer].filter(Boolean).join(' ')
  return [lang === 'es' && r.token ? does + ',' : does, r.token, r.why && `(${reason(r.why)})`].filter(Boolean).join(' ')
}
