// A question before anything is done.

import { $, h, replace, text } from './shared/dom.js'
import { lang } from './shared/page.js'
import { Refused } from './agent.js'
import { t } from './texts.js'

// explain shows why something has failed. A page of another language has a summary by the status of the answer, and
// beneath it the agent's own English words.
export function explain(el, key, error, values) {
  if (lang === 'en') { text(el, t(key, { ...values, why: error.message })); return }
  const code = error instanceof Refused ? error.code : 0, known = t('e' + code)
  replace(el, t(key, { ...values, why: known === 'e' + code ? t('eOther', { code }) : known }), h('span', { class: 'detail', lang: 'en' }, error.message))
}

// question shows a dialog; fields are inputs by name. It does act with their values once
// the user says yes, and stays with the reason if that is refused.
export function question({ title, words = '', yes, danger = false, fields = [], act }) {
  const dialog = $('#ask'), form = $('form', dialog)
  text($('#ask-title'), title)
  text($('#ask-text'), words)
  $('#ask-text').hidden = !words
  text($('#ask-error'), '')
  text($('#ask-yes'), yes)
  $('#ask-yes').className = danger ? 'danger' : 'first'
  replace($('#ask-fields'), fields.map(f => f.type === 'checkbox' ? h('label', { class: 'check' }, h('input', { name: f.name, type: 'checkbox' }), f.label) : h('label', {}, f.label, f.options
    ? h('select', { name: f.name }, f.options.map(o => h('option', { value: o }, o)))
    : h('input', { name: f.name, type: f.type || 'text', required: f.required, placeholder: f.placeholder, autocomplete: 'off', spellcheck: 'false' }))))
  $('#ask-yes').disabled = false
  const submit = form.onsubmit = async event => {
    event.preventDefault()
    $('#ask-yes').disabled = true
    text($('#ask-error'), '')
    let failed
    try { await act(Object.fromEntries(new FormData(form))) } catch (error) { failed = error }
    if (form.onsubmit !== submit) return // the dialog shows another question by now
    $('#ask-yes').disabled = false
    if (failed) explain($('#ask-error'), 'failed', failed)
    else dialog.close()
  }
  $('#ask-no').onclick = () => dialog.close()
  if (!dialog.open) dialog.showModal()
  ;(fields.length && !danger ? $('#ask-fields input, #ask-fields select') : $('#ask-no')).focus()
}
