// The dashboard of an agent: who leads, since when and why, as this member sees it.

import { $, h, listed, replace, text } from './shared/dom.js'
import { moment, toggles, translate } from './shared/page.js'
import { Leaderships } from './shared/leaderships.js'
import { fault, reason } from './shared/words.js'
import { get, listen, post, put, Refused, remove, restart, setToken } from './agent.js'
import { explain, question } from './dialog.js'
import { incident } from './incident.js'
import { linksOf } from './links.js'
import { byID } from './order.js'
import { partition } from './partition.js'
import { draw as drawPicture, legend } from './picture.js'
import { draw as drawTimeline } from './timeline.js'
import { Elections } from './elections.js'
import { Jobs } from './jobs.js'
import { Quorum } from './quorum.js'
import { t } from './texts.js'
import { at, count, lasting, now, synchronize } from './times.js'

const beat = 2000 // ms between two looks while nothing is told
const cordoned = 'a user of the dashboard has cordoned it'

class Dashboard {
  constructor() {
    translate(t)
    toggles($('#lang'), $('#theme'))
    this.leaderships = new Leaderships()
    this.quorum = new Quorum()
    this.elections = new Elections(() => this.did())
    this.jobs = new Jobs(() => this.did())
    this.heard = now()
    text($('#live'), t('loading'))
    const hour = 3_600_000
    const ranges = [[0, t('all')], [hour / 12, t('minutes', { n: 5 })], [hour, t('hours', { n: 1 })], [24 * hour, t('hours', { n: 24 })]]
    $('#range').append(...ranges.map(([value, words]) => h('option', { value }, words)))
    $('#range').addEventListener('change', () => this.#timeline())
    this.#actions()
    listen({ open: () => this.look(true), event: () => this.soon(), lost: error => this.#lost(error) })
    setInterval(() => this.look(), beat)
    setInterval(() => this.#gather(), 15_000)
    document.addEventListener('visibilitychange', () => this.#gather()) // no member is asked for a hidden page
    setInterval(() => this.#tick(), 1000)
  }

  // soon looks again once a burst of events is over.
  soon() {
    clearTimeout(this.timer)
    this.timer = setTimeout(() => this.look(true), 40)
  }

  // look asks the agent; history only if something may have changed.
  async look(changed = false) {
    if (this.looking) { this.again ||= changed; return }
    this.looking = true
    try {
      const status = await get('v1/status')
      const stale = !this.status || changed || Math.abs(this.began + status.uptime * 1000 - now()) > beat || // a clock was set
        this.status.incarnation !== status.incarnation || this.status.token !== status.token || document.body.classList.contains('stale')
      if (stale) {
        this.history = await get('v1/history')
        this.began = synchronize(this.history.now) - status.uptime * 1000
      }
      this.status = status
      this.heard = now()
      this.#alive()
      this.#show(stale)
    } catch (error) {
      this.#lost(error)
    } finally {
      this.looking = false
      if (this.again) { this.again = false; this.soon() }
    }
  }

  #alive() {
    document.body.classList.remove('stale')
    $('#live').classList.remove('stale')
    text($('#live'), t('live'))
    if (this.down) { this.down = false; $('#notice').hidden = true }
  }

  #lost(error) {
    const code = error instanceof Refused ? error.code : 'lost'
    if (this.down === code) return
    this.down = code
    const time = at(this.heard)
    if (code !== 401 || this.status) {
      document.body.classList.add('stale')
      $('#live').classList.add('stale')
      text($('#live'), t('stale', { time }))
    }
    this.#notice(' ')
    if (code !== 401) { explain($('#notice'), 'gone', error, { time }); return }
    replace($('#notice'), t('token'), ' ', h('button', { onclick: () => this.#askToken() }, t('enter')))
    this.#askToken()
  }

  #askToken() {
    if ($('#ask').open) return
    question({ title: t('token'), yes: t('enter'), fields: [{ name: 'token', label: t('tokenLabel'), type: 'password', required: true }], act: async ({ token }) => { setToken(token); await get('v1/status'); restart(); this.look(true) } })
  }

  #notice(words, good = false) {
    const el = $('#notice')
    el.hidden = !words
    el.classList.toggle('good', good)
    text(el, words)
  }

  #show(changed) {
    const s = this.status
    document.title = s.leader ? `${s.leader} · ${s.cluster} · batuta` : `${t('noLeader')} · ${s.cluster} · batuta`
    text($('#cluster'), s.cluster)
    text($('#asked'), t('asked', { id: s.id }))
    document.body.classList.toggle('reads', s.access === 'read')
    this.#lead(s)
    this.#picture(s)
    this.quorum.show(s)
    this.elections.look(s)
    this.jobs.look()
    this.#members(s)
    this.#facts(s)
    this.#messages(s)
    if (changed) {
      this.#timeline()
      clearTimeout(this.gathering)
      this.gathering = setTimeout(() => this.#gather(), this.gathered ? 1200 : 0) // until the others have seen it
    }
    document.body.dataset.ready = 'yes'
  }

  #picture(s) {
    const links = linksOf(s, this.gathered)
    const late = now() - Date.parse(s.since) > beat // a member without the leader's epoch is behind by then
    const shown = JSON.stringify([late, s.id, s.leader, s.epoch, s.successor, s.members.map(m => [m.id, m.state, m.standing, m.epoch, m.address]), links])
    if (shown === this.shown) return
    this.shown = shown
    legend($('#legend'), drawPicture($('#picture'), s, links, this.#colour()))
  }

  #colour() { return this.status.leader ? this.leaderships.colour(this.status.epoch, this.status.leader) : 'var(--soft)' }

  #lead(s) {
    const name = $('#leader')
    text(name, s.leader ?? t('noLeader'))
    name.classList.toggle('none', s.leader === null)
    name.classList.toggle('long', (s.leader ?? '').length > 14)
    $('.lead').style.setProperty('--own', this.#colour())
    text($('#why'), this.#reason(s))
    text($('#apart'), partition(s))
    text($('#promise'), s.guarantee === 'one-leader' ? t(s.fencing ? 'oneLeaderFencing' : 'oneLeader', s) : t('bestEffort', s))
    const leads = s.leader === s.id
    $('#resign').disabled = !leads
    $('#transfer').disabled = !leads || s.members.length < 2
    text($('#cordon'), t(this.#stands() ? 'cordon' : 'uncordon'))
    $('#cordon').hidden = !this.#stands() && s.standing_why !== cordoned // a failing check is not to be overridden
    text($('#pause'), t(s.paused ? 'resume' : 'pause'))
    text($('#acts-hint'), s.access === 'read' ? t('onlyReads') : leads || s.leader === null ? '' : t('onlyLeader'))
    this.#tick()
  }

  // reason says how the present view came about, as "batuta status" does.
  #reason(s) {
    let parts = []
    for (const event of this.history?.events ?? []) {
      for (const r of event.records) {
        if (r.what === 'loses') parts = [t('r_lost', { id: r.peer, why: reason(r.why) })]
        else if (s.token && r.token === s.token && (r.what === 'claims' || r.what === 'adopts')) parts.push(t('r_' + r.what, { id: r.peer || r.member, why: reason(r.why) }))
      }
    }
    const line = parts.slice(0, 3).join(t('and'))
    return line && line.replace(/^se /, 'Se ') + '.' // an id stays as it is
  }

  #tick() {
    const s = this.status
    if (!s) return
    const shown = document.body.classList.contains('stale') ? this.heard : now()
    const since = s.since ? lasting(shown - Date.parse(s.since), true) : '—'
    text($('#reign'), s.leader ? t('reign', { epoch: s.epoch, time: since }) : t('noReign', { epoch: s.epoch, time: since }))
  }

  #members(s) {
    const up = s.members.filter(m => m.state === 'up').length
    text($('#count'), t('count', { up, n: s.members.length }))
    const list = [...s.members].reverse() // the highest rank first
    listed($('#rows'), list, m => m.id, () => h('tr'), (tr, m) => this.#row(tr, m, s))
  }

  #row(tr, m, s) {
    const seen = m.id === s.id ? t('now') : m.indirect ? '—' : !m.last_seen ? t('never') : this.#ago(m.last_seen)
    const { version, side } = m.id === s.id ? s : this.gathered?.members.find(x => x.id === m.id)?.history ?? {}
    const key = JSON.stringify([m, s.leader, s.id, seen, s.role, s.ready, version, side])
    if (tr.dataset.shown === key) return
    tr.dataset.shown = key
    const cell = (label, how, ...content) => h('td', { class: how, 'data-label': t(label) }, h('span', {}, ...content))
    const old = tr.querySelectorAll('td')
    const cells = [
      cell('member', 'id', m.id, m.id === s.leader && h('span', { class: 'tag leads' }, t('leads')), m.id === s.leader && !s.ready && h('span', { class: 'tag' }, t('servesNot')), m.id === s.id && h('span', { class: 'tag' }, t('you'))),
      cell('state', '', h('span', { class: `state ${m.state}` }, t(m.state)), m.refusal && h('span', { class: 'why warn' }, t('refusal', { why: fault(m.refusal) })), m.state === 'up' && side && side.heard < side.of && h('span', { class: 'why side' }, t('side', side))),
      cell('standing', m.state !== 'down' && m.standing && m.standing !== 'eligible' ? 'warn' : '', m.standing && m.state !== 'down' ? t(m.standing) : t('unknown'), m.id === s.id && s.standing_why && h('span', { class: 'why' }, this.#standingWhy(s))),
      cell('epoch', 'number', m.epoch ? count(m.epoch) : t('unknown')), cell('seen', '', seen), cell('address', 'mono', m.address), cell('priority', 'number', String(m.priority)), cell('f_version', '', version ?? t('unknown')),
    ]
    if (old.length === 9) { // keep the buttons, which may have the focus
      cells.forEach((c, i) => old[i].replaceWith(c))
      const hand = old[8].querySelector('.hand')
      hand.hidden = !(s.leader === s.id && m.id !== s.id && m.state === 'up')
      return
    }
    replace(tr, cells, h('td', { 'data-label': t('acts') }, h('div', { class: 'row' },
      h('button', { class: 'hand', hidden: !(s.leader === s.id && m.id !== s.id && m.state === 'up'), 'aria-label': `${t('transfer')}: ${m.id}`, onclick: () => this.#transfer(m.id) }, t('transfer')),
      h('button', { class: 'danger', 'aria-label': t('yesRemove', m), onclick: () => this.#remove(m.id) }, t('remove')))))
  }

  // standingWhy: what a health check says is the user's own.
  #standingWhy(s) { return (s.standing === 'unsaved' ? fault : reason)(s.standing_why) }

  #ago(stamp) {
    const ms = this.heard - Date.parse(stamp)
    return ms < 2000 ? t('now') : t('ago', { time: lasting(ms, true) })
  }

  // gather asks what the other members have seen, where they tell their addresses.
  async #gather() {
    if (document.hidden || document.body.classList.contains('stale')) return
    if (this.status?.members.some(m => m.meta?.['batuta.http'] && m.id !== this.status.id)) {
      try { this.gathered = await get('v1/histories', 6000) } catch { return } // the page itself tells that the agent is gone
      this.gathered.members.sort((a, b) => byID(a.id, b.id))
      this.#show(false)
    }
    this.#timeline()
  }

  #timeline() {
    if (!this.history) return
    const missing = this.gathered?.members.filter(m => m.error) ?? []
    text($('#span'), t('timelineFrom', { id: this.gathered ? this.gathered.members.filter(m => m.history).map(m => m.id).join(', ') : this.status.id, time: moment(this.history.began) }))
    text($('#gathered'), missing.length ? t('notGathered', { ids: missing.slice(0, 5).map(m => `${m.id}: ${fault(m.error)}`).join('; ') + (missing.length > 5 ? ' …' : '') }) : '')
    drawTimeline({ band: $('#band'), lanes: $('#lanes'), rows: $('#reigns'), doubles: $('#doubles') }, this.status.id, this.history, this.gathered, this.leaderships, Number($('#range').value))
  }

  #facts(s) {
    const roles = { leader: 'leaderRole' }
    const refused = Object.entries(s.refused || {}).filter(([, n]) => n > 0).map(([why, n]) => `${fault(why)} ${count(n)}`).join(', ')
    const facts = [...(s.paused ? [['f_paused', t('paused_until', { until: moment(s.paused.until), leader: s.paused.leader || '—' })]] : []), ['f_id', s.id], ['f_role', t(roles[s.role] || s.role)], ...s.leader === null ? [] : [[s.leader === s.id ? 'f_ready' : 'f_leaderReady', t(s.ready ? 'servesYes' : 'servesNot')]], ['f_standing', t(s.standing) + (s.standing_why ? ` (${this.#standingWhy(s)})` : '')], ['f_algorithm', s.algorithm],
      ['f_uptime', lasting(s.uptime * 1000, true)], ['f_timing', reason(`${s.timing.heartbeat}; ${s.timing.t}`)], ['f_disk', fault(s.disk_error) || t('ok')], ['f_listen', s.listen],
      ...s.advertise && s.advertise !== s.listen ? [['f_advertise', s.advertise]] : [], ['f_http', s.http], ['f_version', s.version], ['f_incarnation', s.incarnation],
      ...s.successor !== undefined ? [['f_successor', s.successor || t('onlyMember')]] : [], ...refused ? [['f_refused', refused]] : []]
    listed($('#facts'), facts, ([key]) => key, ([key]) => h('div', {}, h('dt', {}, t(key)), h('dd')), (el, [key, value]) => {
      text(el.lastChild, value)
      el.lastChild.classList.toggle('warn', key === 'f_disk' && Boolean(s.disk_error) || key === 'f_paused' || /ready$/i.test(key) && !s.ready)
    })
  }

  #messages(s) {
    const kinds = [...new Set([...Object.keys(s.messages.sent), ...Object.keys(s.messages.received)])].sort()
    if (!$('#messages table')) {
      replace($('#messages'), h('table', {}, h('thead', {}, h('tr', {}, h('th', {}, t('kind')), h('th', { class: 'number' }, t('sent')), h('th', { class: 'number' }, t('received')))), h('tbody')))
    }
    listed($('#messages tbody'), kinds, k => k, k => h('tr', {}, h('td', { 'data-label': t('kind') }, k), h('td', { class: 'number', 'data-label': t('sent') }), h('td', { class: 'number', 'data-label': t('received') })), (tr, k) => {
      text(tr.children[1], count(s.messages.sent[k] || 0))
      text(tr.children[2], count(s.messages.received[k] || 0))
    })
  }

  #actions() {
    const id = () => this.status?.id ?? ''
    const did = () => {
      this.#notice(t('done'), true)
      setTimeout(() => { if (!this.down) this.#notice('') }, 2500)
      this.look(true)
    }
    this.did = did
    $('#resign').addEventListener('click', () => question({ title: t('askResign', { id: id() }), words: t('askResignText', { id: id() }), yes: t('resign'), danger: true, act: async () => { await post('v1/resign'); did() } }))
    $('#campaign').addEventListener('click', () => question({ title: t('askCampaign', { id: id() }), words: t('askCampaignText'), yes: t('campaign'), act: async () => { await post('v1/campaign'); did() } }))
    $('#transfer').addEventListener('click', () => this.#transfer())
    $('#cordon').addEventListener('click', () => {
      const stands = this.#stands()
      question({ title: t(stands ? 'askCordon' : 'askUncordon', { id: id() }), words: t(stands ? 'askCordonText' : 'askUncordonText', { id: id() }), yes: t(stands ? 'cordon' : 'uncordon'), danger: stands,
        act: async () => { await put('v1/health', stands ? { healthy: false, why: cordoned } : { healthy: true }); did() } })
    })
    $('#pause').addEventListener('click', () => this.status.paused
      ? question({ title: t('askResume'), words: t('askResumeText'), yes: t('resume'), act: async () => { await post('v1/resume'); did() } })
      : question({ title: t('askPause'), words: t('askPauseText'), yes: t('pause'), fields: [{ name: 'for', label: t('pauseFor'), required: true, placeholder: '10m' }], act: async time => { await post('v1/pause', time); did() } }))
    $('#lab').addEventListener('click', () => open('ui/lab/#incident'))
    addEventListener('message', async ({ origin, data, source }) => {
      if (origin !== location.origin || data !== 'incident') return
      try { source.postMessage(await incident(), origin) } catch (error) { this.#notice(' '); explain($('#notice'), 'failed', error) }
    })
    $('#add').addEventListener('click', () => question({
      title: t('askAdd'), words: t('askAddText'), yes: t('add'),
      fields: [{ name: 'id', label: t('id'), required: true }, { name: 'address', label: t('addressOf'), required: true, placeholder: '10.0.0.4:7400' }],
      act: async place => { await post('v1/members', place); did() },
    }))
  }

  // stands: the member asked is neither cordoned nor unhealthy.
  #stands() { return this.status.standing !== 'unhealthy' }

  #transfer(to) {
    const heirs = this.status.members.filter(m => m.id !== this.status.id && m.state === 'up').map(m => m.id).reverse()
    question({
      title: to ? t('askTransferTo', { id: to }) : t('askTransfer'), words: t('askTransferText'), yes: t('transfer'),
      fields: to ? [] : [{ name: 'id', label: t('to'), options: heirs }],
      act: async ({ id }) => { await post('v1/transfer', { id: to ?? id }); this.did() },
    })
  }

  #remove(id) {
    question({ title: t('askRemove', { id }), words: t('askRemoveText'), yes: t('yesRemove', { id }), danger: true, act: async () => { await remove('v1/members/' + encodeURIComponent(id)); this.did() } })
  }
}

globalThis.dashboard = new Dashboard()
