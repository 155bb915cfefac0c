package browsertest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/batuta-dev/batuta/internal/testkit/freeport"
)

// An operator runs a job from the page, sees that it failed, and pauses it.
func TestJobsOnTheDashboard(t *testing.T) {
	ports, err := freeport.Find(2)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "jobs")
	if err := os.WriteFile(file, []byte("report @yearly false\nprune @monthly true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address := loopback(ports[1])
	m := &member{id: "1", process: start(t, "run", "--id", "1", "--listen", loopback(ports[0]), "--http", address, "--events", "json", "--log-level", "error", "--jobs", file)}
	m.until(t, `"event":"leader"`)
	b := open(t, browser(t), "http://"+address+"/")
	b.size(1280, 900, "light")
	const row = "[...document.querySelectorAll('#jobs-rows tr')].find(x => x.firstChild.textContent === 'report')"
	const cell = "(i => " + row + "?.children[i]?.textContent)"
	b.until(cell + "(1) === '1' && document.querySelectorAll('#jobs-rows tr').length === 2")
	b.until(cell + "(2).startsWith('in ') && " + cell + "(5) === '—'")
	const buttons = row + ".querySelectorAll('button')"
	eval[any](b, buttons+"[0].click(), 0")
	b.until("document.querySelector('#ask').open && document.querySelector('#ask-title').textContent === 'Run report now?'")
	b.say()
	b.until(cell + "(5) === 'failed, exit code 1' && " + cell + "(4) === '1'")
	eval[any](b, buttons+"[1].focus(), "+buttons+"[1].click(), 0")
	b.say()
	b.until(cell + "(2) === 'paused' && document.activeElement.textContent === 'Resume'")
	for i, s := range screens {
		scheme := []string{"light", "dark"}[i%2]
		b.size(s.width, s.height, scheme)
		eval[any](b, "document.querySelector('#jobs').scrollIntoView(), 0")
		b.shoot("dashboard-jobs-" + s.name + "-" + scheme)
		b.fits("jobs on " + s.name)
		if i < 2 {
			b.accessible("jobs on " + s.name)
		}
	}
	eval[any](b, buttons+"[1].click(), 0")
	b.say()
	b.until(cell + "(2).startsWith('in ')")
}
