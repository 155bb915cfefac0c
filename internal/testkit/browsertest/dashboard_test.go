package browsertest

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/batuta-dev/batuta/internal/testkit/freeport"
	"github.com/batuta-dev/batuta/internal/testkit/stalltest"
)

// member is an agent of a real cluster.
type member struct {
	*process
	id, listen, http string
	data             string // its directory
	args             []string
}

// cluster starts agents of these ids, the lowest first, and waits for all to agree.
func cluster(t *testing.T, ids ...string) map[string]*member {
	t.Helper()
	return clusterOf(t, nil, ids...)
}

// clusterOf starts agents with further flags.
func clusterOf(t *testing.T, flags []string, ids ...string) map[string]*member {
	t.Helper()
	members := map[string]*member{}
	ports, err := freeport.Find(2 * len(ids))
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		members[id] = &member{id: id, listen: loopback(ports[2*i]), http: loopback(ports[2*i+1]), data: stalltest.Dir(t)}
	}
	for _, id := range ids {
		m := members[id]
		m.args = []string{"agent", "--id", id, "--listen", m.listen, "--http", m.http, "--events", "json", "--log-level", "error", "--data-dir", m.data, "--http-advertise", m.http}
		for _, other := range ids {
			m.args = append(m.args, "--member", other+"="+members[other].listen)
		}
		m.args = append(m.args, flags...)
		m.process = start(t, m.args...)
	}
	highest := ids[len(ids)-1]
	for _, m := range members { // a quorum's first leader may be any
		m.until(t, fmt.Sprintf(`"event":"leader","id":%s,"election":"default","leader":%s`, quoted(m.id), quoted(highest)))
	}
	return members
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func quoted(s string) string {
	b, _ := json.Marshal(s) // a string can be
	return string(b)
}

// until waits for an event that contains a text.
func (m *member) until(t *testing.T, part string) {
	t.Helper()
	for line := ""; !strings.Contains(line, part); {
		line = m.line(t, "")
	}
}

const leaderIs = "document.querySelector('#leader').textContent === "

// An operator looks on while the leader is killed, and reads why.
func TestTheDashboardFollowsTheCluster(t *testing.T) {
	watch := stalltest.Start(t)
	members := cluster(t, "1", "2", "3")
	b := open(t, browser(t), "http://"+members["1"].http+"/")
	b.size(1280, 900, "light")
	b.until(leaderIs + "'3'")
	b.until("document.querySelector('#live').textContent === 'Live'")
	b.shoot("dashboard-1280")

	// Connections, of which the others tell those that this member has no part in.
	b.until("(e => e.length === 2 && e.every(x => x.matches('.own')))([...document.querySelectorAll('#picture .edge.link')])")
	b.until("document.querySelector('#legend').textContent.includes('connection') && !document.querySelector('#picture .edge.told')")

	members["3"].kill()
	members["1"].until(t, `"event":"leader","id":"1","election":"default","leader":"2"`)
	told := time.Now()
	b.until(leaderIs + "'2'")
	if took := watch.Given(told, time.Now()); took > time.Second {
		t.Errorf("the picture follows %v after the member has told it", took)
	}
	b.until("document.querySelector('.node.down') && document.querySelector('.node.leads .id').textContent === '2'")
	b.until("document.querySelector('#rows .state.down')")
	// Either it has found out itself, or the next leader's word was quicker.
	b.until("/It ended: (the leader crashed|a newer leadership)/.test(document.querySelector('.reigns').textContent)")
	// Which of the leaderships has its steps first is the agents' to tell.
	b.until("(document.querySelectorAll('.reigns details').forEach(d => d.open = true), [...document.querySelectorAll('.reigns .steps')].some(s => s.textContent.includes('adopts 2')))")
	b.shoot("dashboard-lost")

	// What the others have seen is gathered by the agent; the page asks nobody else.
	b.until("document.querySelectorAll('#lanes .lane').length === 2 && document.querySelector('#gathered').textContent.includes('3: connect')")
	b.until("[...document.querySelectorAll('.reigns > li')].some(x => x.textContent.includes('2, epoch') && x.textContent.includes('as it reports; seen by 1, 2'))")
	if twice := eval[int](b, "document.querySelectorAll('#band .twice').length"); twice != 0 {
		t.Errorf("two led at the same time %d times", twice)
	}
	b.accessible("the gathered history")
	b.shoot("dashboard-gathered")

	// It comes back, and takes over.
	members["3"].process = start(t, members["3"].args...)
	b.until(leaderIs + "'3'")
	b.until("document.querySelectorAll('.reigns > li:not(.gap)').length >= 3")
	// Whoever is asked, a member that gave up the lead says why itself: it hands over to 3. On a
	// machine that is too slow for that, the lead may have been taken from it.
	b.until("!document.querySelector('.reigns').textContent.includes('it resigned (it announced its end)')")
}

// gone is what a browser says of an agent that is killed.
var gone = []string{"net::ERR_"}

// The agent that is asked dies and returns: the page says since when it is stale, and recovers.
func TestTheDashboardRecovers(t *testing.T) {
	members := cluster(t, "1", "2")
	b := open(t, browser(t), "http://"+members["1"].http+"/", gone...)
	b.until(leaderIs + "'2'")
	members["1"].kill()
	b.until("document.querySelector('#live').textContent.startsWith('Stale since')")
	b.until("!document.querySelector('#notice').hidden")
	for _, scheme := range []string{"light", "dark"} { // what was last known is read on
		b.size(1280, 900, scheme)
		b.accessible("stale, " + scheme)
	}
	members["1"].process = start(t, members["1"].args...)
	b.until("document.querySelector('#live').textContent === 'Live'")
	b.until(leaderIs + "'2'")
	b.until("document.querySelector('#notice').hidden && !document.body.classList.contains('stale')")
}

// Nothing is done without a question, and by POST or DELETE alone.
func TestTheDashboardAsksFirst(t *testing.T) {
	members := cluster(t, "1", "2", "3")
	b := open(t, browser(t), "http://"+members["3"].http+"/", "status of 400")
	b.until(leaderIs + "'3'")
	b.click("#resign")
	b.until("document.querySelector('#ask').open")
	b.until("document.activeElement.id === 'ask-no'") // Enter by mistake does nothing
	b.click("#ask-no")
	b.until("!document.querySelector('#ask').open")
	b.until(leaderIs + "'3'")

	b.click("#transfer")
	b.until("document.querySelector('#ask select').options.length === 2")
	eval[any](b, "document.querySelector('#ask select').value = '2', 0")
	b.click("#ask-yes")
	b.until(leaderIs + "'2'")
	b.until("document.querySelector('#resign').disabled")

	b.click("#add")
	b.until("document.querySelector('#ask input[name=id]')")
	eval[any](b, "document.querySelector('#ask input[name=id]').value = '4', document.querySelector('#ask input[name=address]').value = 'nonsense', 0")
	b.click("#ask-yes")
	b.until("document.querySelector('#ask-error').textContent.includes('nonsense')") // what the agent says, and the question stays
	eval[any](b, "document.querySelector('#ask input[name=address]').value = '127.0.0.1:9', 0")
	b.click("#ask-yes")
	b.until("document.querySelectorAll('#rows tr').length === 4")
	b.clickText("#rows tr:first-child button", "Remove")
	b.click("#ask-yes")
	b.until("document.querySelectorAll('#rows tr').length === 3")
}

// What others have chosen is text, never markup.
func TestIDsAreText(t *testing.T) {
	const bad = "<img>"
	members := cluster(t, "<b>a", bad)
	b := open(t, browser(t), "http://"+members["<b>a"].http+"/?lang=es")
	b.until(with("id => document.querySelector('#leader').textContent === id", bad))
	b.until("document.querySelector('.node.leads .id').textContent === '<img>'")
	if n := eval[int](b, "document.querySelectorAll('main img, main b, dialog img').length"); n != 0 {
		t.Errorf("ids have become %d elements", n)
	}
	b.until("document.documentElement.lang === 'es' && document.querySelector('#h-members').textContent === 'Miembros'")
}

// The leader of a quorum shows the votes that its lease is made of; without a majority it
// runs out before the eyes of who looks on.
func TestTheDashboardShowsALease(t *testing.T) {
	members := clusterOf(t, []string{"--algorithm", "quorum"}, "1", "2", "3")
	b := open(t, browser(t), "http://"+members["3"].http+"/")
	b.size(1280, 900, "light")
	b.until(leaderIs + "'3'")
	b.until("!document.querySelector('#quorum').hidden && document.querySelector('#quorum-rule').textContent.startsWith('3 vote, 2 are a majority')")
	b.until("document.querySelector('#lease-words').textContent.startsWith('The lease') && parseFloat(document.querySelector('#lease-bar').style.width) > 0")
	b.until("[...document.querySelectorAll('#votes .vote-words')].filter(x => x.textContent === 'has answered').length === 2")
	b.until("document.querySelector('#lease-strip .left').getAttribute('points').split(' ').length > 8") // it goes on by itself
	b.accessible("the lease")
	b.shoot("dashboard-quorum")

	follower := open(t, browser(t), "http://"+members["1"].http+"/?lang=es", gone...)
	follower.until("document.querySelector('#lease-words').textContent.startsWith('Este miembro prometió a 3')")
	// The leader reports what member 2 acknowledged. Where that is not known yet, the member does not lag.
	follower.until("(([a, b, c]) => c && b >= 2 && a === b && b === c)([...document.querySelectorAll('#rows tr')].map(row => row.children[3].textContent))")
	eval[any](follower, `import('/ui/picture.js').then(({ draw }) => {
		const root = document.createElement('div'), member = (id, epoch, indirect) => ({ id, epoch, indirect, state: 'up', address: 'h:' + id })
		draw(root, { id: '1', leader: '4', epoch: 7, since: '2026-01-01T00:00:00Z', members: [member('1', 7), member('2', 0, true), member('3', 6, true), member('4', 7)] }, [], '')
		window.lagging = [...root.querySelectorAll('.node.behind .id')].map(x => x.textContent).join()
	}), 0`)
	follower.until("window.lagging === '3'")

	members["1"].kill()
	members["2"].kill()
	b.until(leaderIs + "'No leader'")
	b.until("!document.querySelector('#lease-words').textContent.startsWith('The lease')")
	b.until("document.querySelectorAll('#votes li.none').length >= 2")
}

// Where the API wants a token the page asks for it, and keeps it in memory alone; who may
// only read sees nothing to press.
func TestTheDashboardAsksForAToken(t *testing.T) {
	const reads, operates = "0123456789-reads", "0123456789-operates"
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte(reads+" read\n"+operates+" operate\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	members := clusterOf(t, []string{"--http-token-file", file}, "1", "2")
	address := "http://" + members["2"].http + "/"
	b := open(t, browser(t), address, "status of 401")
	enter := func(token string) {
		b.until("document.querySelector('#ask').open && document.querySelector('#ask input[name=token]').type === 'password' && document.activeElement.name === 'token'")
		b.do(chromedp.SendKeys("#ask input[name=token]", token, chromedp.ByQuery))
		b.press(kb.Enter)
	}
	enter("a-token-of-nobody")
	b.until("document.querySelector('#ask').open && document.querySelector('#ask-error').textContent.includes('is not in the agent')")
	b.accessible("the question for a token")
	eval[any](b, "document.querySelector('#ask input[name=token]').value = '', 0")
	enter(reads)
	b.until(leaderIs + "'2' && !document.querySelector('#ask').open")
	b.until("document.querySelector('#live').textContent === 'Live'")
	b.until("[...document.querySelectorAll('#resign, #transfer, #campaign, #add, #rows button')].every(x => !x.checkVisibility())")
	if kept := eval[string](b, "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"); strings.Contains(kept, "0123456789") {
		t.Errorf("the page keeps its token: %s", kept)
	}

	b.do(chromedp.Reload()) // it is gone with the page
	enter(operates)
	b.until(leaderIs + "'2' && document.querySelector('#resign').checkVisibility() && !document.querySelector('#resign').disabled")
	b.click("#resign")
	b.click("#ask-yes")
	b.until(leaderIs + "'1'")
}

// A connection is drawn when either end tells of it; where one says so and the other has
// none it looks otherwise, and of its own the member asked knows best.
func TestLinksAreOfBothEnds(t *testing.T) {
	members := cluster(t, "1")
	b := open(t, browser(t), "http://"+members["1"].http+"/")
	got := eval[string](b, `import('/ui/links.js').then(({ linksOf }) => {
		const status = { id: '1', members: ['1', '2', '3', '4', '5'].map(id => ({ id, linked: id === '2' })) }
		const has = (id, ...links) => ({ id, history: { links } })
		const gathered = { members: [has('1', '5'), has('2', '1', '3', '4', '9'), has('3', '2', '1'), has('4', '3'), { id: '5', error: 'it does not answer' }] }
		return linksOf(status, gathered).map(l => l.ends.join('-') + (l.sure ? '' : '?')).sort().join(' ')
	})`)
	if want := "1-2 2-3 2-4? 3-4?"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Of what several members have seen, one list: the time when nobody led and the time when
// two did stand out, and clocks that differ are no such time.
func TestHistoriesAreMerged(t *testing.T) {
	members := cluster(t, "1")
	b := open(t, browser(t), "http://"+members["1"].http+"/")
	b.until(leaderIs + "'1'")
	got := eval[string](b, `import('/ui/reigns.js').then(({ reigns, merge }) => {
		const at = s => new Date(Date.UTC(2026, 0, 1) + s * 1000).toISOString().replace('Z', '000000Z')
		const line = (s, event, leader, epoch, cause) => ({ time: at(s), event, leader, epoch, cause, records: [] })
		const history = (...events) => ({ began: at(0), now: at(100), events })
		const asOf = Date.UTC(2026, 0, 1) + 100_000
		const seen = (id, ahead, h, own) => ({ id, doubt: 2, asOf: own ? Infinity : asOf, began: 0, reigns: reigns(h, ahead) })
		const list = merge([
			// 1 goes by 3, then by 2; 3 has led on by its own word, for it was cut off. 4 has died.
			seen('1', 0, history(line(1, 'leader', '4', 1), line(5, 'lost', '4', 1, 'crashed'), line(6, 'leader', '3', 2), line(20, 'lost', '3', 2, 'silent'), line(21, 'leader', '2', 3)), true),
			seen('2', 5000, history(line(6, 'leader', '4', 1), line(10.2, 'lost', '4', 1, 'crashed'), line(11, 'leader', '3', 2), line(25, 'lost', '3', 2, 'silent'), line(26, 'leader', '2', 3))),
			seen('3', 0, history(line(6, 'leader', '3', 2), line(31, 'lost', '3', 2, 'superseded'), line(31, 'leader', '2', 3))),
		])
		const s = ms => ms === null ? 'now' : ((ms - Date.UTC(2026, 0, 1)) / 1000).toFixed(1)
		return list.map(r => (r.gap ? 'nobody' : r.twice ? 'two' : r.leader + (r.own ? ' itself' : '')) + ' ' + s(r.from) + '-' + s(r.to) + (r.cause ? ' ' + r.cause : '')).join('; ')
	})`)
	if want := "4 1.0-5.0 crashed; nobody 5.0-6.0; 3 itself 6.0-31.0 superseded; 2 itself 21.0-now; two 21.0-31.0"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// One step may end a leadership and begin the next; what is known of it is then all told with
// the end, and the page shows it with both.
func TestWhatOneStepDidIsShownWithBoth(t *testing.T) {
	members := cluster(t, "1")
	b := open(t, browser(t), "http://"+members["1"].http+"/")
	began := eval[[]string](b, `import('./ui/reigns.js').then(m => m.reigns({ events: [
		{ event: 'leader', leader: '3', epoch: 2, time: '2026-01-01T00:00:00Z', records: [] },
		{ event: 'lost', leader: '3', epoch: 2, cause: 'superseded', time: '2026-01-01T00:00:01Z', records: [{ what: 'loses' }, { what: 'adopts' }] },
		{ event: 'leader', leader: '2', epoch: 3, time: '2026-01-01T00:00:01Z', records: [] }] })[1].began.map(r => r.what))`)
	if !slices.Contains(began, "adopts") {
		t.Errorf("the second has begun by %q", began)
	}
}

// Why a leadership ended is shown once.
func TestACauseIsNotRepeated(t *testing.T) {
	b := open(t, browser(t), "http://"+cluster(t, "1")["1"].http+"/?lang=en")
	for why, want := range map[string]string{"resigned": "it resigned", "it hands over to 3": "it resigned (it hands over to 3)"} {
		if got := eval[string](b, with("why => import('./ui/timeline.js').then(m => m.causeOf({ cause: 'resigned', leader: '2', views: [{ by: '2', cause: 'resigned', why }] }))", why)); got != want {
			t.Errorf("%s: %q, want %q", why, got, want)
		}
	}
}

// A browser opens six connections to an agent. Hidden pages hold none of them, so a seventh has its own.
func TestHiddenPagesLeaveConnectionsFree(t *testing.T) {
	m := cluster(t, "1")["1"]
	var tabs []*tab
	for range 7 {
		b := open(t, browser(t), "http://"+m.http+"/")
		b.do(page.BringToFront())
		b.until(leaderIs + "'1'")
		tabs = append(tabs, b)
	}
	b := tabs[0]
	if !eval[bool](b, "document.hidden") {
		t.Fatal("the first page is visible")
	}
	if eval[bool](b, "document.body.classList.contains('stale')") {
		t.Error("a hidden page is stale")
	}
	eval[bool](b, `(() => {
		const { fetch } = globalThis
		globalThis.fetch = (path, options) => { if (path === 'v1/events') globalThis.follows = true; return fetch(path, options) }
		return true
	})()`)
	b.do(page.BringToFront())
	b.until("globalThis.follows")
	b.until("document.querySelector('#live').textContent === 'Live'")
}
