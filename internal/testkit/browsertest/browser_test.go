// Package browsertest looks at batuta's pages in a real browser.
package browsertest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// chromium finds the browser. CI may not do without.
func chromium(t *testing.T) string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("BATUTA_TEST_NETNS") == "1" {
		t.Fatal("there is no Chromium: apt-get install chromium")
	}
	t.Skip("there is no Chromium on this machine")
	return ""
}

// tab is a page that is open, and what went wrong in it.
type tab struct {
	*testing.T
	ctx       context.Context
	allocator context.Context
	origin    string

	mu     sync.Mutex
	faults []string
}

// shared is the one Chromium of all tests, until the last of them has ended.
var shared struct {
	ctx context.Context
	end context.CancelFunc
}

// browser starts Chromium, once; each page that a test opens is a tab.
func browser(t *testing.T) context.Context {
	t.Helper()
	path := chromium(t)
	if shared.ctx != nil && shared.ctx.Err() == nil {
		return shared.ctx
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Flag("disable-gpu", true), chromedp.Flag("force-color-profile", "srgb"), chromedp.WSURLReadTimeout(time.Minute))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, _ := chromedp.NewContext(allocator, chromedp.WithErrorf(func(string, ...any) {}), // of events that it does not know
		chromedp.WithBrowserOption(chromedp.WithDialTimeout(time.Minute)))
	if err := chromedp.Run(ctx); err != nil {
		end()
		t.Fatal(err)
	}
	shared.ctx, shared.end = ctx, end
	return ctx
}

// open shows a page of origin; any console error and any request to elsewhere is a fault.
func open(t *testing.T, allocator context.Context, address string, quiet ...string) *tab {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 8*time.Minute) // the machine may be busy
	t.Cleanup(cancel)
	b := &tab{T: t, ctx: ctx, allocator: allocator, origin: u.Scheme + "://" + u.Host}
	chromedp.ListenTarget(ctx, b.listen)
	t.Cleanup(func() { b.clean(quiet...) })
	b.do(network.Enable(), log.Enable(), chromedp.Navigate(address))
	return b
}

func (b *tab) listen(ev any) {
	switch ev := ev.(type) {
	case *runtime.EventExceptionThrown:
		b.fault("an exception: %v", ev.ExceptionDetails)
	case *runtime.EventConsoleAPICalled:
		if ev.Type == runtime.APITypeError || ev.Type == runtime.APITypeAssert {
			b.fault("console: %s", arguments(ev.Args))
		}
	case *log.EventEntryAdded:
		if ev.Entry.Level == log.LevelError {
			b.fault("log: %s %s", ev.Entry.Text, ev.Entry.URL)
		}
	case *network.EventRequestWillBeSent:
		if at := ev.Request.URL; !strings.HasPrefix(at, b.origin+"/") && !strings.HasPrefix(at, "data:") && !strings.HasPrefix(at, "blob:"+b.origin) {
			b.fault("it asks another host: %s", at)
		}
	}
}

func arguments(args []*runtime.RemoteObject) string {
	var words []string
	for _, a := range args {
		words = append(words, string(a.Value)+a.Description)
	}
	return strings.Join(words, " ")
}

func (b *tab) fault(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, fmt.Sprintf(format, args...))
}

// clean fails the test for what went wrong in the page, but for what a test brings about.
func (b *tab) clean(quiet ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
faults:
	for _, f := range b.faults {
		for _, q := range quiet {
			if strings.Contains(f, q) {
				continue faults
			}
		}
		b.Errorf("the page: %s", f)
	}
}

func (b *tab) do(actions ...chromedp.Action) {
	b.Helper()
	if err := chromedp.Run(b.ctx, actions...); err != nil {
		b.Fatal(err)
	}
}

// eval gives what a script in the page comes to, a promise's value too.
func eval[T any](b *tab, script string) (v T) {
	b.Helper()
	v, err := try[T](b, script)
	if err != nil {
		b.Fatalf("%s: %v", script, err)
	}
	return v
}

func try[T any](b *tab, script string) (v T, err error) {
	await := func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
	err = chromedp.Run(b.ctx, chromedp.Evaluate(script, &v, await))
	return v, err
}

// until waits for a script to give true. A script fails while a page replaces another.
func (b *tab) until(script string) {
	b.Helper()
	var ok bool
	var err error
	for began := time.Now(); time.Since(began) < time.Minute && b.ctx.Err() == nil; {
		if ok, err = try[bool](b, "Boolean("+script+")"); ok && err == nil {
			return
		}
		time.Sleep(15 * time.Millisecond)
	}
	b.Fatalf("it never came to be: %s: %v; the page says: %s", script, err, eval[string](b, "document.body.innerText.replace(/\\s+/g, ' ').slice(0, 600)"))
}

// reloadAfter loads the page again, after a script that runs in it first.
func (b *tab) reloadAfter(script string) {
	b.Helper()
	b.do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(script).Do(ctx)
		return err
	}), chromedp.Reload())
}

// size sets the window, which is touched if it is a phone's, and whether the user likes it dark.
func (b *tab) size(width, height int64, scheme string) {
	b.Helper()
	b.do(emulation.SetDeviceMetricsOverride(width, height, 1, false), emulation.SetTouchEmulationEnabled(min(width, height) < 600),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
}

// shoot keeps a picture of the page where BATUTA_SHOTS says, if it does.
func (b *tab) shoot(name string) {
	b.Helper()
	dir := os.Getenv("BATUTA_SHOTS")
	if dir == "" {
		return
	}
	var shot []byte
	b.do(chromedp.Sleep(250*time.Millisecond), chromedp.ActionFunc(func(ctx context.Context) (err error) {
		shot, err = page.CaptureScreenshot().WithCaptureBeyondViewport(false).Do(ctx)
		return err
	}))
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(dir+"/"+name+".png", shot, 0o644)); err != nil {
		b.Fatal(err)
	}
}

// click clicks the one thing that a selector finds, where it is seen.
func (b *tab) click(selector string) {
	b.Helper()
	b.until(with("q => document.querySelector(q)", selector))
	b.do(chromedp.ScrollIntoView(selector, chromedp.ByQuery), chromedp.Click(selector, chromedp.ByQuery))
}

// clickText clicks the first of what a selector finds that says exactly this.
func (b *tab) clickText(selector, words string) {
	b.Helper()
	if !eval[bool](b, with("(q, w) => { const el = [...document.querySelectorAll(q)].find(x => x.textContent.trim() === w); el?.click(); return Boolean(el) }", selector, words)) {
		b.Fatalf("no %s says %q", selector, words)
	}
}

// typeScenario puts a text into the lab's editor as typing does.
func (b *tab) typeScenario(text string) {
	b.Helper()
	eval[any](b, with("text => { const area = document.querySelector('#text'); area.value = text; area.dispatchEvent(new Event('input')); return 0 }", text))
}

//go:embed testdata/axe/axe.min.js
var axe string

// accessible fails for what axe finds.
func (b *tab) accessible(state string) {
	b.Helper()
	eval[any](b, axe+"; 0")
	found := eval[[]string](b, `axe.run(document, {resultTypes: ['violations']}).then(r => r.violations
		.map(v => v.id + ': ' + v.help + ': ' + v.nodes.slice(0, 4).map(n => n.html.slice(0, 140) + ' ' + n.any.map(a => a.message).join('; ').slice(0, 200)).join(' | ')))`)
	for _, f := range found {
		b.Errorf("%s: %s", state, f)
	}
}

// press presses keys, one after the other.
func (b *tab) press(keys ...string) {
	b.Helper()
	for _, key := range keys {
		b.do(chromedp.KeyEvent(key))
	}
}

// choose goes to an element by Tab and presses Enter there; then comes to be true.
func (b *tab) choose(is, then string) {
	b.Helper()
	b.tabTo(is)
	b.press(kb.Enter)
	b.until(then)
}

// tabTo presses Tab until a script is true of the element that has the focus.
func (b *tab) tabTo(is string) {
	b.Helper()
	for range 120 {
		if eval[bool](b, "(el => Boolean("+is+"))(document.activeElement)") {
			return
		}
		b.press(kb.Tab)
	}
	b.Fatalf("Tab never comes to: %s", is)
}
