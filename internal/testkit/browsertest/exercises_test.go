package browsertest

import (
	"fmt"
	"strings"
	"testing"
)

// answer fills in the questions of a stop, in their order.
func (b *tab) answer(answers ...string) {
	b.Helper()
	b.until("!document.querySelector('#predict').hidden")
	n := eval[int](b, with(`answers => {
		const all = [...document.querySelectorAll('#predict .answer')]
		all.forEach((x, i) => { x.value = answers[i]; x.dispatchEvent(new Event('change')) })
		return all.length
	}`, answers))
	if n != len(answers) {
		b.Fatalf("%d questions, want %d", n, len(answers))
	}
}

// graded is the page's verdict on the answers.
func (b *tab) graded() string {
	b.Helper()
	b.until("!document.querySelector('#graded').hidden")
	return eval[string](b, "[...document.querySelectorAll('#graded li')].map(x => x.textContent).join('; ')")
}

// A student predicts, and the run of the real machines grades it.
func TestPredictionsAreGraded(t *testing.T) {
	b := open(t, browser(t), serveLab(t)+"#exercise=bully&seed=7") // of six, 6 dies and 4 calls: 3 + 1 + 5 messages
	b.size(1280, 900, "light")
	b.until(ready + " && document.querySelector('#tour-text').textContent")
	b.click("#tour-next")
	b.click("#tour-next")
	b.until("!document.querySelector('#predict').hidden && document.querySelector('#tour-next').textContent === 'Do not predict'")
	if eval[bool](b, "document.querySelector('#predict').checkValidity()") {
		t.Error("an empty prediction is valid")
	}
	if v := eval[string](b, "getComputedStyle(document.querySelector('#overview')).visibility"); v != "hidden" {
		t.Errorf("the strip of the whole run is %s while its end is to be predicted", v)
	}
	b.answer("5", "2", "12")
	b.shoot("lab-predict")
	b.accessible("a prediction")
	b.clickText("#predict button", "Predict")
	b.until("lab.playing && lab.tours.stop === 1")
	b.click("#tour-next") // no patience
	if got, want := b.graded(), "✓ Leader: 5; ✓ Epoch: 2; ✗ Messages: 9 · your answer: 12"; got != want {
		t.Errorf("graded %q, want %q", got, want)
	}
	b.shoot("lab-graded")
	b.accessible("a graded prediction")
	b.click("#tour-again")
	b.until("lab.tours.stop === 0 && location.hash.startsWith('#exercise=bully&seed=') && document.querySelector('#graded').hidden")
}

// Each exercise of several seeds plays, asks, and accepts the answers that it gives itself.
func TestExercisesOfAnySeed(t *testing.T) {
	b := open(t, browser(t), serveLab(t)+"?lang=es#exercise=partition&seed=3") // 3,4,6,7 | 1,2,5
	b.until(ready + " && lab.tours.current")
	b.until("document.querySelector('#h-tour').textContent === 'Una partición, mejor esfuerzo · n.º\u00a03'")
	if words := eval[string](b, "lab.tours.current.stops[1].text.es"); !strings.HasPrefix(words, "3, 4, 6 y 7 a un lado; 1, 2 y 5 al otro.") { // 1,2 is a decimal number
		t.Errorf("the sides are: %s", words)
	}
	eval[any](b, "lab.tours.go(1), 0")
	b.answer("2", "5", "2")
	eval[any](b, "document.querySelector('#predict').requestSubmit(), lab.tours.go(2), 0")
	if got, want := b.graded(), "✓ Cuántos lideran: 2; ✓ Líder del 2: 5; ✓ Época del 2: 2"; got != want {
		t.Errorf("graded %q, want %q", got, want)
	}
	for _, name := range eval[[]string](b, "import('./exercises.js').then(x => x.exercises)") {
		for seed := range 12 {
			faults := eval[string](b, with(`async (name, seed) => {
				const { parse, place } = await import('./script.js')
				const tour = parse(name, (await import('./exercises.js')).exercise(name, seed))
				const played = await lab.simulator.ask('play', tour.scenario)
				try { place(tour, played) } catch (error) { return error.message }
				const asks = tour.stops.filter(x => x.ask).length
				return [played.fault?.what, played.failure, asks ? '' : 'it asks nothing'].filter(Boolean).join()
			}`, name, seed))
			if faults != "" {
				t.Errorf("%s of seed %d: %s", name, seed, faults)
			}
		}
	}
	eval[any](b, "location.hash = 'exercise=quorum&seed=5', 0")
	b.until(fmt.Sprintf("window.lab?.tours?.current?.exercise === 'quorum' && %s", ready))
	if title := eval[string](b, "document.querySelector('#h-tour').textContent"); !strings.HasSuffix(title, "n.º\u00a05") {
		t.Errorf("the exercise is %q", title)
	}
}

// Every tour plays as it says, stops where its trace says in order, begins at the start, and has
// its text in both languages.
func TestTours(t *testing.T) {
	b := open(t, browser(t), serveLab(t))
	b.until(ready + " && lab.tours.list.length")
	faults := eval[[]string](b, `(async () => {
		const { place } = await import('./script.js'), faults = []
		for (const tour of lab.tours.list) {
			try {
				const played = await lab.simulator.ask('play', tour.scenario)
				if (played.fault || played.failure) throw new Error(tour.name + ': ' + (played.fault?.what ?? played.failure))
				const { stops } = place(tour, played)
				if (stops[0].when !== 'start' || stops.some((x, i) => i > 0 && x.at < stops[i - 1].at)) throw new Error(tour.name + ': its stops are not in order: ' + stops.map(x => x.at))
			} catch (error) { faults.push(error.message) }
		}
		return faults
	})()`)
	for _, f := range faults {
		t.Error(f)
	}
	eval[any](b, "lab.tours.begin('10-flapping-follower'), 0")
	b.until("lab.tours.current?.name === '10-flapping-follower'")
	eval[any](b, "lab.tours.go(2), 0")
	b.answer("4", "3")
	eval[any](b, "document.querySelector('#predict').requestSubmit(), lab.tours.go(3), 0")
	if got, want := b.graded(), "✓ Leader: 4; ✓ Epoch: 3"; got != want {
		t.Errorf("a leader that renews is graded %q, want %q", got, want)
	}
	for text, want := range map[string]string{
		"en: a\nes: b\nstop start\nen: a\nes: b\nask weather\nstop end\nen: a\nes: b\n": "none of the questions",
		"en: a\nes: b\nstop start\nen: a\nes: b\nask leader\n":                          "the last stop asks nothing",
		"en: a\nes: b\nstop start\nen: a\n":                                             "in English and Spanish",
		"en: a\nes: b\nwhat\n":                                                          "line 3",
	} {
		got := eval[string](b, with("async text => { try { (await import('./script.js')).parse('x', text); return 'it is taken' } catch (error) { return error.message } }", text))
		if !strings.Contains(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
