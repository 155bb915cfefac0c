// The named elections: how they are spread over the members, and who leads each.

import { $, h, listed, set, text } from './shared/dom.js'
import { news, post } from './agent.js'
import { question } from './dialog.js'
import { t } from './texts.js'
import { count, lasting, now } from './times.js'
import { Rows } from './window.js'

const noLeader = Symbol('noLeader') // as the leader that is looked for

export class Elections {
  #list = []
  #by = null // whose elections are shown alone; null: all
  #shown = ''

  // done is called once something has been done.
  constructor(done) {
    this.done = done
    this.rows = new Rows($('#elections-rows'), $('#elections-all'), {
      key: e => `${e.name} ${e.seat}`, make: () => this.#make(), update: (row, e) => this.#fill(row, e), act: e => this.#transfer(e),
    })
    $('#elections-search').addEventListener('input', () => this.#select())
  }

  // look asks for the elections, if they have changed since it has last asked, and shows them.
  async look(status) {
    this.status = status
    if (this.looking || document.hidden) return
    this.looking = true
    try {
      const { value, tag } = await news('v1/elections', this.tag)
      if (value) [this.#list, this.tag] = [value, tag]
    } catch { return } finally { this.looking = false } // the page itself tells that the agent is gone
    this.#show()
  }

  #show() {
    const drained = this.status.drained ?? [], was = $('#elections').hidden
    $('#elections').hidden = !this.#list.length && !drained.length
    if ($('#elections').hidden) return
    text($('#elections-count'), t('electionsCount', { n: count(this.#list.length) }))
    this.#shares(drained)
    this.#select(was)
  }

  #shares(drained) {
    const led = new Map([...this.status.members].reverse().map(m => [m.id, 0]))
    let none = 0
    for (const { leader } of this.#list) {
      if (leader === null) none++
      else led.set(leader, (led.get(leader) ?? 0) + 1)
    }
    if (typeof this.#by === 'string' && !led.has(this.#by)) this.#by = null // that member was removed
    const all = [...led].map(([id, n]) => ({ who: id, key: 'of ' + id, name: id, n, drained: drained.includes(id), member: this.status.members.some(m => m.id === id) }))
    if (none || this.#by === noLeader) all.unshift({ who: noLeader, key: 'noLeader', name: t('noLeader'), n: none })
    const most = Math.max(1, ...all.map(x => x.n))
    listed($('#shares'), all, x => x.key, x => this.#share(x), (li, x) => {
      const [name, gauge, n, tag, act] = li.children
      set(name, 'aria-pressed', this.#by === x.who)
      gauge.firstChild.style.width = 100 * x.n / most + '%'
      text(n, count(x.n))
      text(tag, x.drained ? t('drained') : '')
      act.hidden = !x.member
      text(act.firstChild, t(x.drained ? 'undrain' : 'drain'))
      act.onclick = () => x.drained ? this.#undrain(x.name) : this.#drain(x.name)
    })
  }

  #share({ who, name, key }) {
    return h('li', { class: key === 'noLeader' ? 'none' : '' },
      h('button', { class: 'plain', title: t('onlyThese'), onclick: () => { this.#by = this.#by === who ? null : who; this.#show() } }, name),
      h('span', { class: 'gauge', 'aria-hidden': 'true' }, h('i')), h('span', { class: 'number' }), h('span', { class: 'state-of' }),
      h('button', { class: 'act' }, h('span'), h('span', { class: 'only-read' }, ' ' + name)))
  }

  // select shows what is looked for.
  #select(anew = false) {
    const words = $('#elections-search').value.trim().toLowerCase(), by = this.#by
    const found = this.#list.filter(e => (by === null || (by === noLeader ? e.leader === null : e.leader === by)) && e.name.toLowerCase().includes(words))
    text($('#elections-found'), words || by !== null ? t('found', { n: count(found.length) }) : '')
    const shown = JSON.stringify([words, String(by)])
    if (shown !== this.#shown || anew) $('#elections-rows').scrollTop = 0
    this.#shown = shown
    $('#elections-rows').hidden = !found.length
    this.rows.show(found)
  }

  #make() {
    const cell = (of, ...content) => h('div', { role: 'gridcell', class: of }, ...content)
    return h('div', { role: 'row', class: 'entry' }, cell('name'), cell('leader'), cell('number'), cell('since'), cell('act', h('button', { tabindex: -1 }, t('transfer'))))
  }

  #fill(row, e) {
    const [name, leader, epoch, since, act] = row.children
    text(name, e.seat ? t('seat', { name: e.name, n: e.seat + 1 }) : e.name)
    set(name, 'title', e.name)
    text(leader, e.leader ?? t('noLeader'))
    row.classList.toggle('none', e.leader === null)
    text(epoch, e.token?.split(':')[0] ?? '—') // as text: it may be more than a number holds
    text(since, e.since ? lasting(now() - Date.parse(e.since), true) : '—')
    act.firstChild.onclick = () => this.#transfer(e)
  }

  #transfer({ name, leader }) {
    if (this.status.access === 'read') return
    const heirs = this.status.members.filter(m => m.id !== leader && m.state === 'up').map(m => m.id).reverse()
    question({
      title: t('askHandOver', { name }), words: t('askHandOverText'), yes: t('transfer'), fields: [{ name: 'id', label: t('to'), options: heirs }],
      act: async ({ id }) => { await post('v1/transfer', { id, election: name }); this.done() },
    })
  }

  #drain(id) {
    question({
      title: t('askDrain', { id }), words: t('askDrainText', { id }), yes: t('drain'), danger: true, fields: [{ name: 'force', label: t('drainForce'), type: 'checkbox' }],
      act: async ({ force }) => { await post('v1/drain', { id, ...force && { force: true } }); this.done() },
    })
  }

  #undrain(id) {
    question({ title: t('askUndrain', { id }), words: t('askUndrainText'), yes: t('undrain'), act: async () => { await post('v1/undrain', { id }); this.done() } })
  }
}
