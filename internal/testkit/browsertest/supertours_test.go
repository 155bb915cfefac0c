package browsertest

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// The tours of super peers show what they say: each figure of their texts is that of the round.
func TestSuperpeerToursAreTrue(t *testing.T) {
	b := open(t, browser(t), serveLab(t)+"?lang=es#superpeers=repulsion")
	b.size(1280, 900, "light")
	b.until("window.lab?.superpeers?.tour?.name === 'repulsion' && document.querySelector('#super-said').textContent.startsWith('800 nodos')")
	b.shoot("lab-super-tour")
	eval[any](b, "(x => { x.click(); x.click() })(document.querySelector('#super-next')), 0") // no patience
	b.until("lab.superpeers.at === 8 && document.querySelector('#super-said').textContent.startsWith('A cada token') && document.querySelector('#super-place').textContent === 'Parada 2 de 4'")
	b.accessible("a tour of super peers")
	for _, size := range [][2]int64{{390, 844}, {1280, 800}, {2560, 1440}} {
		b.size(size[0], size[1], "dark")
		b.until("(r => r.width && r.top >= 0 && r.bottom <= innerHeight)(document.querySelector('#super-map').getBoundingClientRect())")
		for _, seen := range []string{"#super-map", "#super-said", "#super-next", "#super-play"} {
			if !eval[bool](b, with("q => (x => x.width > 0 && x.top >= 0 && x.left >= 0 && x.bottom <= innerHeight && x.right <= innerWidth)(document.querySelector(q).getBoundingClientRect())", seen)) {
				t.Errorf("at %d px %s is not on the screen", size[0], seen)
			}
		}
		b.shoot(fmt.Sprintf("lab-super-tour-%d", size[0]))
		b.fits("a tour of super peers")
		b.accessible("a tour of super peers")
	}
	b.press(kb.PageDown, kb.PageDown)
	b.until("lab.superpeers.at === 29 && lab.superpeers.stop === 2")
	b.press(kb.PageUp)
	b.until("lab.superpeers.at === 8 && lab.superpeers.stop === 1 && location.hash === '#superpeers=repulsion&stop=2'")
	b.reloadAfter("0")
	b.until("window.lab?.superpeers?.at === 8 && lab.superpeers.stop === 1 && document.querySelector('#super-place').textContent === 'Parada 2 de 4'")
	b.click("#super-close")
	b.until("location.hash === ''")
	b.click("#super-open")
	b.until("location.hash === '#superpeers=repulsion&stop=2'")
	b.size(1280, 900, "light")
	for tour, figures := range map[string]map[int]string{
		"repulsion": {6: "16 0 0 0", 9: "16 11.3 113 15", 30: "16 9.8 68 2", 80: "16 9.5 64 0"},
		"prefix":    {6: "16 55.8 64 0", 40: "16 55.8 64 0"},
		"churn":     {40: "16 9.6 66 0", 41: "11 10.7 87 0", 45: "16 12.3 124 4", 60: "16 10.8 102 1"},
	} {
		eval[any](b, with("name => { lab.superpeers.begin(name); return 0 }", tour))
		b.until(with("name => lab.superpeers.tour.name === name && lab.superpeers.rounds.length >= 81 && lab.superpeers.stop >= 0", tour))
		for round, want := range figures {
			got := eval[string](b, with("n => (r => [r.live, r.unserved < 1 ? Number(r.mean.toFixed(1)) : 0, r.loadMax, r.moves].join(' '))(lab.superpeers.rounds[n - 1])", round))
			if got != want {
				t.Errorf("%s, round %d: super peers, mean, load and moves are %s, want %s", tour, round, got, want)
			}
		}
		for range 10 {
			if eval[bool](b, "!lab.superpeers.tour") {
				break
			}
			eval[any](b, "lab.superpeers.next(), 0")
		}
		b.until("!lab.superpeers.tour && document.querySelector('#super-told').hidden")
	}
}
