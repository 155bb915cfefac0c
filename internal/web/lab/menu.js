// What can be done to a member or a link, where it is clicked.

import { h, replace } from './shared/dom.js'
import { stamp } from './log.js'
import { t } from './texts.js'

export class Menu {
  constructor(el, lab) {
    this.el = el
    this.lab = lab
    addEventListener('keydown', event => { if (event.key === 'Escape' && !el.hidden) { event.preventDefault(); this.close() } })
    addEventListener('pointerdown', event => { if (!el.hidden && !el.contains(event.target) && !event.target.closest?.('.hit, .grip')) this.close(false) })
    addEventListener('resize', () => this.close(false)) // it would be where the member was
    el.addEventListener('keydown', event => {
      if (event.key !== 'Tab') return
      const all = [...el.querySelectorAll('button')], edge = event.shiftKey ? all[0] : all[all.length - 1]
      if (document.activeElement === edge) { event.preventDefault(); (event.shiftKey ? all[all.length - 1] : all[0]).focus() }
    })
  }

  member(i, event) {
    const { model, now } = this.lab, m = model.members[i], state = model.states(now)[i]
    const act = (key, line, how = '') => h('button', { type: 'button', class: how, onclick: () => this.lab.act(line) }, t(key))
    const lives = state.condition === 'alive', frozen = state.condition === 'frozen', gone = state.condition === 'dead' || state.condition === 'off'
    const acts = [
      (lives || frozen) && act('crash', `crash ${m.id}`, 'danger'),
      (lives || frozen) && act('poweroff', `poweroff ${m.id}`, 'danger'),
      lives && act('freeze', `freeze ${m.id}`),
      frozen && act('thaw', `thaw ${m.id}`, 'first'),
      gone && act('restartMember', `restart ${m.id}`, 'first'),
      state.condition === 'absent' && act('startMember', `start ${m.id}`, 'first'),
      lives && state.role === 'leads' && act('resign', `resign ${m.id}`),
      lives && act('campaign', `campaign ${m.id}`),
      lives && (state.paused ? act('resume', `pause ${m.id} 0s`) : act('pauseCluster', `pause ${m.id} 10s`)),
      lives && (state.healthy ? act('unhealthy', `health ${m.id} unhealthy`) : act('healthy', `health ${m.id} healthy`)),
    ]
    const others = model.members.filter(o => o !== m)
    const any = model.links.some(l => l.since <= now && (l.until < 0 || l.until > now))
    if (this.lab.real) { this.#open(event, t('actMember', { id: m.id }), this.lab.circle.words(state)); return }
    const peers = others.map(o => this.#peer(m, o))
    this.#open(event, t('actMember', { id: m.id }), this.lab.circle.words(state), h('div', { class: 'row' }, acts),
      others.length > 0 && h('h4', {}, t('links')),
      others.length > 0 && h('div', { class: 'peers' }, peers),
      h('div', { class: 'row' },
        others.length > 1 && act('isolate', `cut ${others.map(o => `${m.id}-${o.id}`).join(' ')}`),
        any && act('healAll', 'heal')))
  }

  #peer(m, o) {
    const { model, now } = this.lab
    const a = model.index.get(m.id), b = model.index.get(o.id)
    const there = model.isCut(a, b, now), back = model.isCut(b, a, now)
    const button = (words, label, line) => h('button', { type: 'button', 'aria-label': label, title: label, onclick: () => this.lab.act(line) }, words)
    return h('div', { class: 'peer' }, h('span', { class: 'mono' }, `– ${o.id}`),
      there || back ? button(t('heal'), `${t('heal')} ${m.id} – ${o.id}`, `heal ${m.id}-${o.id}`) : button('✕', `${t('cutBoth')}: ${m.id} – ${o.id}`, `cut ${m.id}-${o.id}`),
      !there && button(`✕ →`, t('cutOne', { a: m.id, b: o.id }), `cut ${m.id}>${o.id}`),
      !back && button(`✕ ←`, t('cutOne', { a: o.id, b: m.id }), `cut ${o.id}>${m.id}`))
  }

  link(a, b, event) {
    if (this.lab.real) return
    const { model, now } = this.lab, m = model.members[a].id, o = model.members[b].id
    const there = model.isCut(a, b, now), back = model.isCut(b, a, now)
    const act = (words, line, how = '') => h('button', { type: 'button', class: how, onclick: () => this.lab.act(line) }, words)
    this.#open(event, t('actLink', { a: m, b: o }), '', h('div', { class: 'row' },
      !(there && back) && act(t('cutBoth'), `cut ${m}-${o}`, 'danger'),
      !there && act(t('cutOne', { a: m, b: o }), `cut ${m}>${o}`),
      !back && act(t('cutOne', { a: o, b: m }), `cut ${o}>${m}`),
      (there || back) && act(t('heal'), `heal ${m}-${o}`, 'first')))
  }

  #open(event, title, state, ...content) {
    this.lab.pause()
    this.from = event.currentTarget
    replace(this.el, h('h3', { id: 'menu-title' }, title, h('button', { type: 'button', class: 'plain square', 'aria-label': t('close'), onclick: () => this.close() }, '✕')),
      h('p', { class: 'soft' }, [state, t('at', { time: stamp(this.lab.now) + ' s' })].filter(Boolean).join(' · ')), ...content)
    this.el.hidden = false
    const box = this.from.getBoundingClientRect(), w = this.el.offsetWidth, tall = this.el.offsetHeight
    const x = event.clientX || box.right, y = event.clientY || box.top
    this.el.style.left = Math.max(8, Math.min(x + 16, innerWidth - w - 12)) + scrollX + 'px'
    this.el.style.top = Math.max(8, Math.min(y - 20, innerHeight - tall - 12)) + scrollY + 'px'
    this.el.focus({ preventScroll: true }) // not a button: a key that is held down does nothing
  }

  close(back = true) {
    if (this.el.hidden) return
    this.el.hidden = true
    if (back) this.from?.focus?.({ preventScroll: true })
  }
}
