// A prediction: what is asked at a stop, what was answered, and what the simulator's run says.

import { h, replace } from './shared/dom.js'
import { t } from './texts.js'
import { family } from './model.js'

// leading are the members that lead at a moment; a frozen one still believes so.
export const leading = (model, at) => model.states(at).filter(x => x.role === 'leads' && (x.condition === 'alive' || x.condition === 'frozen'))

const contest = new Set(['ask', 'answer', 'tell'])

// outcome is what a question comes to between two moments of a run: a text, as it is answered.
export function outcome(model, ask, from, to) {
  if (ask.what === 'messages') return String(model.flights.filter(f => f.sent >= from && f.sent <= to && contest.has(family(f.kind))).length)
  const lead = leading(model, to)
  if (ask.what === 'leaders') return String(lead.length)
  const s = ask.on ? model.states(to)[model.index.get(ask.on)] : lead.length === 1 ? lead[0] : null
  const has = s && (s.role === 'leads' || s.role === 'follows')
  return has ? String(s[ask.what]) : ask.what === 'leader' ? '' : '0'
}

const question = ask => t(`p_${ask.what}` + (ask.on ? 'On' : ''), { on: ask.on })

const said = (ask, answer) => ask.what === 'leader' && answer === '' ? t('p_nobody') : answer

export class Prediction {
  // done is called with the answers when they are given.
  constructor(form, list, done) {
    this.form = form
    this.list = list
    form.addEventListener('submit', event => {
      event.preventDefault()
      done([...form.querySelectorAll('.answer')].map(x => x.value))
    })
  }

  // ask shows the questions of a stop; answers are those that were given before.
  ask(model, asks, answers) {
    this.form.hidden = !asks
    document.body.classList.toggle('predicting', Boolean(asks))
    if (!asks) return
    const field = ask => ask.what === 'leader'
      ? h('select', { class: 'answer' }, h('option', { value: ' ', disabled: true, selected: true }, '…'), model.members.map(m => h('option', {}, m.id)).reverse(), h('option', { value: '' }, t('p_nobody')))
      : h('input', { class: 'answer', type: 'number', min: 0, max: 9999, required: true })
    replace(this.form, asks.map(ask => h('label', {}, h('span', {}, question(ask)), field(ask))), h('button', { class: 'first' }, t('p_predict')))
    answers?.forEach((answer, i) => { this.form.querySelectorAll('.answer')[i].value = answer })
    for (const select of this.form.querySelectorAll('select')) { // no leader is an answer, and no choice is not
      const check = () => select.setCustomValidity(select.value === ' ' ? t('p_choose') : '')
      select.addEventListener('change', check)
      check()
    }
  }

  // grade shows what has come of the questions.
  grade(model, asks, answers, from, to) {
    this.list.hidden = !answers
    if (!answers) return
    replace(this.list, asks.map((ask, i) => {
      const is = outcome(model, ask, from, to), ok = is === (ask.what === 'leader' ? answers[i] : String(Number(answers[i])))
      return h('li', { class: ok ? 'right' : 'wrong' }, `${ok ? '✓' : '✗'} ${question(ask)} ${said(ask, is)}`, !ok && h('span', { class: 'soft' }, ' · ' + t('p_said', { answer: said(ask, answers[i]) })))
    }))
  }
}
