package browsertest

import (
	"compress/flate"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
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
	b.until("location.hash.startsWith('#s=')")
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

// The other language needs no storage.
func TestALanguageWithoutStorage(t *testing.T) {
	b := open(t, browser(t), serveLab(t)+"?lang=en")
	b.reloadAfter("Object.defineProperty(window, 'localStorage', { get() { throw new Error('no storage') } })")
	for _, lang := range []string{"en", "es", "en"} {
		b.until("document.documentElement.lang === '" + lang + "' && " + ready)
		b.click("#lang")
	}
	b.until("document.documentElement.lang === 'es' && " + ready)
}

// A link that cannot be read is reported.
func TestABrokenLinkIsReported(t *testing.T) {
	address := serveLab(t)
	for _, hash := range []string{"s=AAAA&t=1", "s=%21", "tour=none", "exercise=none&seed=1", "superpeers=none", "incident=none.json"} {
		b := open(t, browser(t), address+"#"+hash, "status of 404")
		b.until(ready)
		if eval[string](b, "document.querySelector('#state').textContent") == "" {
			t.Errorf("%s is silently another scenario", hash)
		}
	}
}

// A link is not called copied when it was not.
func TestALinkThatIsNotCopied(t *testing.T) {
	b := open(t, browser(t), serveLab(t))
	b.until(ready)
	eval[any](b, "window.said = [], lab.say = words => said.push(words), Object.defineProperty(navigator, 'clipboard', { value: undefined }), 0")
	b.click("#share")
	b.until("said.length")
	if got := eval[string](b, "said[0] + location.hash"); !strings.HasPrefix(got, "The link is in the address bar#s=") {
		t.Error(got)
	}
}

// The arrow keys of the log begin where the page is.
func TestTheLogsArrowsBeginAtThePresent(t *testing.T) {
	b := open(t, browser(t), serveLab(t))
	b.until(ready)
	eval[any](b, "lab.pause(), lab.seek(Infinity), document.querySelector('#log').focus(), 0")
	b.until("lab.frame === null")
	b.press(kb.ArrowUp, kb.ArrowUp, kb.ArrowUp, kb.ArrowUp)
	first := eval[int](b, "lab.model.events.indexOf(lab.picked.event) - lab.model.events.length")
	eval[any](b, "lab.seek(Infinity), document.querySelector('#log').focus(), 0")
	b.until("lab.frame === null")
	b.press(kb.ArrowUp)
	if got := eval[int](b, "lab.model.events.indexOf(lab.picked.event) - lab.model.events.length"); got != -1 {
		t.Errorf("from the end, after %d: %d", first, got)
	}
}

// A finger that begins to scroll the page does not go on to move the diagram.
func TestAScrollEndsADrag(t *testing.T) {
	b := open(t, browser(t), serveLab(t))
	b.until(ready + " && lab.spacetime.now >= 0")
	eval[any](b, `lab.pause(), (canvas => {
		canvas.setPointerCapture = () => {}
		const fire = (type, x) => canvas.dispatchEvent(new PointerEvent(type, { clientX: x, clientY: canvas.getBoundingClientRect().top + 5, pointerId: 1, pointerType: 'touch', bubbles: true }))
		fire('pointerdown', 300); fire('pointercancel', 300); fire('pointermove', 400)
	})(document.querySelector('#spacetime')), 0`)
	if shift := eval[float64](b, "lab.spacetime.shift"); shift != 0 {
		t.Errorf("the diagram has moved by %v ms", shift)
	}
}

// The next request retries a simulator that could not be fetched.
func TestAFailedSimulatorIsRetried(t *testing.T) {
	at, err := url.Parse(serveLab(t))
	if err != nil {
		t.Fatal(err)
	}
	var failed atomic.Bool
	proxy := httputil.NewSingleHostReverseProxy(at)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "lab.wasm.gz") && failed.CompareAndSwap(false, true) {
			w.Header().Set("Content-Length", "2000000")
			_, _ = w.Write(make([]byte, 1000)) // and the connection ends
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	b := open(t, browser(t), front.URL+"/", "ERR_CONTENT_LENGTH", "ERR_INCOMPLETE")
	b.until("document.querySelector('#state').textContent.startsWith('The simulator could not be loaded')")
	if eval[bool](b, "document.querySelector('#loading').checkVisibility()") {
		t.Error("the bar of what loads is shown")
	}
	b.typeScenario("members 1 2 3\nrun 1s\n")
	b.until("lab.model")
	if eval[string](b, "document.querySelector('#algorithm').value + document.querySelector('#language').textContent.slice(0, 1)") == "" {
		t.Error("the settings are empty")
	}
}

// Soaking reports that it failed, and is over.
func TestAFailedSoakIsShown(t *testing.T) {
	b := labPressed(t, "#soak-open")
	eval[any](b, "window.Worker = class { postMessage() { setTimeout(() => this.onerror({ message: 'no simulator' })) } terminate() {} }, 0")
	b.click("#soak-run")
	b.until("document.querySelector('#soak-result').textContent.includes('no simulator') && document.querySelector('#soak-run').textContent !== 'Stop'")
}

// Exploring reports that it failed.
func TestAFailedExplorationIsShown(t *testing.T) {
	b := labPressed(t, "#explore-open")
	eval[any](b, "window.Worker = class { postMessage() { setTimeout(() => this.onerror({ message: 'no simulator' })) } terminate() {} }, 0")
	b.click("#explore-run")
	b.until("document.querySelector('#explore-result').textContent.includes('no simulator')")
}

// A schedule opens as it was played, though the lab shows another cluster by now.
func TestASoakedSeedOpensAsPlayed(t *testing.T) {
	b := labPressed(t, "#soak-open")
	b.click("#soak-run")
	b.until("document.querySelector('#soak-seeds button')")
	b.click("#soak-close")
	eval[any](b, "lab.load('members 1 2 3\\nalgorithm ring\\nrun 1s\\n', { at: 0 }), 0")
	b.until("lab.model.algorithm === 'ring'")
	b.click("#soak-open")
	b.until("document.querySelector('#soak').open")
	b.click("#soak-seeds button")
	b.until("!document.querySelector('#soak').open && lab.model.elapsed !== 1000")
	if got := eval[string](b, "lab.model.algorithm"); got != "bully" {
		t.Errorf("the schedule of bully is opened as one of %s", got)
	}
}

// A field without a seed opens none.
func TestAFieldWithoutASeed(t *testing.T) {
	b := labPressed(t, "#soak-open")
	eval[any](b, "document.querySelector('#soak-seed').value = '', document.querySelector('#soak-seed-open').click(), 0")
	time.Sleep(500 * time.Millisecond)
	if got := eval[string](b, "document.querySelector('#soak-result').textContent"); got != "" {
		t.Errorf("%q", got)
	}
}

// An exploration that is begun while another ends is the only one, and a way that is clicked twice is taken once.
func TestExplorationsDoNotMix(t *testing.T) {
	b := labPressed(t, "#explore-open")
	eval[any](b, `import('./simulator.js').then(({ Simulator }) => {
		const simulator = lab.explorer.simulator = new Simulator(), ask = simulator.ask.bind(simulator)
		let late = new Promise(done => { window.answer = done })
		simulator.ask = async (call, ...args) => { const value = await ask(call, ...args); if (call === 'exploreGrow') { window.grown = true; await late } return value }
		document.querySelector('#explore-run').click()
	}), 0`)
	b.until("window.grown")
	eval[any](b, "(run => { run.click(); document.querySelector('#explore-nodes').value = 2; run.click(); window.answer() })(document.querySelector('#explore-run')), 0")
	b.until("lab.explorer.path.length && !lab.explorer.running && document.querySelector('#explore-map .dot')")
	time.Sleep(500 * time.Millisecond)
	const way = "lab.explorer.path.map(p => p.place.members.length).join()"
	if got := eval[string](b, way); got != "2" {
		t.Errorf("the way is of states with so many members: %s", got)
	}
	eval[any](b, "(way => { way.click(); way.click() })(document.querySelector('#explore-ways button')), 0")
	b.until("lab.explorer.path.length > 1")
	time.Sleep(500 * time.Millisecond)
	if got := eval[string](b, way); got != "2,2" {
		t.Errorf("after a double click the way is of states with so many members: %s", got)
	}
}

// A run of super peers is whole, although its dialog was closed meanwhile.
func TestSuperpeersAfterAClose(t *testing.T) {
	b := labPressed(t, "#super-open")
	b.until("lab.superpeers.rounds.length > 1")
	b.click("#super-close")
	b.click("#super-open")
	b.until("document.querySelector('#super').open && lab.superpeers.rounds.length === 120")
}

// A run that the form begins ends a tour: its text is of another run.
func TestAnotherRunEndsATourOfSuperpeers(t *testing.T) {
	b := open(t, browser(t), serveLab(t)+"#superpeers=repulsion")
	b.until("window.lab?.superpeers?.tour && document.querySelector('#super-said').textContent")
	eval[any](b, "document.querySelector('#super-nodes').value = 100, document.querySelector('#super-form button').click(), 0")
	b.until("lab.superpeers.rounds[0]?.nodes.length === 300")
	if eval[bool](b, "document.querySelector('#super-told').checkVisibility()") {
		t.Errorf("100 nodes, but the text is %q", eval[string](b, "document.querySelector('#super-said').textContent"))
	}
}

// Ids that are as long as can be, and of any script, fit a screen of 320 px.
func TestAnyIDFitsASmallScreen(t *testing.T) {
	b := open(t, browser(t), serveLab(t)+"?lang=es")
	b.size(320, 600, "light")
	b.until(ready)
	b.fits("320")
	eval[any](b, "lab.load('members aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa2 שלום 🦊\\nrun 1s\\ncrash aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa2\\nrun 2s\\n', { at: 1500 }), 0")
	b.until("lab.model.members.length === 4")
	b.fits("long ids")
	eval[any](b, "lab.pick({ event: lab.model.events.find(e => e.peer), at: 1500 }), 0")
	for _, wide := range eval[[]string](b, "[...document.querySelectorAll('#log li > *, #why li > *')].filter(x => x.getBoundingClientRect().right > innerWidth).slice(0, 3).map(x => x.textContent)") {
		t.Errorf("this does not fit: %s", wide)
	}
	eval[any](b, "document.querySelector('.hit').dispatchEvent(new MouseEvent('click', { bubbles: true, clientX: 100, clientY: 100 })), 0")
	b.until("!document.querySelector('#menu').hidden")
	if over := eval[float64](b, "document.querySelector('#menu').getBoundingClientRect().right - innerWidth"); over > 0 {
		t.Errorf("the menu is %v px wider", over)
	}
	b.fits("menu")
}

// A scenario that takes minutes to play does not keep the next one waiting.
func TestALongScenarioIsLeft(t *testing.T) {
	b := open(t, browser(t), serveLab(t))
	b.until(ready)
	b.typeScenario("members 1..50\nrun 23h\n")
	b.until("lab.open")
	b.typeScenario("members 1 2 3\nrun 1234ms\n")
	b.until("lab.model.elapsed === 1234")
}

// A link copied in a tour, and the other language, have its stop.
func TestALinkOfAStop(t *testing.T) {
	b := open(t, browser(t), serveLab(t)+"#tour=2-bully-crash-and-return")
	b.size(1280, 900, "light")
	b.until("window.lab?.tours.current && document.querySelector('#tour-text').textContent")
	eval[any](b, "lab.tours.go(2), 0")
	at := eval[float64](b, "lab.now")
	b.click("#lang")
	b.until("document.documentElement.lang === 'es' && window.lab?.tours.current && document.querySelector('#tour-text').textContent")
	if got := eval[string](b, "lab.tours.stop + ' ' + lab.now"); got != fmt.Sprint(2, " ", at) {
		t.Errorf("stop and moment are %s, want those of stop 2: %v", got, at)
	}
	b.click("#lang")
	b.until("document.documentElement.lang === 'en' && window.lab?.tours.stop === 2")
}

// The link to the picture leaves the address as it is.
func TestSkippingKeepsTheAddress(t *testing.T) {
	b := open(t, browser(t), serveLab(t)+"#exercise=bully&seed=7")
	b.until("window.lab?.tours.current && document.querySelector('#tour-text').textContent")
	eval[any](b, "document.querySelector('.skip').focus(), 0")
	b.press(kb.Enter)
	b.until("document.activeElement.id === 'stage'")
	if got := eval[string](b, "location.hash"); got != "#exercise=bully&seed=7" {
		t.Error(got)
	}
}

// The address is that of the stop that is shown: a reload continues there, and Back returns to the page before.
func TestTheAddressIsOfTheStop(t *testing.T) {
	b := open(t, browser(t), serveLab(t))
	b.until(ready)
	eval[any](b, "location.hash = 'tour=2-bully-crash-and-return&stop=2', 0")
	b.until("window.lab?.tours.stop === 1")
	eval[any](b, "lab.tours.go(3), 0")
	b.do(chromedp.Reload())
	b.until("window.lab?.tours.stop === 3")
	eval[any](b, "(x => { x.value = '5-partition'; x.dispatchEvent(new Event('change')) })(document.querySelector('#tours')), 0")
	b.until("lab.tours.current?.name === '5-partition'")
	if got := eval[string](b, "location.hash"); got != "#tour=5-partition" {
		t.Errorf("another tour is at %s", got)
	}
	eval[any](b, "history.back(), 0")
	b.until(ready + " && location.hash === '' && window.lab && !lab.tours.current")
}

// An incident that is cut off, or of another form, is refused in the page's language.
func TestABrokenIncidentIsRefused(t *testing.T) {
	b := open(t, browser(t), serveLab(t)+"?lang=es")
	b.until(ready)
	for _, text := range []string{
		`{"batuta":"incident","status":{"elec`, `[]`, `{"batuta":"incident","members":[]}`, `{"batuta":"incident","status":{"election":"e"},"members":[]}`,
		`{"batuta":"incident","status":{"election":"e"},"members":[null]}`, `{"batuta":"incident","status":{"election":"e"},"members":[{"id":"1","history":{}}]}`,
	} {
		if got := eval[string](b, with("text => { lab.say(''); lab.incident(text); return document.querySelector('#state').textContent }", text)); !strings.HasPrefix(got, "Este archivo no es un incidente") {
			t.Errorf("%s: %q", text, got)
		}
	}
}

// An arrow from one id to another points the same way in every script.
func TestAnArrowBetweenIDsOfHebrew(t *testing.T) {
	b := open(t, browser(t), serveLab(t))
	b.until(ready)
	eval[any](b, "lab.load('members אב גד\\nrun 1s\\n', { at: 0 }), 0")
	b.until("lab.model.members.length === 2")
	eval[any](b, "document.querySelector('.grip').dispatchEvent(new MouseEvent('click', { bubbles: true, clientX: 100, clientY: 100 })), 0")
	b.until("!document.querySelector('#menu').hidden")
	const left = `(text => {
		const word = document.createRange(), left = id => { word.setStart(text, text.data.indexOf(id)); word.setEnd(text, word.startOffset + 2); return word.getBoundingClientRect().left }
		return left('אב') < left('גד')
	})([...document.querySelectorAll('#menu button')].find(x => /אב.*→.*גד/.test(x.textContent)).firstChild)`
	if !eval[bool](b, left) {
		t.Error("the arrow points from the second id to the first")
	}
}

// After a prediction, and after a tour, the keyboard is where the reader is.
func TestATourKeepsTheFocus(t *testing.T) {
	b := open(t, browser(t), serveLab(t)+"#exercise=bully&seed=7")
	b.until(ready + " && lab.tours.current")
	eval[any](b, "lab.tours.go(1), 0")
	b.answer("5", "2", "12")
	eval[any](b, "document.querySelector('#predict button').focus(), 0")
	b.press(kb.Enter)
	b.until("document.activeElement.id === 'tour-next' && lab.playing")
	b.press(kb.Enter) // no patience
	b.until("lab.tours.stop === 2 && document.activeElement.id === 'tour-next'")
	b.press(kb.Enter)
	b.until("document.querySelector('#tour').hidden && document.activeElement.id === 'stage'")
	for _, field := range []string{"Speed #pace", "Seed #seed"} {
		name, selector, _ := strings.Cut(field, " ")
		var node struct {
			Nodes []struct {
				Name struct {
					Value string `json:"value"`
				} `json:"name"`
			} `json:"nodes"`
		}
		b.do(chromedp.QueryAfter(selector, func(ctx context.Context, _ runtime.ExecutionContextID, found ...*cdp.Node) error {
			return cdp.Execute(ctx, "Accessibility.getPartialAXTree", map[string]any{"backendNodeId": found[0].BackendNodeID, "fetchRelatives": false}, &node)
		}, chromedp.ByQuery))
		if len(node.Nodes) != 1 || node.Nodes[0].Name.Value != name {
			t.Errorf("%s has the names %v", selector, node.Nodes)
		}
	}
}

// A page that is opened in the middle of an election draws its labels in their place: an error of the console fails the test.
func TestALinkIntoAnElection(t *testing.T) {
	b := open(t, browser(t), serveLab(t)+"#s=HMfBCcAgDAXQe6bIBBIrDmRtUMFYyLeHbl_o8ZnaqQ6OIWShMtvtY3djH6sRVC9ONMvWVV-OYuAkBvJn8QGqXtA5y-8E-gIAAP__&t=2500") // 50 members of a ring, whose leader has crashed
	b.until(ready + " && lab.now === 2500 && lab.frame === null")
}

// A short link may expand to more than a page can hold.
func TestALinkThatExpandsTooFar(t *testing.T) {
	var packed strings.Builder
	code := base64.NewEncoder(base64.RawURLEncoding, &packed)
	deflate, err := flate.NewWriter(code, flate.BestSpeed)
	for line := []byte(strings.Repeat("#", 1<<20) + "\n"); err == nil && packed.Len() < 400<<10; {
		_, err = deflate.Write(line)
	}
	if err := errors.Join(err, deflate.Close(), code.Close()); err != nil {
		t.Fatal(err)
	}
	for lang, says := range map[string]string{"en": "longer than 1 MiB", "es": "más de 1 MiB"} {
		b := open(t, browser(t), serveLab(t)+"?lang="+lang+"#s="+packed.String())
		b.until(ready + fmt.Sprintf(" && document.querySelector('#state').textContent.includes(%q)", says))
	}
}

// The page writes no link that it could not open. It can open what it writes, also a large one.
func TestALinkThatWouldBeTooLong(t *testing.T) {
	b := open(t, browser(t), serveLab(t))
	b.until(ready)
	eval[any](b, "lab.load('# ' + 'x'.repeat(1 << 20) + '\\n' + lab.editor.text, { play: false }), 0")
	b.until("lab.editor.text.length > 1 << 20 && lab.model")
	for _, button := range []string{"#share", "#lang"} {
		eval[any](b, "lab.say(''), 0")
		b.click(button)
		b.until("document.querySelector('#state').textContent.includes('No link was written') && location.hash === ''")
	}
	eval[any](b, `lab.load('# ' + Array.from({ length: 9e5 }, (_, i) => String.fromCharCode(33 + i * i * 7 % 89)).sort(() => Math.random() - .5).join('') + '\n' + lab.editor.text.split('\n').slice(1).join('\n'), { play: false }), 0`)
	b.until("lab.editor.text.length < 1 << 20 && lab.editor.text.length > 9e5 && lab.model")
	b.click("#share")
	b.until("location.hash.length > 2e5")
}

// The keyboard walks from state to state of the explorer.
func TestExploringByKeyboard(t *testing.T) {
	b := labPressed(t, "#explore-open")
	b.click("#explore-run")
	b.until("lab.explorer.path.length && !lab.explorer.running")
	eval[any](b, "document.querySelector('#explore-ways button').focus(), 0")
	for length := 2; eval[bool](b, "!document.querySelector('#explore-none').textContent"); length++ {
		b.press(kb.Enter)
		b.until(fmt.Sprintf("lab.explorer.path.length === %d", length))
	}
	b.until("document.activeElement.id === 'explore-script'")
}
