package browsertest

import (
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
)

// signal sends a signal to the processes of members. A stopped member answers nothing, as one behind a cut.
func signal(t *testing.T, members map[string]*member, s syscall.Signal, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if err := members[id].cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
}

// apart is true when the dashboard's text about unreachable members has all of these parts.
func apart(parts ...string) string {
	return with("(...parts) => (said => parts.every(x => said.includes(x)))(document.querySelector('#apart').textContent)", anys(parts)...)
}

func anys(list []string) (all []any) {
	for _, x := range list {
		all = append(all, x)
	}
	return all
}

// The page names the unreachable members, the side that may have a leader, and what to do.
func TestTheDashboardOfASide(t *testing.T) {
	members := cluster(t, "1", "2", "3")
	b := open(t, browser(t), "http://"+members["1"].http+"/")
	b.size(1280, 900, "light")
	b.until(leaderIs + "'3' && document.querySelector('#apart').textContent === ''")
	signal(t, members, syscall.SIGSTOP, "3")
	b.until(leaderIs + "'2'")
	b.until(apart("No contact with 3: ", "The other side may have its own leader.", "Check the network to "+members["3"].listen+". Do not remove"))
	b.everywhere("dashboard-side")
	b.do(chromedp.Navigate("http://" + members["1"].http + "/?lang=es"))
	b.until(apart("Sin contacto con 3: ", "El otro lado puede tener su propio líder.", "Compruebe la red hasta "+members["3"].listen))
	signal(t, members, syscall.SIGCONT, "3")
	b.until(leaderIs + "'3' && document.querySelector('#apart').textContent === ''")
}

// With a quorum the page of a follower shows the members that the leader reaches and, without a leader, how many votes
// are missing.
func TestTheDashboardOfASideOfAQuorum(t *testing.T) {
	members := clusterOf(t, []string{"--algorithm", "quorum"}, "1", "2", "3", "4", "5")
	b := open(t, browser(t), "http://"+members["1"].http+"/")
	b.size(1280, 900, "light")
	b.until(leaderIs + "'5' && document.querySelector('#apart').textContent === ''")
	signal(t, members, syscall.SIGSTOP, "4", "5")
	b.until(leaderIs + "'3'")
	b.until(apart("No contact with 4, 5: ", "This side reaches a majority of the voters. The other side elects no leader."))
	b.until("document.querySelector('#count').textContent === '3 of 5 up' && document.querySelectorAll('#picture .edge.link').length === 3 && [...document.querySelectorAll('#rows tr')].some(x => /^4.*unreachable/.test(x.textContent))")
	b.shoot("dashboard-majority")
	signal(t, members, syscall.SIGSTOP, "3")
	b.until(leaderIs + "'No leader'")
	b.until(apart("No contact with 3, 4, 5: ", "This side reaches 2 of 5 voters, and an election needs 3. The other side may have a leader."))
	b.until("!document.querySelector('#votes').textContent.includes('page knows') && document.querySelector('#votes').textContent.includes('unreachable')")
	b.shoot("dashboard-minority")
	b.accessible("a minority")
}
