package browsertest

import (
	"os"
	"testing"
)

// The pictures of docs/ are retaken by
//
//	BATUTA_SHOTS=$PWD/docs go -C internal/testkit/browsertest test -count=1 -run TestPicturesOfTheDocs .
func TestPicturesOfTheDocs(t *testing.T) {
	if os.Getenv("BATUTA_SHOTS") == "" {
		t.Skip("set BATUTA_SHOTS to the directory of the pictures")
	}
	t.Run("lab", func(t *testing.T) {
		b := open(t, browser(t), serveLab(t))
		b.size(1280, 900, "light")
		b.until(ready)
		eval[any](b, "lab.tours.begin('2-bully-crash-and-return'), 0")
		b.until("lab.tours.current?.name === '2-bully-crash-and-return'")
		eval[any](b, "lab.tours.go(2), lab.pick({event: lab.model.events[lab.model.before(lab.now)], at: lab.now}), 0")
		b.until("lab.frame === null && document.querySelectorAll('#why li').length > 2")
		b.shoot("lab")

		eval[any](b, "lab.tours.end(), document.querySelector('#explore-open').click(), document.querySelector('#explore-run').click(), 0")
		b.until("!lab.explorer.running && document.querySelector('#explore-ways strong')")
		b.clickText("#explore-ways button strong", "3 crashes")
		b.until("document.querySelector('#explore-state').textContent.startsWith('State 3,')")
		eval[any](b, "document.querySelector('#explore').scrollTo(0, 0), 0")
		b.shoot("lab-explore")
		eval[any](b, "document.querySelector('#explore').close(), 0")

		eval[any](b, "document.querySelector('#super-open').click(), 0")
		b.until("lab.superpeers.rounds.length === 120")
		eval[any](b, "document.querySelector('#super-play').click(), lab.superpeers.go(8.6), 0")
		b.until("document.querySelector('#super-figures').textContent.startsWith('Round 9:')")
		b.shoot("lab-superpeers")
	})
	t.Run("dashboard", func(t *testing.T) {
		members := cluster(t, "1", "2", "3")
		b := open(t, browser(t), "http://"+members["2"].http+"/", gone...)
		b.size(1280, 900, "light")
		b.until(leaderIs + "'3'")
		members["3"].kill()
		b.until(leaderIs + "'2' && document.querySelector('#picture .edge.down') && document.querySelector('#gathered').textContent.includes('refuse') && /for [2-9] s$/.test(document.querySelector('#reign').textContent)")
		b.shoot("dashboard")
	})
	t.Run("quorum", func(t *testing.T) {
		voters := clusterOf(t, []string{"--algorithm", "quorum"}, "1", "2", "3")
		b := open(t, browser(t), "http://"+voters["3"].http+"/", gone...)
		b.size(1280, 900, "light")
		b.until(leaderIs + "'3' && document.querySelectorAll('#picture .edge.link').length === 3 && /for [5-9] s$/.test(document.querySelector('#reign').textContent)")
		b.shoot("dashboard-quorum")
	})
}
