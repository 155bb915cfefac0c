// A thousand random schedules, in a simulator of their own, so that the page's goes on.

import { $, h, replace, text } from './shared/dom.js'
import { locale } from './shared/page.js'
import { mistake } from './faults.js'
import { t } from './texts.js'
import { Simulator } from './simulator.js'

const whole = 1000, part = 20

export function soak(lab) {
  const dialog = $('#soak')
  let simulator = null, running = false
  const config = () => ({ algorithm: lab.model?.algorithm || 'bully', nodes: Math.max(2, lab.model?.members.length || 5) })
  const number = new Intl.NumberFormat(locale, { maximumFractionDigits: 1 })
  const percent = new Intl.NumberFormat(locale, { style: 'percent' })

  $('#soak-open').addEventListener('click', () => { lab.pause(); show(); dialog.showModal() })
  $('#soak-close').addEventListener('click', () => dialog.close())
  dialog.addEventListener('close', () => stop())
  $('#soak-seed-open').addEventListener('click', () => $('#soak-seed').reportValidity() && open($('#soak-seed').value, config()))
  $('#soak-run').addEventListener('click', () => running ? stop() : run())

  function show() { text($('#soak-run'), running ? t('soakStop') : t('soakRun', { n: number.format(whole) })) }

  function stop() {
    running = false
    simulator?.stop()
    show()
  }

  async function run() {
    const from = Math.max(0, Math.floor(Number($('#soak-from').value) || 0))
    const of = config(), sum = { schedules: 0, simulated: 0, agreed: 0, share: 0, slowest: from, failing: [] }
    simulator ??= new Simulator()
    running = true
    show()
    replace($('#soak-seeds'))
    for (let at = 0; at < whole && running; at += part) {
      let r
      try {
        r = await simulator.ask('soak', JSON.stringify({ ...of, from: from + at, to: from + at + part - 1 }))
      } catch (error) {
        if (running) text($('#soak-result'), t('broken', { why: error.message }))
        break
      }
      if (r.error) { text($('#soak-result'), mistake(r.error)); break }
      sum.schedules += r.schedules
      sum.simulated += r.simulated
      sum.agreed = Math.max(sum.agreed, r.agreed)
      if (r.share > sum.share) { sum.share = r.share; sum.slowest = r.slowest }
      sum.failing.push(...r.failing)
      $('#soak-progress').value = sum.schedules
      text($('#soak-result'), t('soakDone', { n: number.format(sum.schedules), hours: number.format(sum.simulated / 3600), bad: number.format(sum.failing.length), agreed: number.format(sum.agreed / 1000) + ' s', share: percent.format(sum.share), slowest: sum.slowest }))
      replace($('#soak-seeds'), seed(of, sum.slowest), sum.failing.length > 0 && h('span', {}, t('soakFailing')), sum.failing.slice(0, 30).map(f => seed(of, f.seed, f.rule)))
    }
    running = false
    show()
  }

  function seed(of, n, rule) {
    return h('button', { type: 'button', class: rule ? 'danger' : '', onclick: () => open(String(n), of) }, `${t('soakOpen')} ${n}${rule ? ` (${mistake(rule)})` : ''}`)
  }

  async function open(n, of) {
    const made = await lab.simulator.ask('schedule', JSON.stringify(of), n)
    if (made.error) { text($('#soak-result'), mistake(made.error)); return }
    dialog.close()
    lab.tours.end()
    lab.load(made.text, { at: 0, play: true })
  }
}
