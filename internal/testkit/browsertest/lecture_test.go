package browsertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// onThePhone gives the stops of tours and exercises at which words cover the pictures or the strip of the run, or
// Next is out of reach. As a lecture the diagram and the whole text are on the screen, too.
const onThePhone = `(async () => {
	const { exercise, exercises } = await import('./exercises.js'), { parse } = await import('./script.js')
	const found = [], box = q => document.querySelector(q).getBoundingClientRect(), sideways = innerWidth > innerHeight
	scrollTo(0, 0)
	for (const tour of [...lab.tours.list, ...exercises.map(name => ({ ...parse(name, exercise(name, 7)), exercise: name, seed: 7 }))]) {
		lab.tours.show({ ...tour, stops: tour.stops.map(x => ({ ...x, at: 0 })) })
		for (let i = 0; i < tour.stops.length; i++) {
			lab.tours.go(i)
			lab.circle.render(lab.now)
			const whole = box('#circle svg'), cropped = [...document.querySelectorAll('#circle .say, #circle .crown path')].filter(x => x.checkVisibility({visibilityProperty: true}) && (at => at.width && (at.top < whole.top || at.bottom > whole.bottom || at.left < whole.left || at.right > whole.right))(x.getBoundingClientRect()))
			if (cropped.length) found.push(tour.name + ', stop ' + (i + 1) + ': cropped: ' + cropped.map(x => x.textContent))
			if (sideways && (whole.height < 180 || whole.bottom > innerHeight || whole.right > box('#tour').left || box('#tour .row').bottom > innerHeight + 1)) found.push(tour.name + ', stop ' + (i + 1) + ': the circle ends at ' + Math.round(whole.right) + ', ' + Math.round(whole.bottom) + ' px, the tour begins at ' + Math.round(box('#tour').left) + ', and Next ends at ' + Math.round(box('#tour .row').bottom))
			if (lab.presenting && !sideways) {
				const seen = [box('#circle svg'), box('#spacetime'), box('#tour-text'), box('#tour .row')]
				if (seen.some((x, k) => Math.round(x.top) < Math.round(seen[k - 1]?.bottom ?? 0)) || seen[3].bottom > innerHeight + 1) found.push(tour.name + ', stop ' + (i + 1) + ': they overlap: ' + seen.map(x => Math.round(x.top) + '–' + Math.round(x.bottom)))
				if (seen[0].height < 100 || seen[1].height < 190) found.push(tour.name + ', stop ' + (i + 1) + ': the pictures have ' + seen[0].height + ' and ' + seen[1].height + ' px')
			}
			if (!sideways && box('.track').bottom > box('#tour').top) found.push(tour.name + ', stop ' + (i + 1) + ': ' + Math.round(box('.track').bottom - box('#tour').top) + ' px of the strip are covered')
			if (box('#tour-next').bottom > innerHeight) found.push(tour.name + ', stop ' + (i + 1) + ': Next is out of reach')
		}
	}
	return found
})()`

// smallest is the size of the smallest text of the pictures, in px of the screen.
const smallest = `(() => {
	const sizes = [...document.querySelectorAll('#circle .say, #circle .payload')].map(x => parseFloat(getComputedStyle(x).fontSize) * x.getScreenCTM().a)
	const context = CanvasRenderingContext2D.prototype, { fillText } = context
	context.fillText = function (...args) { sizes.push(parseFloat(this.font.match(/[\d.]+px/)[0]) * lab.spacetime.scale); fillText.apply(this, args) }
	lab.spacetime.stale = true
	lab.spacetime.render(lab.now, null)
	context.fillText = fillText
	return Math.min(...sizes)
})()`

// nearTheRings gives the labels that are less than 4 of the picture's units from a ring of their member.
const nearTheRings = `[...document.querySelectorAll('#circle .member .say')].filter(x => x.textContent && x.checkVisibility({visibilityProperty: true})).map(x => {
	const rings = [...x.closest('.member').querySelectorAll('.body, .run, .halo')].filter(ring => ring.checkVisibility({visibilityProperty: true})).map(ring => ring.r.baseVal.value + parseFloat(getComputedStyle(ring).strokeWidth) / 2)
	const y = parseFloat(x.getAttribute('y')), em = parseFloat(getComputedStyle(x).fontSize)
	return [x.textContent, (y > 0 ? y + .05 * em : -y - .02 * em) - Math.max(...rings)] // capitals have .75 em, and .22 em are below the line
}).filter(([, gap]) => gap < 4).map(([words, gap]) => words + ' is ' + gap.toFixed(1) + ' from its ring')`

// inTheRoom gives the stops of tours and exercises at which parts of the text overlap, or Next is out of reach.
const inTheRoom = `(async () => {
	const { exercise, exercises } = await import('./exercises.js'), { parse } = await import('./script.js')
	const found = [], box = q => document.querySelector(q).getBoundingClientRect()
	for (const tour of [...lab.tours.list, ...exercises.map(name => ({ ...parse(name, exercise(name, 7)), exercise: name, seed: 7 }))]) {
		lab.tours.show({ ...tour, stops: tour.stops.map(x => ({ ...x, at: 0 })) })
		for (let i = 0; i < tour.stops.length; i++) {
			lab.tours.go(i)
			if (box('#tour h2').bottom > box('#tour-text').top + 1 || box('#tour .row').bottom > box('#tour').bottom) found.push(tour.name + ', stop ' + (i + 1) + ': the title ends at ' + Math.round(box('#tour h2').bottom) + ', the text begins at ' + Math.round(box('#tour-text').top) + ', Next ends at ' + Math.round(box('#tour .row').bottom) + ' of ' + Math.round(box('#tour').bottom) + ' px')
		}
	}
	return found
})()`

// On a phone Next stays in reach, and nothing of the picture is cropped; what a message carries
// stands next to it; the reasons are in the page's language; the simulator loads with a bar.
func TestALectureOnAPhone(t *testing.T) {
	b := open(t, browser(t), serveLab(t)+"?lang=es#tour=3-chang-roberts")
	b.size(390, 780, "light")
	b.until(ready + " && lab.tours.current")
	if v := eval[float64](b, "document.querySelector('#loading').value"); v != 1 {
		t.Errorf("the bar of what is loaded stands at %v", v)
	}
	eval[any](b, "lab.tours.go(1), 0")
	b.until("[...document.querySelectorAll('.payload')].some(x => /^ELECTION \\d/.test(x.textContent))")
	b.until("/^\\d+,\\d{3} s$/.test(document.querySelector('#clock').textContent) && /^\\d+,\\d{3}$/.test(document.querySelector('#log time').textContent)")
	b.shoot("lab-390-es")
	b.fits("a lecture on a phone")
	b.legible("a lecture on a phone")
	if !eval[bool](b, "(box => box.top >= 0 && box.bottom <= innerHeight)(document.querySelector('#tour-next').getBoundingClientRect())") {
		t.Error("Next is not in reach")
	}
	for _, size := range [][2]int64{{360, 740}, {360, 780}, {390, 844}, {844, 390}} {
		b.size(size[0], size[1], "light")
		for _, lecture := range []bool{false, true} {
			eval[any](b, with("on => { lab.present(on); return 0 }", lecture))
			for _, bad := range eval[[]string](b, onThePhone) {
				t.Errorf("at %d px, as a lecture %v: %s", size[0], lecture, bad)
			}
			b.shoot(fmt.Sprintf("lab-%d-%d-%v-es", size[0], size[1], lecture))
		}
	}
	b.shoot("lab-390-lecture-es")
	b.size(390, 800, "light")
	eval[any](b, "lab.present(true), 0")
	for step := range 5 {
		eval[any](b, with("n => (lab.tours.go(n), 0)", step))
		for _, near := range eval[[]string](b, nearTheRings) {
			t.Errorf("a lecture of 390 × 800 px, step %d: %s", step, near)
		}
	}
	eval[any](b, "lab.present(false), lab.tours.begin('3-chang-roberts'), 0")
	b.until("lab.tours.current?.name === '3-chang-roberts'")
	eval[any](b, "lab.tours.go(2), lab.pick({event: lab.model.events.find(e => e.why === 'it won the election'), at: lab.now}), 0")
	b.until("document.querySelector('#why').textContent.includes('ganó la elección')")
	eval[any](b, "lab.tours.go(1e9), 0")
	b.until("document.querySelector('.member.leads .say')?.textContent")
	if cropped := eval[[]string](b, "(whole => [...document.querySelectorAll('#circle .say, #circle .crown path')].filter(x => x.checkVisibility({visibilityProperty: true}) && (box => box.width && (box.top < whole.top || box.bottom > whole.bottom || box.left < whole.left || box.right > whole.right))(x.getBoundingClientRect())).map(x => x.outerHTML))(document.querySelector('#circle svg').getBoundingClientRect())"); len(cropped) > 0 {
		t.Errorf("cropped: %v", cropped)
	}
}

// What times out is seen: a lease that runs down, the promises that outlast it, the votes that fill up.
func TestWhatRunsOutIsSeen(t *testing.T) {
	b := open(t, browser(t), serveLab(t)+"#tour=8-quorum")
	b.size(1280, 800, "light")
	b.until(ready + " && lab.tours.current")
	ring := func(member, k int, at string) string {
		eval[any](b, "lab.pause(), lab.seek("+at+"), 0")
		b.until("lab.frame === null")
		return eval[string](b, with(`(i, k) => (x => getComputedStyle(x).visibility + ' ' + x.getAttribute('class') + ' ' + parseFloat(x.getAttribute('stroke-dasharray')))(lab.circle.members[i].runs[k])`, member, k))
	}
	const gaveUp = "lab.model.events.find(e => e.what === 'steps down').at"
	var left float64
	if got := ring(4, 0, gaveUp+" - 100"); !strings.HasPrefix(got, "visible run lease low 0.") {
		t.Errorf("the lease of the leader that is cut off: %s", got)
	} else if _, err := fmt.Sscanf(got, "visible run lease low %f", &left); err != nil || left < .1 || left > .25 {
		t.Errorf("100 ms before its end, of T = 600 ms: %s", got)
	}
	if got := ring(0, 0, gaveUp); !strings.HasPrefix(got, "visible run promise") {
		t.Errorf("the lease has ended before the promise that it rests on; that is: %s", got)
	}
	const asks = "lab.model.waits.find(x => x.for === 'votes' && x.from > " + gaveUp + " && x.m < 3 && x.got === 2).from"
	if got := ring(eval[int](b, "lab.model.waits.find(x => x.for === 'votes' && x.from > "+gaveUp+" && x.m < 3 && x.got === 2).m"), 1, asks+" + .1"); !strings.HasPrefix(got, "visible run votes 0.27") {
		t.Errorf("two votes of three: %s", got)
	}
	b.until("[...document.querySelectorAll('.say')].some(x => x.textContent === 'asks: 2 of 3 votes')")
	b.shoot("lab-votes")
}

// For a room: both pictures and the tour on a projector's screen, a key a step, and the sides of a
// partition shaded.
func TestALectureOnAProjector(t *testing.T) {
	b := open(t, browser(t), serveLab(t)+"#tour=8-quorum")
	b.size(1280, 800, "light")
	b.until(ready + " && lab.tours.current")
	b.click("#lecture")
	for _, seen := range []string{"#circle svg", "#spacetime", "#tour-text", "#tour-next", "#scrub"} {
		if !eval[bool](b, with("q => (x => x.width > 0 && x.top >= 0 && x.left >= 0 && x.bottom <= innerHeight && x.right <= innerWidth)(document.querySelector(q).getBoundingClientRect())", seen)) {
			t.Errorf("%s is not on the screen", seen)
		}
	}
	for _, size := range [][2]int64{{1280, 720}, {1024, 640}, {2560, 1440}} {
		b.size(size[0], size[1], "light")
		for _, bad := range eval[[]string](b, inTheRoom) {
			t.Errorf("at %d × %d px: %s", size[0], size[1], bad)
		}
	}
	b.size(1280, 800, "light")
	eval[any](b, "lab.tours.begin('8-quorum'), 0")
	b.until("lab.tours.current?.name === '8-quorum'")
	eval[any](b, "document.activeElement.blur(), lab.tours.go(1), 0")
	b.press(kb.PageDown, kb.PageDown) // plays, and no patience
	b.until("lab.tours.stop === 2")
	b.until("[...document.querySelectorAll('.part')].map(x => x.getAttribute('d').match(/[ML]/g).length).sort().join() === '2,3'")
	b.press(kb.PageUp)
	b.until("lab.tours.stop === 1 && !document.querySelector('.part')")
	for _, size := range [][2]int64{{1280, 800}, {390, 844}} { // Next stays in its place, whatever the length of the text
		b.size(size[0], size[1], "light")
		if at := eval[int](b, "new Set(lab.tours.current.stops.map((_, i) => { lab.tours.go(i); return Math.round(document.querySelector('#tour-next').getBoundingClientRect().top) })).size"); at != 1 {
			t.Errorf("at %d px Next is in %d places", size[0], at)
		}
	}
	for _, size := range [][2]int64{{1920, 1080}, {1280, 800}} { // the last row reads a share of the screen
		b.size(size[0], size[1], "light")
		eval[any](b, "lab.tours.go(1), 0")
		b.until("lab.frame === null")
		if px := eval[float64](b, smallest); px < 16*float64(size[1])/800 {
			t.Errorf("at %d px a label has %.1f px", size[0], px)
		}
	}
	b.until("document.querySelector('#counts').checkVisibility()")
	eval[any](b, "lab.tours.go(3), 0")
	for i, screen := range screens {
		b.size(screen.width, screen.height, []string{"dark", "light"}[i%2])
		b.shoot("lab-lecture-" + screen.name)
		b.fits("a lecture")
		b.legible("a lecture")
		b.accessible("a lecture")
	}
	b.press(kb.Escape)
	b.until("!document.body.classList.contains('presenting')")
}

// cutTitles returns the lists to choose from that are narrower than their longest entry.
const cutTitles = `[...document.querySelectorAll('header.top select, #super[open] select')].filter(x => x.checkVisibility()).flatMap(x => {
	const whole = x.cloneNode(true)
	whole.style.cssText = 'position: fixed; visibility: hidden; width: max-content; max-width: none'
	x.after(whole)
	const missing = whole.offsetWidth - x.offsetWidth
	whole.remove()
	return missing > 0 ? [x.id + ': ' + missing + ' px are missing'] : []
})`

// The first stop of every tour shows what its text is about, and every title is readable in full.
func TestFirstStops(t *testing.T) {
	for _, lang := range []string{"en", "es"} {
		b := open(t, browser(t), serveLab(t)+"?lang="+lang)
		b.until(ready)
		for _, width := range []int64{1024, 1280, 1920} {
			b.size(width, 800, "light")
			for _, cut := range eval[[]string](b, cutTitles) {
				t.Errorf("%s, %d px: %s", lang, width, cut)
			}
		}
		b.size(1280, 800, "light")
		for tour, shown := range map[string]string{
			"5-partition": "true", "6-frozen-leader": "true", "7-one-link": "true", "10-flapping-follower": "true", "11-lesser-side": "true",
			"1-bully-cascade":          "!document.querySelector('.message.tell[visibility=visible]') && document.querySelector('#counts').textContent === '4\u00a0×\u00a0COORDINATOR'", // "COORDINATOR 4" would name a member
			"2-bully-crash-and-return": "document.querySelector('.message.beat[visibility=visible]')",                                                                                   // heartbeats
			"3-chang-roberts":          "document.querySelector('.message.know[visibility=visible]')",                                                                                   // questions
			"8-quorum":                 "document.querySelector('.run.promise[visibility=visible]') && document.querySelector('#log .none').offsetHeight < 40",
		} {
			eval[any](b, with("tour => { lab.tours.begin(tour); return 0 }", tour))
			b.until(with("tour => lab.tours.current?.name === tour && lab.frame === null", tour))
			if !eval[bool](b, "Boolean("+shown+")") {
				t.Errorf("%s, %s: the first stop does not show what its text is about", lang, tour)
			}
			if strings.Contains(eval[string](b, "lab.tours.current.scenario"), "settled") && eval[bool](b, "Boolean(document.querySelector('.message.tell[visibility=visible]'))") {
				t.Errorf("%s, %s: at the first stop all follow the leader, and its announcement is under way still", lang, tour)
			}
			b.shoot("lab-first-" + lang + "-" + tour)
		}
		eval[any](b, "lab.tours.end(), 0")
		for tour, round := range map[string]int{"repulsion": 6, "prefix": 5, "churn": 40} {
			eval[any](b, with("tour => { lab.superpeers.begin(tour); return 0 }", tour))
			b.until(with("(tour, round) => lab.superpeers.tour?.name === tour && lab.superpeers.rounds.length > round && lab.superpeers.at === round - 1 && document.querySelector('#super-said').textContent", tour, round))
			for _, cut := range eval[[]string](b, cutTitles) {
				t.Errorf("%s, %s: %s", lang, tour, cut)
			}
			b.shoot("lab-first-" + lang + "-" + tour)
		}
	}
}
