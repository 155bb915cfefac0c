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
  const old = new Map([...parent.children].map(el => [el.dataset.key, el]))
  let at = parent.firstElementChild
  for (const item of items) {
    const k = String(key(item))
    let el = old.get(k)
    if (el) old.delete(k)
    else { el = make(item); el.dataset.key = k }
    if (el !== at) parent.insertBefore(el, at)
    else at = at.nextElementSibling
    if (update) update(el, item)
  }
  for (const el of old.values()) el.remove()
}
