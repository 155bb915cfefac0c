// Explains unreachable members to the operator: which side may have a leader, and what to check.

import { t } from './texts.js'

const most = 5 // members that are named

// partition is that text; empty: all members are reachable, or their processes have ended.
export function partition(s) {
  const lost = s.members.filter(m => m.state === 'unreachable' && m.id !== s.leader) // a leader that other members confirm still leads
  if (!lost.length) return ''
  const list = of => lost.slice(0, most).map(of).join(', ') + (lost.length > most ? ' …' : '')
  return [t('apart', { ids: list(m => m.id) }), side(s, lost), t('apartDo', { addresses: list(m => m.address) })].join(' ')
}

// side is which side may have a leader.
function side(s, lost) {
  if (!s.quorum) return t('apartBest')
  const up = new Set(s.members.filter(m => m.state === 'up').map(m => m.id))
  const short = s.quorum.voters.map(set => ({ up: set.filter(id => up.has(id)).length, n: set.length, m: Math.floor(set.length / 2) + 1 })).find(x => x.up < x.m)
  if (short) return t('apartMinority', short)
  return s.leader && lost.some(m => s.quorum.voters.some(set => set.includes(m.id))) ? t('apartMajority') : ''
}
