// Small helpers to build the page. Text is always text: nothing here takes markup.

const SVG = 'http://www.w3.org/2000/svg'

// h makes an element; attributes that begin with "on" are listeners, children that are
// no nodes are text.
export function h(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children)
}

// s makes an element of SVG.
export function s(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children)
}

function fill(el, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue
    if (key.startsWith('on')) el.addEventListener(key.slice(2), value)
    else el.setAttribute(key, value === true ? '' : String(value))
  }
  put(el, children)
  return el
}

function put(el, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue
    el.append(child instanceof Node ? child : String(child))
  }
}

// replace puts children in place of what el holds.
export function replace(el, ...children) {
  el.textContent = ''
  put(el, children)
}

export const $ = (selector, from = document) => from.querySelector(selector)

// set changes an attribute only if it differs, which costs no layout when nothing changes.
export function set(el, key, value) {
  const text = String(value)
  if (el.getAttribute(key) !== text) el.setAttribute(key, text)
}

export function text(el, value) {
  if (el.textContent !== value) el.textContent = value
}

// listed keeps one child of parent for each item, by key, in order, and reuses them.
export function listed(parent, items, key, make, update) {
  const keys = items.map(item => String(key(item))), kept = new Set(keys), old = new Map()
  for (const el of [...parent.children]) { // removed first: a child that only moves up stays in place, and keeps the focus
    if (kept.has(el.dataset.key)) old.set(el.dataset.key, el)
    else el.remove()
  }
  let at = parent.firstElementChild
  items.forEach((item, i) => {
    let el = old.get(keys[i])
    if (el) old.delete(keys[i])
    else { el = make(item); el.dataset.key = keys[i] }
    if (el !== at) parent.insertBefore(el, at)
    else at = at.nextElementSibling
    if (update) update(el, item)
  })
}
