package browsertest

import (
	"testing"
)

// answered is a script after which window.answers holds what the agent answers: a function by method and path.
const answered = `(() => {
	const real = window.fetch.bind(window)
	window.answers = {}
	window.json = (value, init) => new Response(JSON.stringify(value), init)
	window.real = real
	window.fetch = (path, options) => (window.answers[(options?.method ?? 'GET') + ' ' + path] ?? real)(path, options)
	return 0
})()`

// agentOf opens the page of an agent whose answers a test may replace.
func agentOf(t *testing.T, quiet ...string) *tab {
	t.Helper()
	b := open(t, browser(t), "http://"+cluster(t, "1")["1"].http+"/?lang=en", quiet...)
	b.size(1280, 900, "light")
	b.until(leaderIs + "'1' && document.querySelector('#live').textContent === 'Live'")
	eval[any](b, answered)
	return b
}

// A row keeps the focus when the row above it is removed.
func TestARowKeepsTheFocus(t *testing.T) {
	b := agentOf(t)
	if got := eval[string](b, `import('/ui/shared/dom.js').then(({ listed, h }) => {
		const list = document.createElement('div')
		document.body.append(list)
		const show = (...keys) => listed(list, keys, k => k, k => h('button', {}, k))
		show('a', 'b', 'c')
		list.lastChild.focus()
		show('a', 'c')
		return document.activeElement.textContent
	})`); got != "c" {
		t.Errorf("%q has the focus", got)
	}
}
