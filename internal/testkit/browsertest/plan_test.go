package browsertest

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

var planned = regexp.MustCompile("`#((?:tour|exercise)=[^`N]+)`")

// links are those of the plan's table, in its order.
func links(t *testing.T, file string) (list []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if m := planned.FindStringSubmatch(line); m != nil && strings.HasPrefix(line, "| ") && line[2] >= '0' && line[2] <= '9' {
			list = append(list, m[1])
		}
	}
	return list
}

// predicted fills in the questions of a stop with what the run comes to at the next.
const predicted = `(async () => {
	const { outcome } = await import('./predict.js'), { stops } = lab.tours.current, here = stops[lab.tours.stop], next = stops[lab.tours.stop + 1]
	const all = [...document.querySelectorAll('#predict .answer')]
	all.forEach((x, i) => { x.value = outcome(lab.model, here.ask[i], here.at, next.at); x.dispatchEvent(new Event('change')) })
	document.querySelector('#predict').requestSubmit()
	return all.length
})()`

// The lecture of the plan is given from the lab alone, in both languages, key by key on a projector: each link opens,
// each stop has its text on the screen, and five predictions are asked and graded.
func TestTheLectureOfThePlan(t *testing.T) {
	plan := links(t, "../../../docs/lecture.md")
	if es := links(t, "../../../docs/es/clase.md"); !slices.Equal(plan, es) {
		t.Fatalf("the plan has the links %v, the Spanish one %v", plan, es)
	}
	predictions := 0
	for i, link := range plan {
		if strings.HasPrefix(link, "exercise=") {
			predictions++
		}
		lang := []string{"en", "es"}[i/2%2] // a tour and its prediction in each
		b := open(t, browser(t), serveLab(t)+"?lang="+lang+"#"+link)
		b.size(1280, 800, []string{"light", "dark"}[i%2])
		b.until(ready + " && lab.tours.current && document.querySelector('#tour-text').textContent")
		b.click("#lecture")
		eval[any](b, "document.activeElement.blur(), 0")
		asked, n := 0, eval[int](b, "lab.tours.current.stops.length")
		for stop := range n {
			b.until(with("i => lab.tours.stop === i && document.querySelector('#tour-text').textContent.length > 20", stop))
			b.until("(x => x.top >= 0 && x.bottom <= innerHeight)(document.querySelector('#tour-next').getBoundingClientRect())")
			if eval[bool](b, "Boolean(lab.tours.current.stops[lab.tours.stop].ask)") {
				b.until("!document.querySelector('#predict').hidden")
				asked += eval[int](b, predicted)
			} else if stop < n-1 {
				b.do(chromedp.KeyEvent(kb.PageDown))
			}
			if stop < n-1 { // no patience
				eval[any](b, with("i => { if (lab.tours.stop === i) lab.tours.next(); return 0 }", stop))
			}
			if wrong := eval[string](b, "[...document.querySelectorAll('#graded:not([hidden]) .wrong')].map(x => x.textContent).join()"); wrong != "" {
				t.Errorf("%s, stop %d: the run's own outcome is graded wrong: %s", link, stop+1, wrong)
			}
		}
		b.shoot("plan-" + strings.NewReplacer("=", "-", "&", "-").Replace(link))
		if strings.HasPrefix(link, "exercise=") && asked == 0 {
			t.Errorf("%s asks nothing", link)
		}
	}
	if predictions != 5 || len(plan) != 10 {
		t.Errorf("the plan has %d links, %d of them predictions; 10 and 5 are promised", len(plan), predictions)
	}
}
