package browsertest

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/disk/datadir"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
)

// screens are what the pages are looked at on.
var screens = []struct {
	name          string
	width, height int64
}{{"360", 360, 780}, {"1280", 1280, 900}, {"2560", 2560, 1440}}

// fits fails if the page is wider than the screen.
func (b *tab) fits(state string) {
	b.Helper()
	if over := eval[int](b, "Math.max(document.documentElement.scrollWidth - innerWidth, ...[...document.querySelectorAll('dialog[open]')].map(x => x.scrollWidth - x.clientWidth))"); over > 0 {
		b.Errorf("%s: the page is %d px wider than the screen: %s", state, over,
			eval[string](b, "[...document.querySelectorAll('main *')].filter(x => x.getBoundingClientRect().right > innerWidth + 1 && !x.closest('.scroll, .editor, svg, pre, .canvas, .band')).slice(0, 3).map(x => x.outerHTML.slice(0, 90)).join(' ')"))
	}
}

// legible fails if a text of a picture is too small to be read.
func (b *tab) legible(state string) {
	b.Helper()
	small := eval[[]string](b, `[...document.querySelectorAll('main svg text')].filter(x => x.checkVisibility() && x.textContent).map(x => [parseFloat(getComputedStyle(x).fontSize) * x.getScreenCTM().a, x])
		.filter(([px]) => px < 8).slice(0, 3).map(([px, x]) => px.toFixed(1) + ' px: ' + x.outerHTML.slice(0, 90))`)
	for _, s := range small {
		b.Errorf("%s: %s", state, s)
	}
}

// small is a script that gives the controls that are too small for a finger, under 40 px wide or high. The label of a
// checkbox counts as part of it.
const small = `[...document.querySelectorAll('button, select, input, textarea, summary, [role=button]')].map(x => x.closest('label.check') ?? x)
	.filter(x => x.checkVisibility({ visibilityProperty: true }) && !x.closest('dialog:not([open])')).map(x => [x, x.getBoundingClientRect()])
	.filter(([, r]) => r.width && (r.width < 40 || r.height < 40)).slice(0, 5)
	.map(([x, r]) => (x.id || x.getAttribute('aria-label') || x.textContent).slice(0, 30) + ': ' + Math.round(r.width) + ' x ' + Math.round(r.height) + ' px')`

// fingers fails if a control of a phone's screen is too small to be touched.
func (b *tab) fingers(state string) {
	b.Helper()
	if !eval[bool](b, "matchMedia('(pointer: coarse)').matches") {
		if eval[int](b, "innerWidth") < 600 {
			b.Errorf("%s: a phone's screen without touch", state)
		}
		return
	}
	for _, s := range eval[[]string](b, small) {
		b.Errorf("%s: too small for a finger: %s", state, s)
	}
}

// everywhere looks at a page on every screen, light and dark.
func (b *tab) everywhere(page string) {
	b.Helper()
	for _, s := range screens {
		for _, scheme := range []string{"light", "dark"} {
			state := fmt.Sprintf("%s-%s-%s", page, s.name, scheme)
			b.size(s.width, s.height, scheme)
			b.shoot(state)
			b.fits(state)
			b.legible(state)
			b.fingers(state)
			if s.name == "360" || s.name == "1280" {
				b.accessible(state)
			}
		}
	}
}

// inSpanish looks at the page of another language, whose words are longer, on the smallest screen.
func (b *tab) inSpanish(address, shown, name string) {
	b.Helper()
	b.do(chromedp.Navigate(address + "?lang=es"))
	b.until("document.documentElement.lang === 'es' && (" + shown + ")")
	b.size(screens[0].width, screens[0].height, "light")
	b.shoot(name)
	b.fits(name)
	b.legible(name)
	b.fingers(name)
}

// crossing is a script that gives the labels of a picture that lie upon each other.
const crossing = `[...document.querySelectorAll('#picture text')].filter(x => x.checkVisibility()).map(x => [x.textContent, x.getBoundingClientRect()]).flatMap(([a, p], i, all) => all.slice(i + 1)
	.filter(([, q]) => p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 3 && q.top < p.bottom - 3).map(([b]) => a + ' upon ' + b))`

// On a phone the labels of twenty members do not cover each other, and long ids that begin or end alike differ.
func TestManyMembersOnAPhone(t *testing.T) {
	b := open(t, browser(t), "http://"+cluster(t, "1")["1"].http+"/?lang=es")
	b.size(360, 740, "light")
	b.until(leaderIs + "'1'")
	for _, ids := range []string{"String(10 + i)", "'0193a5e2-7c1d-7e4f-8a55-' + (10 + i)", "'db-prod-' + (1 + i) + '.example.com'"} {
		b.do(chromedp.Evaluate(`import('./ui/picture.js').then(({ draw }) => {
			const id = i => `+ids+`, members = Array.from({ length: 20 }, (_, i) => ({ id: id(i), state: i === 10 ? 'down' : 'up', epoch: 2, standing: 'eligible', address: '' })).reverse()
			draw(document.querySelector('#picture'), { id: id(1), leader: id(19), epoch: 2, since: new Date(), members }, [], 'gold')
		}).then(() => { window.crossing = `+crossing+`; window.shown = [...document.querySelectorAll('#picture .id')].map(x => x.textContent) })`, nil, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
		if strings.HasPrefix(ids, "String") {
			for _, bad := range eval[[]string](b, "window.crossing") {
				t.Error(bad)
			}
		}
		if n := eval[int](b, "new Set(window.shown).size"); n != 20 {
			t.Errorf("20 members have %d ids: %v", n, eval[[]string](b, "window.shown"))
		}
	}
}

// What is in a row on a phone stays in it, the picture is before its legend, and what is wrong with a scenario is in the page's language.
func TestTheLabOnASmallPhone(t *testing.T) {
	b := open(t, browser(t), serveLab(t)+"?lang=es")
	b.size(360, 740, "light")
	b.until(ready)
	eval[any](b, "lab.load('members node-eu-west-1a node-eu-west-1b node-eu-west-1c\\nrun 1s\\n', { at: 0 }), 0")
	b.until("new Set([...document.querySelectorAll('#circle .id')].map(x => x.textContent)).size === 3 && document.querySelector('#circle .id').textContent.length < 10")
	for what, is := range map[string]string{
		"the buttons of the run are in one row":      "new Set([...document.querySelectorAll('.transport .buttons button:not(#more)')].map(x => Math.round(x.getBoundingClientRect().top))).size === 1",
		"the name of the page is on one line":        "document.querySelector('.brand').offsetHeight < 40",
		"the head of the diagram is on one line":     "new Set([...document.querySelectorAll('.spacetime .bar button')].map(x => x.offsetTop)).size === 1",
		"the diagram is before its legend":           "document.querySelector('#spacetime').getBoundingClientRect().top < document.querySelector('#legend').getBoundingClientRect().top",
		"keys are not explained where there is none": "!document.querySelector('[data-t=keys]').checkVisibility()",
	} {
		if !eval[bool](b, is) {
			t.Errorf("it is not so that %s", what)
		}
	}
	b.typeScenario("members 1 2 3\ncrsh 3\n")
	b.until("document.querySelector('#verdict').textContent.startsWith('Línea 2: se esperaba un paso (add, ')")
	b.typeScenario("members 1 2 3\ncrash\n")
	b.until("document.querySelector('#verdict').textContent === 'Línea 2: se esperaba un miembro, no el fin de la línea'")
	b.typeScenario("members 1 2 3\nrun 5s\nexpect leader 2\n")
	b.until("/^No como se esperaba: 3: \\[5.000s\\] se esperaba leader 2, pero el 1, que está vivo, tiene como líder: 1:3$/.test(document.querySelector('#verdict').textContent)")
	b.typeScenario("members 1 2 3\nlatency 20ms 40ms\nrun 1s\n")
	b.until("document.querySelector('#latency').selectedOptions[0].textContent === '20–40\u00a0ms'")
	eval[any](b, "lab.tours.begin('8-quorum'), 0")
	b.until("lab.tours.current?.name === '8-quorum' && document.querySelector('#tour-next').textContent === 'Siguiente' && !document.querySelector('#tour-end').hidden")
	for _, id := range []string{"present", "algorithm", "undo"} { // the tour's text is over the page
		b.tabTo("el.id === '" + id + "'")
		if !eval[bool](b, "document.activeElement.getBoundingClientRect().bottom <= document.querySelector('#tour').getBoundingClientRect().top") {
			t.Errorf("the tour covers #%s, which has the focus", id)
		}
	}
	eval[any](b, "lab.tours.go(1e9), 0")
	b.until("document.querySelector('#tour-next').textContent === 'Terminar' && document.querySelector('#tour-end').hidden") // the same twice
}

// On every screen, light and dark, the pages fit and nobody is shut out.
func TestTheLabIsForEveryone(t *testing.T) {
	address := serveLab(t)
	b := open(t, browser(t), address)
	b.until(ready)
	eval[any](b, "lab.tours.begin('2-bully-crash-and-return'), 0")
	b.until("lab.tours.current && lab.model.members.length === 5 && !document.querySelector('#tour').hidden && document.querySelector('#tour-text').textContent")
	eval[any](b, "lab.tours.go(2), 0")
	eval[any](b, "lab.pick({event: lab.model.events[lab.model.before(lab.now)], at: lab.now}), 0")
	b.everywhere("lab")
	b.inSpanish(address, ready, "lab-360-es")
}

// state is one that a page comes to by what a user does: a script brings it about, it is there once another gives true,
// and a third ends it.
type state struct{ name, begin, there, end string }

// reached looks at each of a page's states on a phone, light, and on a screen, dark.
func (b *tab) reached(page string, states ...state) {
	b.Helper()
	for _, s := range states {
		for i, screen := range screens[:2] {
			scheme := []string{"light", "dark"}[i]
			name := fmt.Sprintf("%s-%s-%s-%s", page, s.name, screen.name, scheme)
			b.size(screen.width, screen.height, scheme)
			eval[any](b, "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))") // a late resize closes a menu
			eval[any](b, s.begin+", 0")
			b.until(s.there)
			b.shoot(name)
			b.fits(name)
			b.legible(name)
			b.fingers(name)
			b.accessible(name)
			eval[any](b, s.end+", 0")
		}
	}
}

// What a button opens, and what the page shows of a fault, is for everyone too.
func TestEachStateOfTheLabIsForEveryone(t *testing.T) {
	b := open(t, browser(t), serveLab(t))
	b.until(ready)
	eval[any](b, "lab.pause(), lab.seek(1000), 0")
	b.reached("lab",
		state{"member", "document.querySelector(\".hit[aria-label^='Member 2']\").dispatchEvent(new MouseEvent('click', { bubbles: true, clientX: 200, clientY: 200 }))", "!document.querySelector('#menu').hidden", "lab.menu.close()"},
		state{"link", "document.querySelector('.grip').dispatchEvent(new MouseEvent('click', { bubbles: true, clientX: 200, clientY: 200 }))", "document.querySelector('#menu .danger') && !document.querySelector('#menu').hidden", "lab.menu.close()"},
		state{"soak", "document.querySelector('#soak-open').click()", "document.querySelector('#soak').open", "document.querySelector('#soak').close()"},
		state{"soaked", "document.querySelector('#soak-open').click(), document.querySelector('#soak-run').click()", "document.querySelector('#soak-seeds button') && document.querySelector('#soak-progress').value > 0", "document.querySelector('#soak').close()"},
		state{"exploring", "document.querySelector('#explore-open').click(), document.querySelector('#explore-run').click()", "document.querySelectorAll('#explore-ways button').length > 1", "document.querySelector('#explore').close()"},
		state{"shared", "document.querySelector('#share').click(), document.querySelector('.script details').open = true", "document.querySelector('#state').textContent", "history.replaceState(null, '', location.pathname)"},
		state{"no-incident", "lab.incident('{\"batuta\": 1}')", "document.querySelector('#state').textContent.startsWith('This file is no incident')", "lab.say('')"},
		state{"presenting", "lab.present(true)", "document.body.classList.contains('presenting')", "lab.present(false)"},
		state{"presenting-exercise", "lab.present(true), lab.tours.exercise('bully', 7), lab.tours.go(1)", "lab.tours.current?.exercise && (lab.tours.go(1), !document.querySelector('#predict').hidden)", "lab.present(false), lab.tours.end()"},
		state{"fault", "(x => { x.value = 'members 1 2 3\\nrun 1s\\ncrsh 3\\n'; x.dispatchEvent(new Event('input')) })(document.querySelector('#text'))", "document.querySelector('#verdict.bad')", "0"},
	)
}

// So are an agent's questions, a cluster without a leader, and what is folded.
func TestEachStateOfTheDashboardIsForEveryone(t *testing.T) {
	members := clusterOf(t, []string{"--algorithm", "quorum"}, "1", "2", "3")
	b := open(t, browser(t), "http://"+members["3"].http+"/", gone...)
	b.until(leaderIs + "'3'")
	const asked = "document.querySelector('#ask').open"
	asks := func(name string) state {
		return state{name, "document.querySelector('#" + name + "').click()", asked, "document.querySelector('#ask').close()"}
	}
	b.reached("dashboard", asks("cordon"), asks("pause"), // offered under every leader
		state{"remove", "document.querySelector('#rows .danger').click()", asked, "document.querySelector('#ask').close()"},
		state{"unfolded", "document.querySelectorAll('details').forEach(x => x.open = true)", "document.querySelector('#messages tbody tr')", "0"})
	members["1"].kill()
	members["2"].kill()
	b.until(leaderIs + "'No leader'")
	b.reached("dashboard", state{"nobody", "0", "document.querySelector('#rows .state:is(.down, .unreachable)') && document.querySelector('#gathered').textContent", "0"})
}

func TestTheDashboardIsForEveryone(t *testing.T) {
	members := cluster(t, "1", "2", "3", "4", "5")
	b := open(t, browser(t), "http://"+members["2"].http+"/", "status of 4")
	b.until(leaderIs + "'5'")
	members["5"].kill()
	b.until(leaderIs + "'4'")
	b.until("[...document.querySelectorAll('#facts div')].some(x => x.textContent === 'The leader’s workserves')")
	b.everywhere("dashboard")
	b.click("#add")
	b.until("document.querySelector('#ask').open")
	b.accessible("the dashboard's question")
	b.inSpanish("http://"+members["2"].http+"/", leaderIs+"'4'", "dashboard-360-es")
	if rows := eval[int](b, "new Set([...document.querySelectorAll('header.top > *')].filter(x => x.offsetHeight).map(x => (r => Math.round((r.top + r.bottom) / 24))(x.getBoundingClientRect()))).size"); rows > 2 || eval[bool](b, "document.querySelector('.brand').offsetHeight > 40") {
		t.Errorf("on a phone what is on top of the page is in %d rows", rows)
	}
	b.until("document.querySelector('#span').textContent.startsWith('según 1, 2, 3, 4,')")
	b.click("#add")
	b.until("document.querySelector('#ask').open")
	eval[any](b, "document.querySelector('#ask input[name=id]').value = '6', document.querySelector('#ask input[name=address]').value = 'nonsense', 0")
	b.click("#ask-yes")
	b.until("document.querySelector('#ask-error').textContent.startsWith('No se hizo: el agente ') && document.querySelector('#ask-error [lang=en]').textContent.includes('nonsense')")
	b.shoot("dashboard-360-es-error")
	b.fits("a refusal in Spanish")
}

// On a Spanish page an error is in Spanish too; what others have written, such as the operating system, is quoted there.
func TestErrorsInSpanish(t *testing.T) {
	members := cluster(t, "1", "2", "3")
	b := open(t, browser(t), "http://"+members["2"].http+"/?lang=es")
	b.until(leaderIs + "'3'")
	if err := os.RemoveAll(members["2"].data); err != nil {
		t.Fatal(err)
	}
	members["3"].kill() // 2 is to lead, and cannot save that
	fact := func(name, holds string) {
		t.Helper()
		b.until(with("(name, holds) => [...document.querySelectorAll('#facts div')].some(x => x.firstChild.textContent === name && new RegExp(holds).test(x.lastChild.textContent))", name, holds))
	}
	fact("Disco", "^no se guarda el estado: «open [^»]*: no such file or directory»: se eliminó el directorio de datos: repóngalo, o reinicie el miembro; un quorum debe eliminarlo antes$")
	fact("Candidato", "^no: no puede guardar \\(no se guarda el estado: «open ")
	b.until("document.querySelector('#gathered').textContent === 'Sin historia de 3: su dirección rechaza la conexión.'")
	b.size(screens[0].width, screens[0].height, "light")
	b.shoot("dashboard-360-es-disk")
	b.fits("a disk error in Spanish")

	_, published := api.ParseMetaHTTP("nonsense")
	for given, want := range map[string]string{
		datadir.Remedy(fmt.Errorf("write state: %w", syscall.ENOSPC)).Error(): "«write state: no space left on device»: haga sitio en ese sistema de archivos",
		datadir.Remedy(syscall.EROFS).Error():                                 "«read-only file system»: monte ese sistema de archivos con escritura, y vea en el registro del sistema por qué no la tiene",
		datadir.Remedy(syscall.EACCES).Error():                                "«permission denied»: permita a este usuario leerlo y escribirlo",
		datadir.Remedy(syscall.EIO).Error():                                   "«input/output error»: el disco falla: reemplácelo",
		datadir.Remedy(syscall.EMFILE).Error():                                "«too many open files»: suba el límite de archivos abiertos",
		published.Error():                                                     `publica una API HTTP en "nonsense", que no es http://HOST:PUERTO ni https://HOST:PUERTO`,
		"a save has not ended in 2s":                                          "un guardado no terminó en 2\u00a0s",
		"it answers 403 Forbidden":                                            "responde «403 Forbidden»",
		"connect: no route to host":                                           "«connect: no route to host»",
		"algorithm: member 1 has algorithm \"ring\", member 2 has \"bully\": give all the same": `otro algoritmo: el 1 tiene "ring", el 2 tiene "bully": dé a todos lo mismo`,
		"not-member: not a member of this cluster":                                              "no es miembro: no es miembro de este clúster",
	} {
		if got := eval[string](b, with("given => import('/ui/shared/words.js').then(({ fault }) => fault(given))", given)); got != want {
			t.Errorf("%q: got  %q\nwant %q", given, got, want)
		}
	}
}

// On a Spanish page a broken rule is in Spanish too, with what the member did.
func TestBrokenRulesInSpanish(t *testing.T) {
	b := open(t, browser(t), serveLab(t)+"?lang=es")
	for _, c := range []struct{ rule, what, want string }{
		{invariant.Stalled, invariant.BeforeLosing(election.Token{Epoch: 4, Leader: election.Rank{ID: "3"}}, nil), "«un miembro que estuvo parado más de T pierde su liderazgo antes de hacer otra cosa»: sigue liderando como 4:3"},
		{invariant.Converges, "12.6s after the last fault 1 knows no leader (views: 1 → none, 2 → 5:3)", "«cuando cesan los fallos, cada grupo conectado de miembros vivos se pone de acuerdo, en un tiempo acotado, en su candidato de mayor rango»: 12.6s después del último fallo, el 1 no conoce líder (líder de cada uno: 1 → ninguno, 2 → 5:3)"},
		{invariant.OneEpoch, "it leads as 3:2, and 1 has led as 3:1", "«sin fallos, una época designa un solo líder»: lidera como 3:2, y el 1 ha liderado como 3:1"},
		{"a rule of the future", "it does what no form has", `"a rule of the future": it does what no form has`},
	} {
		given := (&invariant.Violation{Rule: c.rule, Member: "2", At: 1500 * time.Millisecond, What: c.what}).Error()
		want := "[1.500s] el miembro 2 rompe la regla " + c.want
		if got := eval[string](b, with("given => import('/faults.js').then(({ mistake }) => mistake(given))", given)); got != want {
			t.Errorf("%q: got  %q\nwant %q", given, got, want)
		}
	}
}

// On a Spanish page super peers that cannot be are explained in Spanish.
func TestSuperpeerFaultsInSpanish(t *testing.T) {
	b := open(t, browser(t), serveLab(t)+"?lang=es")
	b.until(ready)
	eval[any](b, "document.querySelector('#super-open').click(), 0")
	for field, fault := range map[string][3]string{
		"churn":    {"lots", "10%@60", `cambio "lots": "lots" no es una parte de 0 a 100%; ponga una parte y una ronda como 10%@60, +10%@60, -10%@60, o 0.5% para cada ronda`},
		"capacity": {"10", "0", "tope imposible: 16 super peers × tope 10 = 160 plazas para otros 784 nodos; suba el tope a 49 o la fracción a 0.09091"},
	} {
		eval[any](b, with("(field, value) => { document.querySelector('#super-' + field).value = value; document.querySelector('#super-form button').click(); return 0 }", field, fault[0]))
		b.until(with("fault => document.querySelector('#super-fault').textContent === fault", fault[2]))
		eval[any](b, with("(field, value) => { document.querySelector('#super-' + field).value = value; return 0 }", field, fault[1]))
	}
}

// Without a mouse: play, step, and crash a member.
func TestTheLabByKeyboard(t *testing.T) {
	b := open(t, browser(t), serveLab(t))
	b.size(1280, 900, "light")
	b.until(ready)
	eval[any](b, "lab.pause(), lab.seek(0), document.body.focus(), 0")
	b.press(" ")
	b.until("lab.playing && lab.now > 0")
	b.press(" ")
	b.until("!lab.playing")
	b.press(kb.End)
	b.until("lab.now === lab.model.elapsed")
	b.press(kb.ArrowLeft)
	b.until("lab.now < lab.model.elapsed")
	b.choose("el.matches('.hit[aria-label^=\"Member 5\"]')", "document.activeElement.closest('#menu')")
	b.choose("el.textContent === 'Crash'", "document.querySelector('#text').value.includes('crash 5')")
	b.until("document.querySelector('#leaders').textContent.includes('4 leads')")
	eval[any](b, "lab.pause(), 0")
	b.choose("el.matches('.hit[aria-label^=\"Member 3\"]')", "!document.querySelector('#menu').hidden")
	b.choose("el.getAttribute('aria-label') === 'Cut 3 → 4'", "document.querySelector('#text').value.includes('cut 3>4')")
	b.tabTo("el.id === 'log'")
	b.press(kb.ArrowUp, kb.ArrowUp)
	b.until("document.querySelectorAll('#why li button').length > 0")
	b.tabTo("el.id === 'tours'")
}

// Without a mouse: hand the lead over.
func TestTheDashboardByKeyboard(t *testing.T) {
	members := cluster(t, "1", "2")
	b := open(t, browser(t), "http://"+members["2"].http+"/")
	b.size(1280, 900, "light")
	b.until(leaderIs + "'2'")
	b.until("[...document.querySelectorAll('#facts div')].some(x => x.textContent === 'Its workserves')")
	b.choose("el.id === 'resign'", "document.querySelector('#ask').open")
	b.press(kb.Escape)
	b.until("!document.querySelector('#ask').open && document.activeElement.id === 'resign'")
	b.press(kb.Enter)
	b.until("document.querySelector('#ask').open")
	b.choose("el.id === 'ask-yes'", leaderIs+"'1'")
	b.tabTo("el.matches('.reigns summary')")
	eval[any](b, "window.drawn = document.activeElement, 0")
	b.until("!document.contains(window.drawn)") // it is drawn anew as time passes, and keeps the focus
	b.press(kb.Enter)
	b.until("document.querySelector('.reigns details[open]')")
}

// For a user that wants less motion the lab does not play by itself.
func TestTheLabWithReducedMotion(t *testing.T) {
	address := serveLab(t)
	b := open(t, browser(t), address)
	b.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: "reduce"}}), chromedp.Navigate(address+"?lang=en"))
	b.until(ready + " && location.search")
	if eval[bool](b, "lab.playing || lab.now > 0") {
		t.Error("it plays at once")
	}
	b.click("#new-seed")
	b.until("/^seed (?!1$)/m.test(lab.editor.text)")
	b.click("#super-open")
	b.until("lab.superpeers.rounds.length > 1")
	if eval[bool](b, "lab.playing || lab.superpeers.playing") {
		t.Error("another run plays at once")
	}
	b.click("#super-close")
	b.click("#play")
	b.until("lab.now > 0")
}

// contrast is a script that gives the contrast of the links of the circle to what they are drawn on.
const contrast = `(() => {
	const rgb = colour => colour.match(/[\d.]+/g).slice(0, 3).map(Number)
	const light = colour => [.2126, .7152, .0722].reduce((sum, k, i) => sum + k * (v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)(colour[i] / 255), .05)
	const line = getComputedStyle(document.querySelector('.link')), ground = rgb(getComputedStyle(document.querySelector('.stage')).backgroundColor)
	const [a, b] = [light(rgb(line.stroke).map((v, i) => ground[i] + (v - ground[i]) * line.strokeOpacity)), light(ground)]
	return Math.max(a, b) / Math.min(a, b)
})()`

// A projector shows the links of the circle, also on a dark page.
func TestLinksAreSeen(t *testing.T) {
	b := open(t, browser(t), serveLab(t))
	for _, scheme := range []string{"light", "dark"} {
		b.size(1280, 800, scheme)
		b.until(ready)
		if c := eval[float64](b, contrast); c < 1.7 {
			t.Errorf("%s: the links have a contrast of %.2f", scheme, c)
		}
	}
}
