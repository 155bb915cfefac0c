// The scenario as text, and the settings above it, which are lines of the same text.

import { $, h, replace, text } from './shared/dom.js'
import { mistake } from './faults.js'
import { t } from './texts.js'

const latencies = ['1ms 5ms', '10ms 30ms', '40ms 60ms', '5ms 120ms']

const latency = value => h('option', { value }, value.replace(/^(\d+)ms (\d+)ms$/, '$1–$2\u00a0ms').replace(/^(\d+)ms$/, '$1\u00a0ms'))

export class Editor {
  constructor(lab) {
    this.lab = lab
    this.area = $('#text')
    this.past = []
    this.steps = []
    this.area.addEventListener('input', () => {
      clearTimeout(this.timer)
      lab.turn++ // what is being played is an earlier text
      this.#lines()
      this.timer = setTimeout(() => lab.load(this.area.value), 350)
    })
    this.area.addEventListener('scroll', () => { $('#lines').scrollTop = this.area.scrollTop })
    $('#undo').addEventListener('click', () => this.undo())
    $('#fresh').addEventListener('click', () => { lab.tours.end(); lab.load(this.#fresh(), { at: 0, play: true }) })
    $('#download').addEventListener('click', () => this.#download())
    $('#open').addEventListener('click', () => $('#file').click())
    $('#file').addEventListener('change', async () => {
      const file = $('#file').files[0]
      $('#file').value = ''
      if (!file) return
      lab.tours.end()
      const text = await file.text()
      if (text.startsWith('{')) lab.incident(text)
      else lab.load(text, { at: 0 })
    })
    this.#settings()
  }

  get text() { return this.area.value }

  offer(about) {
    replace($('#algorithm'), about.algorithms.map(name => h('option', { value: name }, name)))
    replace($('#probe'), about.probes.map(name => h('option', { value: name }, t(name))))
    replace($('#latency'), latencies.map(latency))
    text($('#language'), about.language)
  }

  // show is called with every scenario that was played.
  show(scenario, played, keep) {
    if (this.shown !== undefined && this.shown !== scenario && keep) this.past.push(this.shown)
    if (this.past.length > 200) this.past.shift()
    this.shown = scenario
    $('#undo').disabled = !this.past.length
    if (this.area.value !== scenario) this.area.value = scenario
    this.fault = played.fault
    this.steps = played.steps || []
    this.#lines()
    const verdict = $('#verdict')
    verdict.classList.toggle('bad', Boolean(played.fault || played.failure))
    if (played.fault) text(verdict, played.fault.line ? t('fault', { ...played.fault, what: mistake(played.fault.what) }) : t('faultBare', { what: mistake(played.fault.what) }))
    else text(verdict, played.failure ? t('failure', { what: mistake(played.failure).replace(/^scenario:/, '') }) : t('ok'))
    if (!played.fault) this.#fill(played)
  }

  undo() {
    const last = this.past.pop()
    if (last !== undefined) this.lab.load(last, { keep: false })
  }

  // mark shows which line is being played.
  mark(now) {
    let line = 0
    for (const step of this.steps) if (step.from <= now && (now < step.to || step.from === step.to)) line = step.line
    if (line === this.line) return
    this.line = line
    this.#lines()
  }

  #lines() {
    const count = this.area.value.split('\n').length
    replace($('#lines'), Array.from({ length: count }, (_, i) => {
      const n = i + 1
      return h('span', { class: this.fault?.line === n ? 'wrong' : this.line === n ? 'here' : null }, (this.line === n ? '▸' : '') + n + '\n')
    }))
    $('#lines').scrollTop = this.area.scrollTop
  }

  #settings() {
    const on = (id, change) => $(id).addEventListener('change', () => {
      if (!$(id).reportValidity()) return
      this.lab.tours.end()
      this.lab.load(change($(id).value), { at: 0, play: true })
    })
    on('#algorithm', v => {
      const text = this.#with('algorithm', v)
      return v === 'bully' ? text : without(without(text, 'probe'), 'option')
    })
    on('#members', v => this.#members(Number(v)))
    on('#probe', v => withLine(without(this.text, 'probe'), 'option', v))
    on('#preempt', v => v === 'off' ? this.#with('preempt', 'off') : without(this.text, 'preempt'))
    on('#seed', v => this.#with('seed', v || '0'))
    on('#latency', v => this.#with('latency', v))
    for (const word of ['heartbeat', 't_max', 't_process']) on('#' + word, v => this.#with(word, v + 'ms'))
    $('#new-seed').addEventListener('click', () => {
      this.lab.tours.end()
      this.lab.load(this.#with('seed', String(1 + Math.floor(Math.random() * 999_999))), { at: 0, play: true })
    })
    $('#settings').addEventListener('submit', event => event.preventDefault())
  }

  // members changes who there is; if what is done to them no longer fits, only the
  // cluster is kept.
  #members(n) {
    const text = this.#with('members', n > 12 ? `1..${n}` : Array.from({ length: n }, (_, i) => i + 1).join(' '))
    const named = [...text.matchAll(/^(?!members|seed|run|at [^ ]+$|latency \d)[a-z].*$/gm)].some(([line]) => [...line.matchAll(/(?<![\w.])(\d+)(?![\w.])/g)].some(([, id]) => Number(id) > n))
    return named ? settingsOf(text) + 'run 2s\n' : text
  }

  #fill(played) {
    const put = (id, value) => { if (document.activeElement !== $(id)) $(id).value = value }
    put('#algorithm', played.algorithm)
    put('#members', played.members.length)
    put('#probe', played.probe || 'descending')
    put('#preempt', played.noPreempt ? 'off' : 'on')
    put('#seed', played.seed)
    put('#heartbeat', played.timing.heartbeat)
    put('#t_max', played.timing.tMax)
    put('#t_process', played.timing.tProcess)
    const takes = (this.text.match(/^latency +(\d.*)$/m)?.[1] ?? '1ms 5ms').trim()
    if (![...$('#latency').options].some(o => o.value === takes)) $('#latency').append(latency(takes))
    put('#latency', takes)
    $('.of-bully').hidden = played.algorithm !== 'bully'
  }

  #with(word, value) { return withLine(this.text, word, value) }

  #fresh() { return settingsOf(this.text) + 'run 2s\n' }

  #download() {
    const url = URL.createObjectURL(new Blob([this.text], { type: 'text/plain' }))
    h('a', { href: url, download: 'scenario.txt' }).click()
    setTimeout(() => URL.revokeObjectURL(url), 1000)
  }
}

const settings = ['members', 'priority', 'algorithm', 'option', 'probe', 'preempt', 'detector', 'seed', 'heartbeat', 't_max', 't_process', 'latency', 'fsync', 'work', 'observers', 'lead_unhealthy', 'settled', 'trace']

function settingsOf(text) {
  return script(text).split('\n').filter(line => settings.includes(line.trim().split(/\s+/)[0])).join('\n') + '\n'
}

// script is a scenario without its golden trace, which is that of another once it is changed.
function script(text) { return text.split(/^----$/m)[0] }

function isLine(line, word) {
  const words = line.trim().split(/\s+/)
  return words[0] === word && !(word === 'latency' && /[->]/.test(words[1] || ''))
}

function without(text, word) { return script(text).split('\n').filter(line => !isLine(line, word)).join('\n') }

function withLine(text, word, value) {
  const lines = script(text).split('\n')
  const at = lines.findIndex(line => isLine(line, word))
  if (at >= 0) lines[at] = `${word} ${value}`
  else lines.splice(lines.findIndex(line => isLine(line, 'members')) + 1, 0, `${word} ${value}`)
  return lines.join('\n')
}
