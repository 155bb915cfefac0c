package browsertest

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/internal/command/algorithm"
	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
	"github.com/batuta-dev/batuta/internal/sim/trace"
)

// overlapping is a script that gives the labels of the circle that lie upon each other, upon a message, a member or its
// rings, or outside the picture, at each 20 ms of the run, and at how many of these moments ten messages or
// more are in flight.
const overlapping = `(() => {
	const found = [], inside = .12 // of a line: what a letter leaves free
	let busy = 0
	for (let now = 0; now < lab.model.elapsed; now += 20) {
		const flights = lab.model.under(now)
		if (!flights.some(f => f.kind !== 'beat' && f.kind !== 'ack')) continue
		lab.circle.render(now)
		busy += flights.length >= 10
		const seen = [...document.querySelectorAll('#circle .payload, #circle .say')].filter(x => x.textContent)
		const boxes = seen.map(x => [x.textContent, x.getBoundingClientRect(), x.matches('.payload')])
		const whole = document.querySelector('#circle svg').getBoundingClientRect(), words = boxes.length
		const dots = [...document.querySelectorAll('#circle .message[visibility=visible]:not(.beat)')].map(x => x.getBoundingClientRect())
		for (const [a, p, payload] of boxes) for (const q of dots) {
			const x = (q.left + q.right) / 2, y = (q.top + q.bottom) / 2
			if (payload && x > p.left && x < p.right && y > p.top + inside * p.height && y < p.bottom - inside * p.height) found.push(now + ' ms: ' + a + ' upon a message')
		}
		for (const x of document.querySelectorAll('#circle .hit .body, #circle .run[visibility=visible]')) boxes.push(['a member', x.getBoundingClientRect(), false])
		boxes.slice(0, words).forEach(([a, p, payload], i) => {
			if (p.left < whole.left - 1 || p.right > whole.right + 1) found.push(now + ' ms: cropped: ' + a)
			boxes.slice(payload ? 0 : words).forEach(([b, q, late], k) => {
				const edge = inside * p.height
				if ((!payload || k !== i) && (!late || k > i) && p.left + edge < q.right && p.right - edge > q.left && p.top + edge < q.bottom && p.bottom - edge > q.top) found.push(now + ' ms: ' + a + ' upon ' + b)
			})
		})
	}
	lab.dirty = true
	return [String(busy), ...found.slice(0, 500)]
})()`

// croppedInTime is a script that gives the labels of the space-time diagram that it cuts off, or that lie partly upon
// the bar of a leader, at each event of the run.
const croppedInTime = `(() => {
	const pen = CanvasRenderingContext2D.prototype, { rect, roundRect, fillText } = pen, found = new Set()
	let edge, bars
	pen.rect = function (x, y, w, h) { edge = x + w; rect.call(this, x, y, w, h) }
	pen.roundRect = function (x, y, w, h, r) { bars.push([x, y, x + w, y + h]); roundRect.call(this, x, y, w, h, r) }
	pen.fillText = function (words, x, y) {
		const { width, actualBoundingBoxAscent: above, actualBoundingBoxDescent: below } = this.measureText(words)
		if (this.textAlign === 'left' && x + width > edge || this.textAlign === 'center' && x + width / 2 > lab.spacetime.w) found.add('cut off: ' + words)
		const cut = at => y - above < at - 2 && y + below > at + 2
		if (this.textAlign === 'left' && bars.some(([left, top, right, bottom]) => bottom - top > 8 && x < right && x + width > left && (cut(top) || cut(bottom)))) found.add('partly upon a bar: ' + words)
		fillText.call(this, words, x, y)
	}
	for (const { at } of lab.model.events) { edge = Infinity; bars = []; lab.seek(at); lab.spacetime.render(lab.now, null) } // what is drawn before is of lanes, and not cut
	Object.assign(pen, { rect, roundRect, fillText })
	return [...found].slice(0, 5)
})()`

// What messages carry is written where nothing else is, on a phone and on a projector too.
func TestLabelsDoNotOverlap(t *testing.T) {
	b := open(t, browser(t), serveLab(t)+"?lang=es") // longer words
	b.until(ready)
	for _, tour := range []string{"1-bully-cascade", "3-chang-roberts", "8-quorum", "11-lesser-side"} {
		eval[any](b, with("tour => { lab.tours.begin(tour); return 0 }", tour))
		b.until(with("tour => lab.tours.current?.name === tour", tour))
		for _, screen := range []struct {
			width   int64
			present bool
		}{{390, false}, {390, true}, {1280, false}, {1280, true}} {
			b.size(screen.width, 800, "light")
			eval[any](b, with("on => { lab.pause(); lab.present(on); return 0 }", screen.present))
			b.until("lab.frame === null")
			got := eval[[]string](b, overlapping)
			if screen.width == 390 && screen.present { // the largest labels on the smallest picture touch their own members
				got = slices.DeleteFunc(got, func(found string) bool { return strings.HasSuffix(found, " upon a member") })
			}
			if len(got) > 1 {
				t.Errorf("%s at %d px: %s", tour, screen.width, strings.Join(got[1:min(len(got), 6)], "; "))
			}
			for _, label := range eval[[]string](b, croppedInTime) {
				t.Errorf("%s at %d px: in the space-time diagram this is %s", tour, screen.width, label)
			}
			if tour == "1-bully-cascade" && got[0] == "0" {
				t.Errorf("%s: at no moment are ten messages in flight", tour)
			}
		}
		b.shoot("lab-labels-" + tour)
	}
}

// A pause is drawn at each member that knows of it, and a member that was reaped is no member any more.
func TestPauseAndReapingAreDrawn(t *testing.T) {
	b := open(t, browser(t), serveLab(t)+"?lang=es")
	b.size(1280, 900, "dark")
	b.until(ready)
	if tops := eval[int](b, "new Set([...document.querySelectorAll('header.top > :not(.spring)')].filter(x => x.offsetHeight).map(x => Math.round((x.getBoundingClientRect().top + x.getBoundingClientRect().bottom) / 8))).size"); tops != 1 {
		t.Errorf("what is on top of the page is in %d rows", tops)
	}
	for file, steps := range map[string][][2]string{
		"pause": {
			{"lab.model.events.find(e => e.what === 'pauses').at - 1", "!document.querySelector('.paused[visibility=visible]')"},
			{"lab.model.events.find(e => e.what === 'pauses').at + 200", "document.querySelectorAll('.paused[visibility=visible]').length === 3 && [...document.querySelectorAll('.say')].filter(x => x.textContent.endsWith('· en pausa')).length === 3"},
			{"lab.model.events.find(e => e.what === 'resumes').at + 200", "!document.querySelector('.paused[visibility=visible]')"},
		},
		"members_reaped": {
			{"lab.model.events.find(e => e.what === 'reaps').at - 1", "!document.querySelector('.member.removed')"},
			{"lab.model.events.find(e => e.what === 'reaps').at", "document.querySelectorAll('.member.removed').length === 1 && document.querySelector('.member.removed .say').textContent === 'eliminado'"},
		},
	} {
		text, err := os.ReadFile("../../../election/bully/testdata/" + file + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		eval[any](b, with("async text => { await lab.load(text, { at: 0 }); lab.pause(); return 0 }", string(text)))
		for _, step := range steps {
			eval[any](b, "lab.seek("+step[0]+"), 0")
			b.until("lab.frame === null")
			b.until(step[1])
			b.shoot("lab-" + file)
		}
	}
	eval[any](b, "lab.load('members 1 2 3\\nsettled\\nrun 4s\\n', { at: 0 }).then(() => { lab.pause(); lab.seek(1000) }), 0")
	b.until("lab.model.members.length === 3 && lab.now === 1000 && lab.frame === null")
	b.click(".hit[aria-label^='Miembro 2']")
	b.clickText("#menu button", "Pausar el clúster, 10 s")
	b.until("document.querySelector('#text').value.includes('at 1s pause 2 10s\\n') && document.querySelectorAll('.paused[visibility=visible]').length === 3")
}

// On a Spanish page everything that a member does in any scenario has its Spanish word, and nearly all reasons.
func TestTracesInSpanish(t *testing.T) {
	does, reasons := map[string]bool{}, map[string]int{}
	for _, pattern := range []string{"../../../election/*/testdata/*.txt", "../../../quorum/testdata/*.txt"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := scenario.Parse(file, string(text))
			if err != nil || s.Golden == "" {
				continue
			}
			_, err = sim.Play(s, algorithm.Maker, func(e trace.Entry) {
				if e.Message == nil {
					does[e.What] = true
					reasons[e.Why]++
				}
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
	b := open(t, browser(t), serveLab(t)+"?lang=es")
	b.until(ready)
	delete(does, "notifies") // what it reports comes after it
	for _, what := range eval[[]string](b, with("async list => { const { doing } = await import('./shared/words.js'); return list.filter(x => doing(x) === x) }", slices.Sorted(maps.Keys(does)))) {
		t.Errorf("%q has no Spanish word in internal/web/shared/words.js", what)
	}
	// Without an object a verb has no preposition, and numbers are as the page's others.
	if got, want := eval[string](b, "import('./shared/words.js').then(({ doing, reason }) => [doing('loses'), doing('loses', '5'), doing('disk slow 1m0.5s'), reason('silent for 1.006s'), reason('2 received from it 40ms ago')].join('; '))"), "pierde el liderazgo; pierde a; su disco tarda 1\u00a0min 0,5\u00a0s; silencio de 1,006\u00a0s; 2 recibió algo suyo hace 40\u00a0ms"; got != want {
		t.Errorf("in Spanish: %q, want %q", got, want)
	}
	// Why a member is no candidate, as its status has it.
	for _, why := range eval[[]string](b, with("async list => { const { reason } = await import('./shared/words.js'); return list.filter(x => reason(x) === x) }", []string{
		"the cluster is paused until 2026-11-27T12:53:12Z: member 3 keeps leadership, alive or not; batuta resume ends that", "what it ran as leader 3:1 has not stopped yet",
		"its first check has not ended yet", "it is a witness: it votes, and never leads", "it is set up to follow only", "it was asked to step down, and is a candidate again when a later leader's time ends, or no member leads",
		"it has just joined and awaits the leader", "it is connected to fewer members than a majority takes, and could not be elected", "it is on no member's list any more",
		"it receives fewer than 3 members, itself included, and leads only while it receives so many (min-members)",
		"its first start waits until more than half of the other members have noted its disk: of three members all must be up and able to save",
	})) {
		t.Errorf("%q has no Spanish words in internal/web/shared/words.js", why)
	}
	delete(reasons, "")
	all, known := 0, 0
	for _, n := range reasons {
		all += n
	}
	for _, why := range eval[[]string](b, with("async list => { const { reason } = await import('./shared/words.js'); return list.filter(x => reason(x) !== x) }", slices.Sorted(maps.Keys(reasons)))) {
		known += reasons[why]
		delete(reasons, why)
	}
	if share := float64(known) / float64(all); share < .98 {
		t.Errorf("of %d reasons %.1f %% are in Spanish; not so: %v", all, 100*share, slices.SortedFunc(maps.Keys(reasons), func(a, b string) int { return reasons[b] - reasons[a] })[:12])
	}
}

// The epoch of a frozen leader can be read on a dark page: its bar is pale.
func TestAFrozenLeadersEpochIsRead(t *testing.T) {
	b := open(t, browser(t), serveLab(t)+"?lang=en")
	b.size(1280, 800, "dark")
	b.until(ready)
	eval[any](b, "lab.load('members 1 2 3\\nsettled\\nrun 400ms\\nfreeze 3\\nrun 400ms\\n', { at: 700 }).then(() => { lab.pause(); lab.present(true) }), 0")
	b.until("lab.model.members.length === 3 && lab.now === 700 && lab.frame === null")
	ink := eval[string](b, `(() => {
		const pen = CanvasRenderingContext2D.prototype, { fillText } = pen, inks = []
		pen.fillText = function (words, ...at) { if (words === 'epoch 1') inks.push(this.fillStyle); fillText.call(this, words, ...at) }
		lab.spacetime.stale = true
		lab.spacetime.render(lab.now, null)
		pen.fillText = fillText
		return inks.at(-1)
	})()`)
	if want := eval[string](b, "(c => { c.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--ink'); return c.fillStyle })(document.createElement('canvas').getContext('2d'))"); ink != want {
		t.Errorf("it is written in %s, want %s", ink, want)
	}
}
