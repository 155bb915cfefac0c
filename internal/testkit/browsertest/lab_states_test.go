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
