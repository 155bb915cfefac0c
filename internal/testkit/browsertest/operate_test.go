package browsertest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// opened is the page that a click opens.
func (b *tab) opened(selector, path string) *tab {
	b.Helper()
	found := chromedp.WaitNewTarget(b.ctx, func(info *target.Info) bool { return strings.Contains(info.URL, path) })
	b.click(selector)
	ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithTargetID(<-found))
	b.Cleanup(cancel)
	other := &tab{T: b.T, ctx: ctx, allocator: b.allocator, origin: b.origin}
	chromedp.ListenTarget(ctx, other.listen)
	b.Cleanup(func() { other.clean() })
	return other
}

// yes answers yes to the dashboard's question.
func (b *tab) yes(title string) {
	b.Helper()
	b.until(with("words => document.querySelector('#ask').open && document.querySelector('#ask-title').textContent === words", title))
	b.click("#ask-yes")
	b.until("!document.querySelector('#ask').open")
}

// The page of one member: the versions of all, how much of the cluster each receives, a pause, and a cordon.
func TestTheDashboardOfOneMemberOperates(t *testing.T) {
	members := cluster(t, "1", "2", "3")
	b := open(t, browser(t), "http://"+members["2"].http+"/", "status of 400")
	b.size(1280, 900, "light")
	b.until(leaderIs + "'3'")
	b.until("[...document.querySelectorAll('#rows tr')].every(x => x.querySelector('[data-label=Version]').textContent === dashboard.status.version)")
	const row = "[...document.querySelectorAll('#rows tr')].find(x => x.firstChild.textContent.startsWith('2'))"

	b.click("#cordon")
	b.yes("Cordon 2?")
	b.until(row + ".querySelector('[data-label=Candidate]').textContent.startsWith('no: unhealthy') && document.querySelector('#cordon').textContent === 'Uncordon'")
	b.click("#cordon")
	b.yes("Uncordon 2?")
	b.until(row + ".querySelector('[data-label=Candidate]').textContent === 'yes'")

	health := func(body string) { // as a check of the service does
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+members["2"].http+"/v1/health", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusOK {
			t.Fatalf("PUT /v1/health: %s", resp.Status)
		}
	}
	health(`{"healthy": false, "why": "the disk is full"}`)
	b.until("document.querySelector('#cordon').hidden && " + row + ".textContent.includes('the disk is full')")
	health(`{"healthy": true}`)
	b.until("!document.querySelector('#cordon').hidden")

	b.click("#pause")
	b.until("document.querySelector('#ask').open")
	eval[any](b, "document.querySelector('#ask input[name=for]').value = 'soon', 0")
	b.click("#ask-yes")
	b.until("document.querySelector('#ask-error').textContent.includes('soon')")
	eval[any](b, "document.querySelector('#ask input[name=for]').value = '10m', 0")
	b.yes("Pause the cluster?")
	b.until("document.querySelector('#pause').textContent === 'End the pause' && /until .*\\d\\d:\\d\\d:\\d\\d.*(UTC|GMT|[A-Z]{3,4}).*; 3 keeps leadership/.test(document.querySelector('#facts').textContent)") // by the user's clock
	b.shoot("dashboard-paused")
	b.accessible("a paused cluster")
	b.click("#pause")
	b.yes("End the pause?")
	b.until("document.querySelector('#pause').textContent === 'Pause the cluster' && !dashboard.status.paused")

	members["3"].kill()
	b.until(leaderIs + "'2'")
	b.until("[...document.querySelectorAll('#rows tr')].filter(x => x.textContent.includes('receives 2 of 3')).length === 2")
	b.shoot("dashboard-sides")
}

// The dashboard opens the loss of a leader in the lab, which its agent serves without a simulator.
func TestTheDashboardOpensTheLab(t *testing.T) {
	members := cluster(t, "1", "2", "3", "4")
	b := open(t, browser(t), "http://"+members["1"].http+"/")
	b.size(1280, 900, "light")
	b.until(leaderIs + "'4'")
	members["4"].kill()
	b.until(leaderIs + "'3'")
	l := b.opened("#lab", "/ui/lab/")
	l.size(1280, 900, "light")
	l.until(ready + " && lab.tours.current")
	l.until("document.querySelector('#h-tour').textContent.startsWith('Incident of default') && document.querySelector('#tour-text').textContent.includes('No records of 4')")
	eval[any](l, "lab.tours.go(lab.tours.current.stops.findLastIndex(x => x.text.en.startsWith('4 lost'))), 0")
	l.until("/^4 lost leadership, epoch \\d+: the leader crashed\\.$/.test(document.querySelector('#tour-text').textContent)")
	eval[any](l, "lab.tours.go(1e9), lab.seek(lab.now + 500), 0")
	l.until("lab.model.states(lab.now).map(x => [x.condition, x.role, x.leader].join(' ')).join(', ') === 'alive follows 3, alive follows 3, alive leads 3, dead none '")
	if n := eval[int](l, "lab.model.flights.filter(f => f.kind === 'coordinator' && f.from === 2 && f.to === 0).length"); n < 1 {
		t.Errorf("%d announcements have reached the member asked", n)
	}
	l.until("!document.querySelector('#tours').checkVisibility() && !document.querySelector('#explore-open').checkVisibility()")
	l.shoot("lab-of-the-dashboard")
	l.accessible("an incident from the dashboard")

	alone := open(t, b.allocator, "http://"+members["1"].http+"/ui/lab/#incident") // without a dashboard it says how
	alone.until("document.querySelector('#state').textContent.includes('batuta explain --lab')")
}
