package browsertest

import (
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/freeport"
	"github.com/batuta-dev/batuta/internal/stalltest"
)

// member is an agent of a real cluster.
type member struct {
	*process
	id, listen, http string
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
		members[id] = &member{id: id, listen: loopback(ports[2*i]), http: loopback(ports[2*i+1])}
	}
	for _, id := range ids {
		m := members[id]
		m.args = []string{"agent", "--id", id, "--listen", m.listen, "--http", m.http, "--events", "json", "--log-level", "error", "--data-dir", t.TempDir()}
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
	eval[any](b, "document.querySelector('.reigns details').open = true, 0")
	b.until("document.querySelector('.reigns .steps').textContent.includes('adopts 2')")
	b.shoot("dashboard-lost")

	// It comes back, and takes over.
	members["3"].process = start(t, members["3"].args...)
	b.until(leaderIs + "'3'")
	b.until("document.querySelectorAll('.reigns > li:not(.gap)').length >= 3")
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

	members["1"].kill()
	members["2"].kill()
	b.until(leaderIs + "'Nobody'")
	b.until("!document.querySelector('#lease-words').textContent.startsWith('The lease')")
	b.until("document.querySelectorAll('#votes li.none').length >= 2")
}
