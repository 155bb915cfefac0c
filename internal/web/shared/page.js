// Language, theme and locale of a page.

const store = {
  get(key) { try { return localStorage.getItem(key) } catch { return null } },
  set(key, value) { try { localStorage.setItem(key, value) } catch { /* a page without storage forgets */ } },
}

const wanted = new URLSearchParams(location.search).get('lang') || store.get('batuta.lang') || navigator.language || 'en'

// lang is the page's language: en or es.
export const lang = wanted.toLowerCase().startsWith('es') ? 'es' : 'en'

// locale is how numbers and times are written: the user's own where it is of that language.
export const locale = (navigator.languages || []).find(l => l.toLowerCase().startsWith(lang)) || lang

// still matches if the user has asked for reduced motion.
export const still = matchMedia('(prefers-reduced-motion: reduce)')

const decimals = []

// decimal is a number with so many digits behind the point, or the comma.
export const decimal = (n, digits) => (decimals[digits] ??= new Intl.NumberFormat(locale, { minimumFractionDigits: digits, maximumFractionDigits: digits, useGrouping: false })).format(n)

const day = new Intl.DateTimeFormat(locale, { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit', second: '2-digit', timeZoneName: 'short' })

// moment is a stamp of RFC 3339 in the user's own time, with the zone.
export const moment = stamp => day.format(new Date(stamp)).replaceAll(' ', '\u00a0')

// isolated keeps the direction of the text around an id of Hebrew or Arabic letters.
const isolated = words => /[\u0590-\u08ff]/.test(words) ? `\u2068${words}\u2069` : words

// speak gives a function that finds a text by its key and fills in {names}.
export function speak(texts) {
  const own = texts[lang]
  return (key, values = {}) => {
    const text = own[key] ?? texts.en[key] ?? key
    return text.replace(/\{(\w+)\}/g, (_, name) => isolated(String(values[name] ?? '')))
  }
}

// translate fills in what the page's own markup asks for: data-t the text, data-t-label
// the name for a screen reader, data-t-title the tip.
export function translate(t, from = document) {
  document.documentElement.lang = lang
  for (const el of from.querySelectorAll('[data-t]')) el.textContent = t(el.dataset.t)
  for (const el of from.querySelectorAll('[data-t-label]')) el.setAttribute('aria-label', t(el.dataset.tLabel))
  for (const el of from.querySelectorAll('[data-t-title]')) {
    el.title = t(el.dataset.tTitle)
    if (!el.textContent.trim()) el.setAttribute('aria-label', el.title)
  }
}

// toggles makes the two buttons work that every page has. keep writes what the page shows into its
// address, for the same page in the other language.
export function toggles(languageButton, themeButton, keep = () => true) {
  languageButton.textContent = lang === 'es' ? 'English' : 'Español'
  languageButton.lang = lang === 'es' ? 'en' : 'es'
  languageButton.addEventListener('click', async () => {
    if (!await keep()) return // the other language would show another scenario
    const other = lang === 'es' ? 'en' : 'es', url = new URL(location.href)
    store.set('batuta.lang', other)
    if (store.get('batuta.lang') === other) url.searchParams.delete('lang')
    else url.searchParams.set('lang', other) // without storage
    history.replaceState(null, '', url)
    location.reload()
  })
  const root = document.documentElement
  const dark = () => (root.dataset.theme || (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')) === 'dark'
  const show = () => themeButton.setAttribute('aria-pressed', String(dark()))
  const kept = new URLSearchParams(location.search).get('theme') || store.get('batuta.theme')
  if (kept === 'dark' || kept === 'light') root.dataset.theme = kept
  themeButton.addEventListener('click', () => {
    root.dataset.theme = dark() ? 'light' : 'dark'
    store.set('batuta.theme', root.dataset.theme)
    show()
    dispatchEvent(new Event('themechange'))
  })
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { show(); dispatchEvent(new Event('themechange')) })
  show()
}

// colours reads the page's own colours, for what is drawn on a canvas.
export function colours(...names) {
  const style = getComputedStyle(document.documentElement)
  return Object.fromEntries(names.map(name => [name, style.getPropertyValue('--' + name).trim()]))
}
