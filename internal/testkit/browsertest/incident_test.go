package browsertest

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The leader of a real cluster is killed. What the others have recorded is written to a file and
// opens in the lab: at each moment what each member had received, and the cause.
func TestAnIncidentOpensInTheLab(t *testing.T) {
	members := cluster(t, "1", "2", "3", "4")
	members["4"].kill()
	for _, id := range []string{"1", "2", "3"} {
		open(t, browser(t), "http://"+members[id].http+"/").until(leaderIs + "'3'")
	}
	file := filepath.Join(t.TempDir(), "incident.json")
	batuta, err := program()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(batuta, "explain", "--lab", file, "--agent", members["1"].http).CombinedOutput()
	if said := string(out); err != nil || !strings.Contains(said, "no records of 4: ") || !strings.Contains(said, "has the records of 3 members; open it: batuta lab "+file) {
		t.Fatalf("%v: %s", err, out)
	}

	address := start(t, "lab", "--http", "127.0.0.1:0", "--open=false", file).line(t, "lab: ")
	if !strings.HasSuffix(address, "/#incident=incident.json") {
		t.Fatalf("the lab is at %s", address)
	}
	b := open(t, browser(t), address)
	b.size(1280, 900, "light")
	b.until(ready + " && lab.tours.current")
	b.until("document.querySelector('#h-tour').textContent.startsWith('Incident of default')")
	if n := eval[int](b, "(text => { const date = document.createRange(); date.setStart(text, text.data.indexOf('20')); date.setEnd(text, text.length); return date.getClientRects().length })(document.querySelector('#h-tour').firstChild)"); n != 1 {
		t.Errorf("the date of the title is on %d lines", n)
	}
	b.until("document.querySelector('#tour-text').textContent.includes('No records of 4')")
	eval[any](b, "lab.tours.go(lab.tours.current.stops.findLastIndex(x => x.text.en.startsWith('4 lost'))), 0")
	b.until("/^4 lost leadership, epoch \\d+: its process ended/.test(document.querySelector('#tour-text').textContent)")
	if got := eval[string](b, "lab.model.states(lab.now).map(x => [x.condition, x.role, x.leader].join(' ')).join(', ')"); !strings.HasSuffix(got, "dead none ") {
		t.Errorf("at that moment the members are: %s", got)
	}
	if before := eval[string](b, "(x => [x.condition, x.role].join(' '))(lab.model.states(lab.model.events.find(e => e.m === 3 && e.what === 'crashes').at - .001)[3])"); before != "alive leads" {
		t.Errorf("a moment before, 4 is: %s", before)
	}
	b.shoot("lab-incident-lost")
	eval[any](b, "lab.tours.go(1e9), 0")
	b.until("/^3 leads under epoch \\d+. After the first detected the loss, it claimed within [\\d.?]+\\sms, had saved the epoch after [\\d.]+\\sms, and all that follow had received it after [\\d.]+\\sms.$/.test(document.querySelector('#tour-text').textContent)")
	b.until("document.querySelector('#leaders').textContent.startsWith('3 leads, epoch')")
	if told := eval[int](b, "lab.model.flights.filter(f => f.kind === 'coordinator' && f.sent > lab.now - 2000 && f.from === 2 && f.arrived > f.sent).length"); told < 1 {
		t.Errorf("%d announcements of 3 have arrived", told)
	}
	b.shoot("lab-incident-leads")
	b.accessible("an incident")
	b.click(".hit[aria-label^='Member 3']")
	b.until("!document.querySelector('#menu').hidden && !document.querySelector('#menu .row button') && getComputedStyle(document.querySelector('.script')).display === 'none'")

	// The same file through the page's own button; a file that is no incident is refused.
	eval[any](b, "lab.incident('{\"batuta\": 1}'), 0")
	b.until("document.querySelector('#state').textContent.startsWith('This file is no incident')")
}
