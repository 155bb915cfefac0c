// A list of any length as rows of a grid, of which only those exist that are seen. All are
// of one height, the style's. The grid has one stop of the Tab key: arrows walk its rows,
// Enter acts on one.

import { listed } from './shared/dom.js'

const spare = 6 // rows beyond either edge, so that none is missing while the list moves

export class Rows {
  #items = []
  #active = -1
  #height = 0

  // grid scrolls, and holds body, which is as high as all rows. key tells items apart, make
  // gives an element, update fills it in, act is what Enter does.
  constructor(grid, body, { key, make, update, act }) {
    Object.assign(this, { grid, body, key, make, update, act })
    grid.addEventListener('scroll', () => this.#draw(), { passive: true })
    grid.addEventListener('keydown', event => this.#press(event))
    grid.addEventListener('focus', () => { if (this.#active < 0 && this.#items.length) this.#go(Math.ceil(grid.scrollTop / this.#height)) })
    new ResizeObserver(() => { this.#height = 0; this.#draw() }).observe(grid)
  }

  // show puts other items in their place; the row that arrows have come to stays if it is there.
  show(items) {
    const active = this.#items[this.#active]
    this.#items = items
    this.#active = active ? items.findIndex(item => this.key(item) === this.key(active)) : -1
    this.grid.setAttribute('aria-rowcount', items.length + 1) // and the heads
    this.#draw()
  }

  #draw() {
    const { grid, body } = this, items = this.#items
    if (grid.clientHeight === 0) return // it is not seen
    if (!this.#height) {
      this.#rows(0, Math.min(1, items.length))
      this.#height = body.firstElementChild?.offsetHeight ?? 0
      if (!this.#height) return
    }
    body.style.height = `${items.length * this.#height}px`
    const first = Math.floor(grid.scrollTop / this.#height) - spare
    this.#rows(Math.max(0, first), Math.min(items.length, first + Math.ceil(grid.clientHeight / this.#height) + 2 * spare))
    const row = this.#active < 0 ? null : body.querySelector('.active')
    if (row) grid.setAttribute('aria-activedescendant', row.id)
    else grid.removeAttribute('aria-activedescendant')
  }

  #rows(from, to) {
    const seen = this.#items.slice(from, to).map((item, i) => [from + i, item])
    listed(this.body, seen, ([, item]) => this.key(item), ([, item]) => this.make(item), (el, [i, item]) => {
      el.style.transform = `translateY(${i * this.#height}px)`
      el.id = `row-${i}`
      el.setAttribute('aria-rowindex', i + 2)
      el.classList.toggle('active', i === this.#active)
      this.update(el, item)
    })
  }

  #press(event) {
    if (event.target !== this.grid || !this.#items.length) return
    const page = Math.max(1, Math.floor(this.grid.clientHeight / this.#height) - 2)
    const to = { ArrowDown: this.#active + 1, ArrowUp: this.#active - 1, PageDown: this.#active + page, PageUp: this.#active - page, Home: 0, End: this.#items.length - 1 }[event.key]
    if (to !== undefined) this.#go(to)
    else if (event.key === 'Enter' && this.#active >= 0) this.act(this.#items[this.#active])
    else return
    event.preventDefault()
  }

  #go(to) {
    this.#active = Math.max(0, Math.min(this.#items.length - 1, to))
    const heads = this.body.offsetTop, top = this.#active * this.#height, seen = this.grid.clientHeight - heads - this.#height
    this.grid.scrollTop = Math.min(top, Math.max(top - seen, this.grid.scrollTop))
    this.#draw()
  }
}
