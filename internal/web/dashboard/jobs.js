// The scheduled jobs: the last run of each, and what a user may ask of it.

import { $, h, listed, set, text } from './shared/dom.js'
import { get, post } from './agent.js'
import { question } from './dialog.js'
import { t } from './texts.js'
import { count, lasting, now } from './times.js'

const columns = ['job', 'leader', 'j_next', 'j_last', 'member', 'j_result', 'j_took', 'j_missed']

export class Jobs {
  // done is called once something has been done.
  constructor(done) { this.done = done }

  async look() {
    if (this.looking || document.hidden) return
    this.looking = true
    try {
      const list = await get('v1/jobs')
      $('#jobs').hidden = !list.length
      listed($('#jobs-rows'), list, j => j.name, () => this.#make(), (row, j) => this.#fill(row, j))
    } catch { /* the page itself shows that the agent is gone */ } finally { this.looking = false }
  }

  #make() {
    return h('tr', {}, columns.map(c => h('td', { class: { job: 'id', j_missed: 'number', j_took: 'number' }[c], 'data-label': t(c) }, h('span'))),
      h('td', { 'data-label': t('acts') }, h('div', { class: 'row acts' }, h('button'), h('button'))))
  }

  #fill(row, j) {
    const failed = ['failed', 'timeout', 'lost'].includes(j.result)
    const cells = [
      j.name, j.leader ?? t('noLeader'), j.paused ? t('j_paused') : j.next ? t('j_in', { time: lasting(Date.parse(j.next) - now(), true) }) : '—',
      j.last ? t('ago', { time: lasting(now() - Date.parse(j.last), true) }) : '—', j.by ?? '—',
      !j.result ? '—' : j.result === 'failed' && j.exit !== null ? t('j_exit', { exit: j.exit }) : t('j_' + j.result),
      j.took === null ? '—' : lasting(j.took * 1000), count(j.missed),
    ]
    cells.forEach((words, i) => text(row.children[i].firstChild, words))
    row.children[1].classList.toggle('warn', j.leader === null)
    row.children[2].classList.toggle('warn', j.paused)
    row.children[5].classList.toggle('warn', failed)
    const [run, other] = row.lastChild.firstChild.children
    this.#offer(run, 'run', j.name)
    this.#offer(other, j.paused ? 'resume' : 'pause', j.name) // the same button, which keeps the focus
  }

  #offer(button, what, name) {
    text(button, t('j_' + what))
    set(button, 'aria-label', `${t('j_' + what)}: ${name}`)
    button.onclick = () => this.#ask(what, name)
  }

  #ask(what, name) {
    question({
      title: t(`j_${what}Ask`, { name }), words: t(`j_${what}Text`), yes: t('j_' + what),
      act: async () => { await post(`v1/jobs/${encodeURIComponent(name)}/${what}`); this.done() },
    })
  }
}
