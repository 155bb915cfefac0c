package browsertest

import "testing"

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
	b.shoot("lab-390-es")
	b.fits("a lecture on a phone")
	b.legible("a lecture on a phone")
	if !eval[bool](b, "(box => box.top >= 0 && box.bottom <= innerHeight)(document.querySelector('#tour-next').getBoundingClientRect())") {
		t.Error("Next is not in reach")
	}
	eval[any](b, "lab.tours.go(2), lab.pick({event: lab.model.events.find(e => e.why === 'it won the contest'), at: lab.now}), 0")
	b.until("document.querySelector('#why').textContent.includes('ganó la elección')")
	eval[any](b, "lab.tours.go(1e9), 0")
	b.until("document.querySelector('.member.leads .say').textContent")
	if cropped := eval[[]string](b, "(whole => [...document.querySelectorAll('#circle .say, #circle .crown path')].filter(x => x.checkVisibility({visibilityProperty: true}) && (box => box.width && (box.top < whole.top || box.bottom > whole.bottom || box.left < whole.left || box.right > whole.right))(x.getBoundingClientRect())).map(x => x.outerHTML))(document.querySelector('#circle svg').getBoundingClientRect())"); len(cropped) > 0 {
		t.Errorf("cropped: %v", cropped)
	}
}
