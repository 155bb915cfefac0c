package browsertest

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp/kb"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/api"
)

// crowded is a member with more elections than a test could hold.
type crowded struct {
	*batuta.Node
	more []batuta.View
}

// ListElections implements [api.Elections].
func (c crowded) ListElections() []batuta.View {
	list := append(c.Node.ListElections(), c.more...)
	slices.SortFunc(list, func(a, b batuta.View) int { return cmp.Compare(a.Election, b.Election) })
	return list
}

// crowd is n elections that nobody holds: led by 1 and 2 in turn, each thousandth by nobody.
func crowd(n int) (list []batuta.View) {
	for i := range n {
		v := batuta.View{Election: fmt.Sprintf("shard-%05d", i), Since: time.Now()}
		if i%1000 != 999 {
			v.Token = batuta.Token{Epoch: 1<<24 + uint64(i), Leader: election.Rank{ID: batuta.ID(fmt.Sprint(1 + i%2))}}
		}
		list = append(list, v)
	}
	return list
}

// crowdedPair starts two members that stand for two elections, and seem to have 10,000 more,
// and gives the address of the first one's page.
func crowdedPair(t *testing.T) string {
	t.Helper()
	chromium(t)
	var join []string
	var pages []string
	for _, id := range []string{"1", "2"} {
		n, err := batuta.Start(t.Context(), batuta.Config{ID: batuta.ID(id), Listen: "127.0.0.1:0", Join: join, Algorithm: bully.New()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close() })
		join = []string{statusOf(n).Listen}
		for _, name := range []string{"real-1", "real-2"} {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for ctx.Err() == nil { // whatever it ends by, it stands again
					_ = n.Election(name).Lead(ctx, func(ctx context.Context, _ batuta.Leadership) error { <-ctx.Done(); return nil })
				}
			}()
			t.Cleanup(func() { cancel(); <-ended })
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := api.NewServer(crowded{n, crowd(10_000)}, l.Addr().String(), "v1", slog.New(slog.DiscardHandler))
		go s.Serve(l)
		t.Cleanup(func() { s.Close(context.Background()) })
		pages = append(pages, "http://"+l.Addr().String()+"/")
	}
	return pages[0]
}

const electionsShown = "document.querySelectorAll('#elections-all .entry').length"

// search looks for elections by a part of their name.
func (b *tab) search(words string) {
	b.Helper()
	eval[any](b, with("w => { const el = document.querySelector('#elections-search'); el.value = w; el.dispatchEvent(new Event('input')); return 0 }", words))
}

// Ten thousand elections scroll and are searched without a hitch: only what is seen is there.
func TestTenThousandElections(t *testing.T) {
	b := open(t, browser(t), crowdedPair(t))
	b.size(1280, 900, "light")
	b.do(performance.Enable().WithTimeDomain(performance.EnableTimeDomainThreadTicks))
	b.until("document.querySelector('#elections-count').textContent === '10,002 seats in all'")
	b.until(electionsShown + " > 5")
	b.until("[...document.querySelectorAll('#shares li')].map(x => x.children[0].textContent).join() === 'No leader,2,1'")
	sent := eval[[]float64](b, "(x => [x.encodedBodySize, x.decodedBodySize])(performance.getEntriesByType('resource').find(x => x.name.endsWith('/v1/elections')))")
	t.Logf("the list of elections is sent in %.0f kB instead of %.0f", sent[0]/1000, sent[1]/1000)
	if sent[0]*5 > sent[1] {
		t.Errorf("the list of elections is sent in %.0f bytes, it has %.0f", sent[0], sent[1])
	}
	eval[any](b, "document.querySelector('#elections').scrollIntoView(), 0")

	began, frames := b.worked(), 100
	most := eval[int](b, with(`async n => {
		const grid = document.querySelector('#elections-rows')
		let most = 0
		for (let i = 0; i < n; i++) {
			grid.scrollTop = grid.scrollHeight * i / n
			await new Promise(requestAnimationFrame)
			most = Math.max(most, `+electionsShown+`)
		}
		return most
	}`, frames))
	each := (b.worked() - began) / time.Duration(frames)
	if most > 60 {
		t.Errorf("%d rows are there, of which a dozen is seen", most)
	}
	b.until("(grid => (grid.scrollTop = grid.scrollHeight, [...grid.querySelectorAll('.name')].at(-1).textContent === 'shard-09999'))(document.querySelector('#elections-rows'))")

	began = b.worked()
	words := []string{"s", "sh", "shard-0", "shard-0123", "", "4", "42", "424"}
	for _, w := range words {
		b.search(w)
	}
	search := (b.worked() - began) / time.Duration(len(words))
	b.until("document.querySelector('#elections-found').textContent === '20 found'")
	t.Logf("%v of processor a frame while 10,002 rows scroll, %v a search", each, search)
	if each > time.Second/40 || search > time.Second/10 {
		t.Errorf("%v a frame, %v a search", each, search)
	}
	b.search("")
	b.until("document.querySelector('#shares .none') && (document.querySelector('#shares .none button').click(), document.querySelector('#elections-found').textContent === '10 found')")
	b.until("[...document.querySelectorAll('#elections-all .leader')].every(x => x.textContent === 'No leader')")
	eval[any](b, "document.querySelector('#shares .none button').click(), 0")
	for i, s := range screens {
		scheme := []string{"light", "dark"}[i%2]
		state := fmt.Sprintf("dashboard-elections-%s-%s", s.name, scheme)
		b.size(s.width, s.height, scheme)
		b.until(electionsShown + " > 3")
		eval[any](b, "document.querySelector('#elections').scrollIntoView(), 0")
		b.shoot(state)
		b.fits(state)
		if i < 2 {
			b.accessible(state)
		}
	}
}

// say answers yes until that is done: who stands for what is known a moment later elsewhere.
func (b *tab) say() {
	b.Helper()
	defer func() {
		if b.Failed() {
			b.Log(eval[string](b, "document.querySelector('#ask-error').textContent"))
		}
	}()
	b.until("!document.querySelector('#ask').open || (document.querySelector('#ask-yes').disabled || document.querySelector('#ask-yes').click(), false)")
}

// By keyboard alone an election is found and handed over, a member is drained, and that is
// ended; each after a question.
func TestNamedElectionsByKeyboard(t *testing.T) {
	b := open(t, browser(t), crowdedPair(t), "status of 422") // until both are known to stand
	b.size(1280, 900, "light")
	b.until(leaderIs + "'2' && document.querySelectorAll('#shares li').length === 3")
	b.tabTo("el.id === 'elections-search'")
	b.press("r", "e", "a", "l")
	b.until("document.querySelector('#elections-found').textContent === '2 found' && " + electionsShown + " === 2")
	b.press(kb.Tab)
	b.until("document.activeElement.id === 'elections-rows'")
	b.press(kb.End)
	b.until("document.querySelector('#elections-all .active .name').textContent === 'real-2'")
	b.press(kb.Home)
	b.until("(row => row.id === document.activeElement.getAttribute('aria-activedescendant') && row.querySelector('.name').textContent === 'real-1' && row.querySelector('.leader').textContent !== 'No leader')(document.querySelector('#elections-all .active'))")
	b.press(kb.Enter)
	b.until("document.querySelector('#ask').open && document.querySelector('#ask-title').textContent === 'Which member shall lead real-1?'")
	b.accessible("the question who shall lead")
	heir := eval[string](b, "document.querySelector('#ask select').value")
	b.say()
	b.until(with("id => document.querySelector('#elections-all .active .leader').textContent === id && document.activeElement.id === 'elections-rows'", heir))

	const ofTwo = "el.closest('#shares li')?.firstChild.textContent === '2' && el.matches('.act')"
	eval[any](b, "document.body.focus(), document.activeElement.blur(), 0")
	b.choose(ofTwo, "document.querySelector('#ask').open && document.activeElement.id === 'ask-no' && !document.querySelector('#ask input[name=force]').checked")
	b.say()
	b.until("[...document.querySelectorAll('#elections-all .leader')].every(x => x.textContent === '1')")
	b.until("[...document.querySelectorAll('#shares .state-of')].map(x => x.textContent).join() === ',drained,'")
	b.shoot("dashboard-drained")
	b.choose(ofTwo, "document.querySelector('#ask-title').textContent === 'End the drain of 2?'")
	b.say()
	b.until("[...document.querySelectorAll('#shares .state-of')].every(x => x.textContent === '')")
}

// statusOf is what a member reports; the last, once it has ended.
func statusOf(n *batuta.Node) batuta.Status {
	s, _ := n.Status(context.Background())
	return s
}
