// Times as the user writes them.

import { lang, locale } from './shared/page.js'

const clock = new Intl.DateTimeFormat(locale, { hour: '2-digit', minute: '2-digit', second: '2-digit' })
const day = new Intl.DateTimeFormat(locale, { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', second: '2-digit' })
const fine = new Intl.DateTimeFormat(locale, { hour: '2-digit', minute: '2-digit', second: '2-digit', fractionalSecondDigits: 3 })
const number = new Intl.NumberFormat(locale, { maximumFractionDigits: 1 })
const whole = new Intl.NumberFormat(locale)
const units = lang === 'es' ? { d: 'd', h: 'h', m: 'min', s: 's', ms: 'ms' } : { d: 'd', h: 'h', m: 'min', s: 's', ms: 'ms' }

let ahead = 0 // ms from the browser's clock to the agent's

// synchronize takes over the agent's clock, which shows this stamp, and returns that time in ms. What the agent
// reports is by its clock.
export function synchronize(stamp) {
  ahead = exact(stamp) - Date.now()
  return now()
}

// now is the time by the agent's clock.
export const now = () => Date.now() + ahead

const date = at => at instanceof Date ? at : new Date(at)

// at is a time of day, with its day when that is another.
export const at = value => (date(value).toDateString() === date(now()).toDateString() ? clock : day).format(date(value))

export const toMilli = value => fine.format(date(value))

export const count = n => whole.format(n)

// lasting is how long something took, in ms; one that goes on is not told to the ms.
export function lasting(ms, coarse = false) {
  ms = Math.max(0, ms)
  if (ms < 1000 && !coarse) return `${number.format(ms)}\u00a0${units.ms}`
  const s = ms / 1000
  if (s < 60) return `${coarse ? whole.format(Math.floor(s)) : number.format(s)} ${units.s}`
  const m = Math.floor(s / 60)
  if (m < 60) return `${m} ${units.m} ${Math.floor(s % 60)} ${units.s}`
  const h = Math.floor(m / 60)
  if (h < 48) return `${h} ${units.h} ${m % 60} ${units.m}`
  return `${whole.format(Math.floor(h / 24))} ${units.d} ${h % 24} ${units.h}`
}

// exact is a stamp of RFC 3339 in ms, with the digits behind the millisecond.
export function exact(stamp) {
  const fraction = /\.(\d+)/.exec(stamp)?.[1] ?? '0'
  return Math.floor(Date.parse(stamp) / 1000) * 1000 + Number('0.' + fraction) * 1000
}
