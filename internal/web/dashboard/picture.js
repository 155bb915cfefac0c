// The cluster as a picture: members in a circle, the connections that are known of, and
// how the leader and they are in touch.

import { replace, s } from './shared/dom.js'
import { short } from './shared/words.js'
import { byID } from './order.js'
import { t } from './texts.js'
import { now } from './times.js'

const width = 720, height = 440

// draw gives the kinds of lines that are there.
export function draw(root, status, links, colour) {
  const members = status.members, n = members.length
  const r = Math.max(8, Math.min(32, 560 / (n + 8)))
  const rx = Math.min(290, 160 + 24 * n), ry = Math.min(160, 90 + 16 * n)
  const places = new Map(members.map((m, i) => {
    const turn = -Math.PI / 2 + 2 * Math.PI * ((i + 1) % n) / n // the highest on top
    return [m.id, n === 1 ? { x: width / 2, y: height / 2 } : { x: width / 2 + rx * Math.cos(turn), y: height / 2 + 10 + ry * Math.sin(turn) }]
  }))
  const edges = s('g'), nodes = s('g')
  const leader = places.get(status.leader), kinds = new Set(['link', 'unreachable', 'down']), reached = new Set()
  const line = (kind, p, q, own) => {
    kinds.add(kind)
    edges.append(s('line', { class: `edge ${kind} ${own ? 'own' : ''}`, x1: p.x, y1: p.y, x2: q.x, y2: q.y }))
  }
  const isRing = status.successor !== undefined
  if (isRing) { ring(edges, members, places); kinds.add('next') }
  for (const { ends, sure } of links) {
    const own = ends.includes(status.leader)
    if (own) for (const id of ends) reached.add(id)
    line(sure ? 'link' : 'half', ...ends.map(id => places.get(id)), own)
  }
  for (const m of members) {
    if (!leader || m.id === status.leader || m.state === 'up' && reached.has(m.id)) continue
    line(m.state === 'up' ? 'told' : m.state, leader, places.get(m.id))
  }
  const shown = short(members.map(m => m.id))
  for (const m of members) nodes.append(node(m, shown(m.id), status, places.get(m.id), r, n))
  const label = t('pictureLabel', { id: status.id, leader: status.leader ?? t('noLeader'), n, links: links.length })
  const svg = s('svg', { viewBox: `0 0 ${width} ${height}`, class: n > 10 ? 'cluster dense' : 'cluster', role: 'img', 'aria-label': label }, edges, nodes)
  svg.style.setProperty('--own', colour)
  replace(root, svg)
  return kinds
}

// inRing gives the members in the order of their ids. Members of one priority are in that order already.
function inRing(members) {
  if (new Set(members.map(m => m.priority ?? 0)).size === 1) return members
  return [...members].sort((a, b) => byID(a.id, b.id))
}

// ring draws the order in which members pass on: each to the next that is not down.
function ring(edges, members, places) {
  const live = inRing(members).filter(m => m.state !== 'down')
  live.forEach((m, i) => {
    const next = live[(i + 1) % live.length]
    if (next === m) return
    const p = places.get(m.id), q = places.get(next.id)
    const bend = 26, mx = (p.x + q.x) / 2, my = (p.y + q.y) / 2, d = Math.hypot(mx - width / 2, my - height / 2) || 1
    edges.append(s('path', { class: 'edge next', d: `M${p.x} ${p.y} Q${mx + (mx - width / 2) / d * bend} ${my + (my - height / 2) / d * bend} ${q.x} ${q.y}` }))
  })
}

function node(m, shown, status, { x, y }, r, n) {
  const leads = m.id === status.leader, self = m.id === status.id
  const behind = !leads && m.state === 'up' && !self && (m.epoch || !m.indirect) && status.epoch > m.epoch && now() - Date.parse(status.since) > 1500 // its word takes a beat
  const below = y > height / 2 + 12
  const words = leads ? t('leads') : m.state === 'up' ? (m.standing && m.standing !== 'eligible' ? t(m.standing).replace(/^no: /, '') : behind ? t('behind') : t('follows')) : t(m.state)
  const g = s('g', { class: `node ${m.state} ${leads ? 'leads' : ''} ${behind ? 'behind' : ''}`, transform: `translate(${x} ${y})` },
    s('title', {}, `${m.id} · ${words} · ${m.address}`), s('circle', { class: 'body', r }))
  if (m.state === 'down') g.append(s('path', { class: 'cross', d: `M${-r * .6} ${-r * .6} L${r * .6} ${r * .6} M${r * .6} ${-r * .6} L${-r * .6} ${r * .6}` }))
  g.append(s('text', { class: shown.length > 3 ? 'id long' : 'id', dy: '.35em', 'font-size': Math.max(8, Math.min(r * .85, r * 2.7 / Math.max(shown.length, 1))) }, shown))
  if (leads) g.append(s('path', { class: 'crown', transform: `translate(0 ${-r - 4})`, d: 'M-12 0 L-15 -14 L-6.5 -7.5 L0 -18 L6.5 -7.5 L15 -14 L12 0 Z' }))
  if (n <= 24) {
    const up = leads ? -r - 27 : -r - 11
    g.append(s('text', { class: `say ${below ? 'below' : ''} ${words === t('follows') ? 'plain' : ''}`, y: below ? r + 18 : up }, words))
    if (self) g.append(s('text', { class: below ? 'you below' : 'you', y: below ? r + 34 : up - 16 }, t('you')))
  }
  return g
}

export function legend(root, kinds) {
  replace(root, ['link', 'half', 'told', 'unreachable', 'down', 'next'].filter(kind => kinds.has(kind)).map(kind => {
    const line = s('svg', { viewBox: '0 0 26 12', 'aria-hidden': 'true' }, s('line', { class: `edge ${kind}`, x1: 1, y1: 6, x2: 25, y2: 6 }))
    const li = document.createElement('li')
    li.append(line, t('l_' + kind))
    return li
  }))
}
