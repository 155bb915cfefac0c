package browsertest

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// answered is a script after which window.answers holds what the agent answers: a function by method and path.
const answered = `(() => {
	const real = window.fetch.bind(window)
	window.answers = {}
	window.json = (value, init) => new Response(JSON.stringify(value), init)
	window.real = real
	window.fetch = (path, options) => (window.answers[(options?.method ?? 'GET') + ' ' + path] ?? real)(path, options)
	return 0
})()`

// agentOf opens the page of an agent. A test may replace answers of that agent.
func agentOf(t *testing.T, quiet ...string) *tab {
	t.Helper()
	b := open(t, browser(t), "http://"+cluster(t, "1")["1"].http+"/?lang=en", quiet...)
	b.size(1280, 900, "light")
	b.until(leaderIs + "'1' && document.querySelector('#live').textContent === 'Live'")
	eval[any](b, answered)
	return b
}

// An answer that comes late closes no later question.
func TestALateAnswerClosesNoOtherQuestion(t *testing.T) {
	b := agentOf(t)
	eval[any](b, "window.answers['POST v1/campaign'] = () => new Promise(done => { window.release = () => done(json({})) }), 0")
	b.click("#campaign")
	b.click("#ask-yes")
	b.until("window.release")
	b.click("#ask-no")
	b.click("#add")
	b.until("document.querySelector('#ask').open")
	if eval[bool](b, "document.querySelector('#ask-yes').disabled") {
		t.Error("a question cannot be answered while an earlier one is being answered")
	}
	eval[any](b, "window.release(), 0")
	time.Sleep(300 * time.Millisecond)
	if !eval[bool](b, "document.querySelector('#ask').open") {
		t.Error("the late answer has closed another question")
	}
}

// A list of elections that is narrowed to a member is whole when that member is removed.
func TestElectionsOfARemovedMember(t *testing.T) {
	b := agentOf(t)
	eval[any](b, `(() => {
		window.two = true
		const status = async () => (await real('v1/status')).json()
		answers['GET v1/status'] = async () => { const s = await status(); if (two) s.members.push({ ...s.members[0], id: '2' }); return json(s) }
		answers['GET v1/elections'] = async () => json([{ name: 'a', seat: 0, leader: two ? '2' : '1', token: '3:2', since: new Date() }], { headers: { ETag: String(two) } })
	})(), 0`)
	b.until("document.querySelectorAll('#shares li').length === 2")
	b.clickText("#shares li button", "2")
	b.until("document.querySelector('#elections-found').textContent === '1 found'")
	eval[any](b, "window.two = false, 0")
	b.until("document.querySelectorAll('#shares li').length === 1")
	time.Sleep(300 * time.Millisecond)
	if !eval[bool](b, "document.querySelector('#elections-all .entry') !== null && document.querySelector('#elections-rows').checkVisibility()") {
		t.Errorf("no election is shown: %s", eval[string](b, "document.querySelector('#elections').innerText"))
	}
}

// The timeline of a member without others is drawn as time passes.
func TestTheTimelineOfOneMemberGoesOn(t *testing.T) {
	b := agentOf(t)
	time.Sleep(3 * time.Second) // the page looks at what has begun
	eval[any](b, "window.drawn = document.querySelector('#band div'), 0")
	b.until("!document.contains(window.drawn)")
}

// An outage is announced once.
func TestANoticeIsAnnouncedOnce(t *testing.T) {
	for _, lang := range []string{"en", "es"} {
		m := cluster(t, "1")["1"]
		b := open(t, browser(t), "http://"+m.http+"/?lang="+lang, gone...)
		b.until(leaderIs + "'1' && document.querySelector('#live').textContent === " + map[string]string{"en": "'Live'", "es": "'En vivo'"}[lang])
		m.kill()
		b.until("!document.querySelector('#notice').hidden")
		time.Sleep(3 * time.Second)
		eval[any](b, "window.changes = 0, new MutationObserver(() => window.changes++).observe(document.querySelector('#notice'), { childList: true, characterData: true, subtree: true }), 0")
		time.Sleep(5 * time.Second)
		if n := eval[int](b, "window.changes"); n > 0 {
			t.Errorf("%s: the same notice has changed %d times", lang, n)
		}
	}
}

// A row keeps the focus when the row above it is removed.
func TestARowKeepsTheFocus(t *testing.T) {
	b := agentOf(t)
	if got := eval[string](b, `import('/ui/shared/dom.js').then(({ listed, h }) => {
		const list = document.createElement('div')
		document.body.append(list)
		const show = (...keys) => listed(list, keys, k => k, k => h('button', {}, k))
		show('a', 'b', 'c')
		list.lastChild.focus()
		show('a', 'c')
		return document.activeElement.textContent
	})`); got != "c" {
		t.Errorf("%q has the focus", got)
	}
}

// A page with a token that has been revoked is not live.
func TestAPageWithoutATokenIsStale(t *testing.T) {
	b := agentOf(t, "status of 401")
	eval[any](b, "answers['GET v1/status'] = async () => json({ error: 'no token' }, { status: 401 }), 0")
	b.until("document.querySelector('#ask').open")
	time.Sleep(300 * time.Millisecond)
	if got := eval[string](b, "document.querySelector('#live').textContent"); got == "Live" {
		t.Error(got)
	}
}

// A question for a token that is canceled does not return by itself.
func TestACanceledToken(t *testing.T) {
	b := agentOf(t, "status of 401")
	eval[any](b, "window.asked = 0, answers['GET v1/status'] = async () => { asked++; return json({ error: 'no token' }, { status: 401 }) }, 0")
	b.until("document.querySelector('#ask').open")
	b.click("#ask-no")
	eval[any](b, "asked = 0")
	b.until("asked > 2")
	if eval[bool](b, "document.querySelector('#ask').open") {
		t.Error("it has returned")
	}
	b.click("#notice button")
	b.until("document.querySelector('#ask').open")
	b.accessible("a question for a token")
	eval[any](b, "delete answers['GET v1/status'], 0")
	b.until("document.querySelector('#notice').hidden && document.querySelector('#live').textContent === 'Live'")
}

// An agent that answers, and has no room for another stream of events, is not lost.
func TestAnAgentWithoutRoomForAStream(t *testing.T) {
	m := cluster(t, "1")["1"]
	for range 64 {
		answer, err := http.Get("http://" + m.http + "/v1/events")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = answer.Body.Close() })
	}
	b := open(t, browser(t), "http://"+m.http+"/", "status of 503")
	b.until(leaderIs + "'1'")
	eval[any](b, `(notice => {
		window.noticed = notice.textContent
		new MutationObserver(() => window.noticed += notice.textContent).observe(notice, { childList: true, characterData: true, subtree: true })
	})(document.querySelector('#notice')), 0`)
	time.Sleep(6 * time.Second) // until it has asked for another stream
	if got := eval[string](b, "window.noticed"); strings.Contains(got, "streams") {
		t.Errorf("it was lost: %s", got)
	}
}

// An agent that is silent has answered nothing.
func TestASilentAgentInSpanish(t *testing.T) {
	m := cluster(t, "1")["1"]
	b := open(t, browser(t), "http://"+m.http+"/?lang=es", gone...)
	b.until(leaderIs + "'1'")
	if err := m.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.cmd.Process.Signal(syscall.SIGCONT) })
	b.until("!document.querySelector('#notice').hidden")
	if got := eval[string](b, "document.querySelector('#notice').textContent"); !strings.Contains(got, "no hay conexión") {
		t.Error(got)
	}
}

// Times are by the agent's clock, whatever the browser's is.
func TestTheBrowsersClockIsWrong(t *testing.T) {
	b := agentOf(t)
	b.reloadAfter("(now => { Date.now = () => now() + 3_600_000 })(Date.now)")
	b.until(leaderIs + "'1'")
	if got := eval[string](b, "document.querySelector('#reign').textContent"); strings.Contains(got, "1 h") {
		t.Errorf("it leads for: %s", got)
	}
	eval[any](b, "window.since = dashboard.status.uptime, 0")
	b.until("dashboard.status.uptime > window.since + 5") // nothing changes any more
	eval[any](b, "(now => { window.since = dashboard.status.uptime; Date.now = () => now() + 7_200_000 })(Date.now), 0")
	b.until("dashboard.status.uptime > window.since + 3")
	if got := eval[string](b, "document.querySelector('#reign').textContent"); strings.Contains(got, "2 h") {
		t.Errorf("it leads for: %s", got)
	}
}

// Ids as long as can be, and of any script, fit a screen of 320 px.
func TestAnyIDFitsASmallDashboard(t *testing.T) {
	b := agentOf(t)
	b.size(320, 600, "light")
	b.fits("320")
	eval[any](b, `(() => {
		const status = async () => (await real('v1/status')).json()
		answers['GET v1/status'] = async () => { const s = await status(); for (const id of ['a'.repeat(64), 'שלום', '🦊', 'W'.repeat(64)]) s.members.push({ ...s.members[0], id }); s.leader = 'W'.repeat(64); s.token = '7:' + s.leader; s.standing_why = 'x'.repeat(300); s.disk_error = 'y'.repeat(300); return json(s) }
	})(), 0`)
	b.until("document.querySelectorAll('#rows tr').length === 5")
	b.fits("long ids")
	eval[any](b, `(() => {
		const histories = async () => (await real('v1/histories')).json(), history = async () => (await real('v1/history')).json(), long = 'W'.repeat(64)
		answers['GET v1/histories'] = async () => { const h = await histories(); h.members[1] = { ...h.members[0], id: long, history: { ...h.members[0].history } }; return json(h) }
		answers['GET v1/history'] = async () => { const h = await history(); for (const r of h.events.flatMap(e => e.records)) r.peer = long; return json(h) }
		dashboard.look(true)
	})(), 0`)
	b.until("document.querySelector('#span').textContent.includes('WWWW') && document.querySelector('#reigns').textContent.includes('WWWW')")
	eval[any](b, "document.querySelector('#reigns details').open = true, 0")
	b.fits("the leaderships")
	b.click("#add")
	b.fits("add")
	b.click("#ask-no")
	eval[any](b, "document.querySelector('#rows button.danger').click(), 0")
	b.until("document.querySelector('#ask').open")
	b.fits("remove")
}

// A member that does not follow is drawn as behind, although nothing else changes.
func TestAMemberThatStaysBehind(t *testing.T) {
	b := agentOf(t)
	eval[any](b, `(() => {
		let since
		answers['GET v1/status'] = async () => { since ??= new Date(); const s = await (await real('v1/status')).json(); s.epoch = 5; s.token = '5:1'; s.since = since; s.members.push({ ...s.members[0], id: '2', epoch: 4, last_seen: since }); return json(s) }
	})(), 0`)
	b.until("document.querySelectorAll('#picture .node').length === 2")
	b.until("document.querySelector('#picture .node.behind')")
}
