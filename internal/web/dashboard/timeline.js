// Leaderships as this member has seen them: who, when, why it ended, and the gaps.

import { h, replace } from './shared/dom.js'
import { doing } from './shared/words.js'
import { t } from './texts.js'
import { at, exact, lasting, toMilli } from './times.js'

// reigns makes of a history the list of leaderships and of gaps between them, oldest first.
export function reigns(history) {
  const list = []
  let open = null, lostAt = null, waiting = []
  for (const e of history.events) {
    if (e.event !== 'leader' && e.event !== 'lost') { waiting.push(...e.records); continue }
    const when = exact(e.time), records = [...waiting, ...e.records]
    waiting = []
    if (e.event === 'leader') {
      if (lostAt !== null && when - lostAt > 0.05) list.push({ gap: true, from: lostAt, to: when }) // less is one step of the member's
      open = { leader: e.leader, epoch: e.epoch, from: when, to: null, began: records, ended: [] }
      list.push(open)
      lostAt = null
      continue
    }
    if (open && open.epoch === e.epoch && open.leader === e.leader) {
      open.to = when
      open.cause = e.cause
      open.ended = records
    }
    open = null
    lostAt = when
  }
  if (lostAt !== null) list.push({ gap: true, from: lostAt, to: null })
  return list
}

// shown is a number of rows that a page bears.
const shown = 200

export function draw(band, rows, history, leaderships, range) {
  const now = Date.now(), list = reigns(history)
  const from = Math.max(range ? now - range : -Infinity, Math.min(exact(history.began), list[0]?.from ?? Infinity))
  const x = when => 100 * (when - from) / Math.max(now - from, 1)
  replace(band, list.filter(r => (r.to ?? now) >= from).map(r => {
    const left = Math.max(0, x(r.from)), wide = Math.max(0, x(r.to ?? now) - left)
    const el = h('div', { class: r.gap ? 'gap' : '' }, r.gap || wide < 2 ? '' : r.leader)
    el.style.left = left + '%'
    el.style.width = wide + '%'
    if (!r.gap) el.style.background = leaderships.colour(r.epoch, r.leader)
    return el
  }))
  const opened = new Set([...rows.querySelectorAll('details[open]')].map(d => d.dataset.key))
  const visible = list.filter(r => (r.to ?? now) >= from).slice(-shown).reverse()
  replace(rows, visible.length ? visible.map(r => r.gap ? gap(r, now) : row(r, now, leaderships, opened)) : h('li', {}, h('span', { class: 'soft' }, t('noReigns'))))
}

function gap(r, now) {
  return h('li', { class: 'gap' }, h('span', { class: 'gap-line' }, r.to === null ? t('gapNow', { from: at(r.from) }) + ` (${lasting(now - r.from, true)})` : t('gap', { time: lasting(r.to - r.from) })),
    h('span', { class: 'when' }, at(r.from)))
}

function row(r, now, leaderships, opened) {
  const key = r.epoch + ':' + r.leader
  const li = h('li', {}, h('strong', {}, t('reignLine', r)),
    h('span', { class: 'when' }, r.to === null ? t('since', { from: at(r.from), time: lasting(now - r.from, true) }) : t('fromTo', { from: at(r.from), to: at(r.to), time: lasting(r.to - r.from) })),
    r.cause && h('span', {}, t('ended', { cause: causeOf(r) })),
    h('details', { 'data-key': key, open: opened.has(key) }, h('summary', {}, t('whyButton'), h('span', { class: 'only-read' }, ' ' + t('reignLine', r))),
      steps([...r.began, ...r.ended])))
  li.style.setProperty('--own', leaderships.colour(r.epoch, r.leader))
  return li
}

// causeOf is why a leadership ended, and the member's own word for it.
function causeOf(r) {
  const own = r.ended.findLast?.(x => x.what === 'loses')?.why ?? ''
  const words = t('c_' + r.cause)
  const detail = own.replace(/^\w+: /, '')
  return detail ? `${words} (${detail})` : words
}

function steps(records) {
  if (!records.length) return h('p', { class: 'soft' }, t('noTrace'))
  return h('ol', { class: 'steps' }, records.map(r => h('li', {}, h('time', { datetime: r.time }, toMilli(r.time)), h('span', {}, sentence(r)))))
}

// sentence says a record in the words of "batuta explain".
export function sentence(r) {
  return [r.member, doing(r.what), r.peer && r.peer !== r.member ? r.peer : '', r.token, r.why && `(${r.why})`].filter(Boolean).join(' ')
}
