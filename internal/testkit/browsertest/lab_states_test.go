package browsertest

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
)

// answersLate is a script that lets the lab's simulator answer a call only after window.answer().
const answersLate = `call => {
	const simulator = lab.simulator, ask = simulator.ask.bind(simulator)
	const late = new Promise(done => { window.answer = done })
	simulator.ask = async (name, ...args) => { const value = await ask(name, ...args); if (name === call) await late; return value }
	return 0
}`

// What is typed while the simulator plays an earlier text is kept.
func TestTypingGoesOnWhileTheLabPlays(t *testing.T) {
	b := open(t, browser(t), serveLab(t))
	b.until(ready)
	eval[any](b, with(answersLate, "play"))
	b.typeScenario("members 1 2 3\nrun 1s\n")
	time.Sleep(time.Second)
	b.typeScenario("members 1 2 3\nrun 1s\ncrash 3\n")
	eval[any](b, "window.answer(), 0")
	time.Sleep(time.Second)
	if got := eval[string](b, "lab.editor.text"); got != "members 1 2 3\nrun 1s\ncrash 3\n" {
		t.Errorf("the text is %q", got)
	}
	b.until("lab.model.trace.includes('3 crashes')")
}

// A member keeps the focus when the picture is drawn for another scenario.
func TestAMemberKeepsTheFocus(t *testing.T) {
	b := open(t, browser(t), serveLab(t))
	b.until(ready)
	eval[any](b, "lab.pause(), lab.seek(500), document.querySelector('.hit[aria-label^=\"Member 5\"]').focus(), 0")
	b.press(kb.Enter)
	b.until("!document.querySelector('#menu').hidden")
	b.clickText("#menu button", "Crash")
	b.until("lab.model.trace.includes('5 crashes')")
	if got := eval[string](b, "document.activeElement.getAttribute('aria-label') ?? document.activeElement.tagName"); !strings.HasPrefix(got, "Member 5") {
		t.Errorf("%s has the focus", got)
	}
}

// A link copied in a tour shows what the page shows, also after a change.
func TestALinkOfAChangedTour(t *testing.T) {
	b := open(t, browser(t), serveLab(t))
	b.size(1280, 900, "light")
	b.until(ready)
	eval[any](b, "lab.tours.begin('2-bully-crash-and-return'), 0")
	b.until("lab.tours.current && document.querySelector('#tour-text').textContent")
	b.click("#share")
	b.until("location.hash === '#tour=2-bully-crash-and-return'")
	eval[any](b, "lab.act('crash 2'), 0")
	b.until("lab.editor.text.includes('crash 2')")
	b.click("#share")
	time.Sleep(300 * time.Millisecond)
	if got := eval[string](b, "location.hash"); !strings.HasPrefix(got, "#s=") {
		t.Errorf("the link is %s", got)
	}
}

// The other language has the same scenario.
func TestALanguageKeepsTheScenario(t *testing.T) {
	b := open(t, browser(t), serveLab(t))
	b.until(ready)
	b.typeScenario("members 1 2 3\nrun 7s\n")
	b.until("lab.model.elapsed === 7000")
	eval[any](b, "lab.pause(), lab.seek(1234), 0")
	b.click("#lang")
	b.until("document.documentElement.lang === 'es' && " + ready)
	if got := eval[string](b, "lab.editor.text + lab.now"); got != "members 1 2 3\nrun 7s\n1234" {
		t.Errorf("the page shows %q", got)
	}
	b.click("#lang")
	b.until("document.documentElement.lang === 'en' && " + ready)
}

// A link that cannot be read is reported.
func TestABrokenLinkIsReported(t *testing.T) {
	address := serveLab(t)
	for _, hash := range []string{"s=AAAA&t=1", "s=%21", "tour=none", "exercise=none&seed=1", "superpeers=none", "incident=none.json"} {
		b := open(t, browser(t), address+"#"+hash, "status of 404")
		b.until(ready)
		time.Sleep(300 * time.Millisecond)
		if eval[string](b, "document.querySelector('#state').textContent") == "" {
			t.Errorf("%s is silently another scenario", hash)
		}
	}
}

// A link is not called copied when it was not.
func TestALinkThatIsNotCopied(t *testing.T) {
	b := open(t, browser(t), serveLab(t))
	b.until(ready)
	eval[any](b, "Object.defineProperty(navigator, 'clipboard', { value: undefined }), 0")
	b.click("#share")
	b.until("location.hash.startsWith('#s=') && document.querySelector('#state').textContent")
	if got := eval[string](b, "document.querySelector('#state').textContent"); got == "Link copied" {
		t.Error(got)
	}
}
