package browsertest

import (
	"testing"
	"time"
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
