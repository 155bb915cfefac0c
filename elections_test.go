package batuta_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutatest"
)

// ledger is what the work of named elections has seen.
type ledger struct {
	mu      sync.Mutex
	leads   map[string]batuta.ID // who works for a name now
	top     map[string]batuta.Token
	begun   int
	overlap []string
}

func newLedger() *ledger {
	return &ledger{leads: map[string]batuta.ID{}, top: map[string]batuta.Token{}}
}

// work is what a leader does: it reports that it does.
func (l *ledger) work(ctx context.Context, lead batuta.Leadership) error {
	l.mu.Lock()
	id := lead.Token.Leader.ID
	if other, works := l.leads[lead.Election]; works {
		l.overlap = append(l.overlap, fmt.Sprintf("%s begins %s while %s works", id, lead.Election, other))
	}
	if !lead.Token.Above(l.top[lead.Election]) {
		l.overlap = append(l.overlap, fmt.Sprintf("%s: %v after %v", lead.Election, lead.Token, l.top[lead.Election]))
	}
	l.leads[lead.Election], l.top[lead.Election] = id, lead.Token
	l.begun++
	l.mu.Unlock()
	<-ctx.Done()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.leads[lead.Election] == id {
		delete(l.leads, lead.Election)
	}
	return nil
}

// killed forgets what a process did that is gone.
func (l *ledger) killed(id batuta.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, who := range l.leads {
		if who == id {
			delete(l.leads, name)
		}
	}
}

func (l *ledger) shares(t *testing.T, names int) map[batuta.ID]int {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	shares := map[batuta.ID]int{}
	for _, id := range l.leads {
		shares[id]++
	}
	if len(l.leads) != names || len(l.overlap) > 0 {
		t.Errorf("%d of %d names are led; %v", len(l.leads), names, l.overlap)
	}
	return shares
}

func (l *ledger) count() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, l.begun = l.begun, 0
	return n
}

// stand has a member stand for so many names.
func stand(n *batuta.Node, l *ledger, names int) {
	for i := range names {
		go n.Election(fmt.Sprintf("shard-%d", i)).Lead(context.Background(), l.work)
	}
}

// In virtual time: 5 members, 100 elections; one member is killed, then the coordinator.
func TestNamedElections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 5)
		c.StartAll()
		c.Agree("5")
		l := newLedger()
		const names = 100
		for i := range 5 {
			stand(c.Node(batuta.ID(fmt.Sprint(i+1))), l, names)
		}
		time.Sleep(3 * time.Second)
		for id, n := range l.shares(t, names) {
			if n != 20 {
				t.Errorf("%s leads %d", id, n)
			}
		}
		for i := range 5 { // each sees the same
			n := c.Node(batuta.ID(fmt.Sprint(i + 1)))
			for _, v := range n.ListElections() {
				if v.Token != l.top[v.Election] || v.Address == "" {
					t.Errorf("%s sees %v at %q lead %s, and %v does", n.ID(), v.Token, v.Address, v.Election, l.top[v.Election])
				}
				if leads := n.Election(v.Election).IsLeader(); leads != (v.Token.Leader.ID == n.ID()) {
					t.Errorf("%s.IsLeader() is %v, and %v leads", v.Election, leads, v.Token)
				}
			}
		}
		l.count()
		time.Sleep(time.Minute)
		if n := l.count(); n != 0 {
			t.Errorf("%d leaderships begin while nothing happens", n)
		}
		for _, id := range []batuta.ID{"2", "5"} {
			c.Kill(id)
			l.killed(id)
			time.Sleep(3 * time.Second)
			l.shares(t, names)
			if n := l.count(); n > 30 {
				t.Errorf("%s is killed, and %d leaderships begin", id, n)
			}
		}
	})
}

// One call stands for many: the work of each that is led runs beside the others', one that
// ends by itself is stood for no more, and one that fails ends all.
func TestLeadEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 2)
		c.StartAll()
		c.Agree("2")
		l, boom, fails := newLedger(), errors.New("boom"), make(chan struct{})
		work := func(ctx context.Context, lead batuta.Leadership) error {
			switch {
			case lead.Election == "shard-0":
				return nil
			case lead.Election == "shard-1" && lead.Token.Leader.ID == "1":
				select {
				case <-fails:
					return boom
				case <-ctx.Done():
					return nil
				}
			}
			return l.work(ctx, lead)
		}
		ended := map[batuta.ID]chan error{}
		for _, id := range []batuta.ID{"1", "2"} {
			n := c.Node(id)
			var list []*batuta.Election
			for i := range 10 {
				list = append(list, n.Election(fmt.Sprintf("shard-%d", i)))
			}
			if err := n.LeadEach(t.Context(), append(list, list[0]), work); !errors.Is(err, batuta.ErrConfig) {
				t.Errorf("one that is there twice: %v", err)
			}
			end := make(chan error, 1)
			ended[id] = end
			go func() { end <- n.LeadEach(t.Context(), list, work) }()
		}
		time.Sleep(3 * time.Second)
		if v := c.Node("1").Election("shard-0").Leader(); v.Defined() {
			t.Errorf("%v leads what nobody stands for any more", v.Token)
		}
		if err := c.Node("1").Election("shard-1").Transfer(t.Context(), "1"); err != nil {
			t.Fatal(err)
		}
		close(fails)
		if err := <-ended["1"]; err != boom {
			t.Errorf("LeadEach gives %v", err)
		}
		time.Sleep(3 * time.Second)
		if shares := l.shares(t, 9); shares["2"] != 9 {
			t.Errorf("shares %v", shares)
		}
		c.Stop("2")
		if err := <-ended["2"]; err != batuta.ErrClosed {
			t.Errorf("LeadEach gives %v", err)
		}
	})
}

// Each way of ending a leadership, and what Lead and Watch say of it.
func TestLeadOfANamedElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 3)
		c.StartAll()
		c.Agree("3")
		l := newLedger()
		a, b := c.Node("1").Election("jobs"), c.Node("2").Election("jobs")
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Lead(ctx, l.work) }()
		leaders := make(chan batuta.ID, 100)
		go func() {
			for v := range c.Node("3").Election("jobs").Watch(t.Context()) {
				leaders <- v.Token.Leader.ID
			}
		}()
		expect := func(want ...batuta.ID) {
			t.Helper()
			for _, id := range want {
				if got := <-leaders; got != id {
					t.Fatalf("3 sees %q, want %q of %q", got, id, want)
				}
			}
		}
		expect("", "1")
		go b.Lead(t.Context(), l.work)
		time.Sleep(time.Second)
		if err := b.Transfer(t.Context(), "2"); err != nil {
			t.Error(err)
		}
		expect("", "2")
		if err := b.Resign(t.Context()); err != nil || b.IsLeader() {
			t.Errorf("resigned: %v, and leads: %v", err, b.IsLeader())
		}
		expect("", "1")
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Lead gives %v", err)
		}
		expect("", "2")
		if err := a.Transfer(t.Context(), "1"); err == nil || !errors.Is(err, batuta.ErrRefusedElection) || !strings.Contains(err.Error(), "is not a candidate") {
			t.Errorf("to one that does not stand: %v", err)
		}
		boom := errors.New("boom")
		first, begun := true, make(chan struct{})
		go func() {
			ended <- a.Lead(t.Context(), func(ctx context.Context, lead batuta.Leadership) error {
				if !first {
					return nil
				}
				first = false
				close(begun)
				<-ctx.Done()
				if lost, ok := context.Cause(ctx).(*batuta.LostError); !ok || lost.Token != lead.Token {
					t.Errorf("the cause is %v", context.Cause(ctx))
				}
				return boom // it has been lost: Lead goes on
			})
		}()
		time.Sleep(time.Second)
		c.Stop("2")
		expect("", "1")
		<-begun // 3 may have seen it first
		if err := a.Resign(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil {
			t.Errorf("Lead gives %v", err)
		}
	})
}

// Where nobody can lead, whoever asks is told that, too: else it would wait.
func TestDrainWhereNobodyLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 1, func(cfg *batuta.Config) { cfg.Observer = true })
		c.StartAll()
		time.Sleep(5 * time.Second)
		err := c.Node("1").Drain(t.Context(), "1", false)
		if !errors.Is(err, batuta.ErrRefusedElection) || !strings.Contains(err.Error(), "this member is no candidate (observer)") {
			t.Errorf("got %v", err)
		}
	})
}

func TestElectionsAreWatchedAndDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 3)
		c.StartAll()
		c.Agree("3")
		l := newLedger()
		for _, id := range []batuta.ID{"1", "2", "3"} {
			stand(c.Node(id), l, 12)
		}
		time.Sleep(3 * time.Second)
		seen := map[string]batuta.View{}
		go func() {
			for v, err := range c.Node("2").Elections(t.Context()) {
				if err != nil {
					return
				}
				seen[v.Election] = v
			}
		}()
		synctest.Wait()
		if len(seen) != 12 {
			t.Errorf("it sees %d elections", len(seen))
		}
		if err := c.Node("2").Drain(t.Context(), "1", false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if shares := l.shares(t, 12); shares["1"] != 0 || shares["2"] != 6 {
			t.Errorf("shares %v", shares)
		}
		if ids, err := c.Node("1").Drained(t.Context()); err != nil || !slices.Equal(ids, []batuta.ID{"1"}) {
			t.Errorf("drained: %v, %v", ids, err)
		}
		for name, v := range seen {
			if v.Token != l.top[name] {
				t.Errorf("2 has seen %v last for %s, want %v", v, name, l.top[name])
			}
		}
		if err := c.Node("3").Drain(t.Context(), "7", false); err == nil || !strings.Contains(err.Error(), "no member") {
			t.Errorf("a stranger: %v", err)
		}
		if err := c.Node("1").Undrain(t.Context(), "1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		if shares := l.shares(t, 12); shares["1"] != 4 {
			t.Errorf("shares %v", shares)
		}
	})
}

func TestWhatAnElectionRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 1)
		c.StartAll()
		c.Agree("1")
		n := c.Node("1")
		for _, test := range []struct {
			e     *batuta.Election
			wants string
		}{
			{n.Election(""), "needs a name"},
			{n.Election("a\x1b"), "control characters"},
			{n.Election(strings.Repeat("x", 257)), "257 bytes"},
			{n.Election("x", batuta.Weight(1<<21)), "weight 2097152"},
			{n.Election("x", batuta.Weight(-1)), "weight -1"},
			{n.Election("x", batuta.Seats(65)), "65 seats"},
			{n.Election("x", batuta.Seats(-2)), "-2 seats"},
		} {
			err := test.e.Lead(t.Context(), nil)
			if err == nil || !strings.Contains(err.Error(), test.wants) || !errors.Is(err, batuta.ErrConfig) {
				t.Errorf("%q: %v", test.e.Name(), err)
			}
		}
		own := n.Election(batuta.DefaultElection) // the cluster's own
		if !own.IsLeader() || own.Leader().Token != n.Leader().Token {
			t.Errorf("the cluster's own: %v", own.Leader())
		}
		if n.Election("nothing").Leader().Defined() {
			t.Error("an election that nobody stands for has a leader")
		}
	})
}

// A semaphore: two of three hold a seat, each under a token of its own.
func TestSeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 3)
		c.StartAll()
		c.Agree("3")
		var mu sync.Mutex
		holders := map[batuta.ID]batuta.Token{}
		for _, id := range []batuta.ID{"1", "2", "3"} {
			go c.Node(id).Election("pool", batuta.Seats(2)).Lead(t.Context(), func(ctx context.Context, l batuta.Leadership) error {
				mu.Lock()
				holders[id] = l.Token
				mu.Unlock()
				<-ctx.Done()
				mu.Lock()
				delete(holders, id)
				mu.Unlock()
				return nil
			})
		}
		time.Sleep(3 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		tokens := map[batuta.Token]bool{}
		for _, token := range holders {
			tokens[token] = true
		}
		if len(holders) != 2 || len(tokens) != 2 {
			t.Errorf("holders %v", holders)
		}
		if got := c.Node("3").Election("pool").Leaders(); len(got) != 2 {
			t.Errorf("3 sees %v", got)
		}
	})
}

// While the work of the leader stops, the target's candidacy may end. A transfer reports that when another member leads,
// or when there is no candidate.
func TestATransferToOneThatWithdraws(t *testing.T) {
	for name, test := range map[string]struct {
		seats       int
		third, dies bool // a third member is a candidate; the leader dies
		reports     string
	}{
		"the leader leads again":       {1, false, false, `member 1 leads election "jobs" instead of 2`},
		"the third member leads":       {1, true, true, `member 3 leads election "jobs" instead of 2`},
		"there is no candidate":        {1, false, true, `member 2 is not a candidate for election "jobs"`},
		"the leader of a seat returns": {2, true, false, `member 2 is not a candidate for election "jobs"`},
		"a seat stays empty":           {2, true, true, `member 2 is not a candidate for election "jobs"`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := transferWithdrawn(t, test.seats, test.third, test.dies)
				if !errors.Is(err, batuta.ErrRefusedElection) || !strings.Contains(err.Error(), test.reports) {
					t.Errorf("transferred: %v", err)
				}
			})
		})
	}
}

func transferWithdrawn(t *testing.T, seats int, third, dies bool) error {
	c := batutatest.New(t, 4)
	c.StartAll()
	c.Agree("4")
	release := make(chan struct{})
	lead := func(id batuta.ID) context.CancelFunc {
		ctx, stop := context.WithCancel(t.Context())
		go c.Node(id).Election("jobs", batuta.Seats(seats)).Lead(ctx, func(ctx context.Context, _ batuta.Leadership) error {
			<-ctx.Done()
			<-release
			return nil
		})
		time.Sleep(time.Second)
		return stop
	}
	lead("1")
	if third {
		lead("3")
	}
	leave := lead("2")
	done := make(chan error, 1)
	go func() {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		done <- c.Node("4").Election("jobs").Transfer(ctx, "2")
	}()
	time.Sleep(time.Second)
	leave()
	time.Sleep(time.Second)
	time.AfterFunc(time.Second, func() { close(release) })
	if dies {
		c.Kill("1") // returns when its work has
	}
	return <-done
}

// lateContext is that of a caller that is stopped for a while each time it begins to wait.
type lateContext struct{ context.Context }

func (c lateContext) Done() <-chan struct{} {
	time.Sleep(5 * time.Second)
	return c.Context.Done()
}

// The leader after a transfer that failed may be elected before the caller goes on.
func TestATransferThatHasFailedBeforeItsCallerGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 4)
		c.StartAll()
		c.Agree("4")
		asked, release := make(chan struct{}, 1), make(chan struct{})
		lead := func(id batuta.ID) context.CancelFunc {
			ctx, stop := context.WithCancel(t.Context())
			go c.Node(id).Election("jobs").Lead(ctx, func(ctx context.Context, _ batuta.Leadership) error {
				<-ctx.Done()
				asked <- struct{}{}
				<-release
				return nil
			})
			time.Sleep(time.Second)
			return stop
		}
		lead("1")
		leave := lead("2")
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		done := make(chan error, 1)
		go func() { done <- c.Node("4").Election("jobs").Transfer(lateContext{ctx}, "2") }()
		<-asked
		leave()
		time.Sleep(time.Second)
		close(release)
		if err := <-done; !errors.Is(err, batuta.ErrRefusedElection) {
			t.Errorf("transferred: %v", err)
		}
	})
}

// leadInTurn makes members candidates of the election jobs, one after the other, until the test ends.
func leadInTurn(t *testing.T, c *batutatest.Cluster, ids ...batuta.ID) {
	t.Helper()
	for _, id := range ids {
		go c.Node(id).Election("jobs").Lead(t.Context(), func(ctx context.Context, _ batuta.Leadership) error {
			<-ctx.Done()
			return nil
		})
		time.Sleep(time.Second)
	}
}

// A coordinator may fail after its answer and before the leader receives its request: the next coordinator is
// asked for the transfer.
func TestATransferSurvivesItsCoordinator(t *testing.T) {
	for _, by := range []batuta.ID{"2", "3"} {
		t.Run("asked by "+string(by), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := batutatest.New(t, 4)
				c.Latency(func() time.Duration { return 20 * time.Millisecond })
				c.StartAll()
				c.Agree("4")
				leadInTurn(t, c, "1", "2")
				done := make(chan error, 1)
				go func() {
					ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
					defer stop()
					done <- c.Node(by).Election("jobs").Transfer(ctx, "2")
				}()
				time.Sleep(10 * time.Millisecond)
				c.Cut("4", "1")
				time.Sleep(35 * time.Millisecond)
				c.Kill("4")
				if err := <-done; err != nil || c.Node(by).Election("jobs").Leader().Token.Leader.ID != "2" {
					t.Errorf("transferred: %v, %v", err, c.Node(by).Election("jobs").Leader())
				}
			})
		})
	}
}

// The next coordinator may fail too, just before it is asked: the one after that does not know the candidates yet.
func TestATransferSurvivesTwoCoordinators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 5)
		c.Latency(func() time.Duration { return 20 * time.Millisecond })
		c.StartAll()
		c.Agree("5")
		leadInTurn(t, c, "1", "2")
		done := make(chan error, 1)
		go func() { done <- c.Node("3").Election("jobs").Transfer(t.Context(), "2") }()
		time.Sleep(10 * time.Millisecond)
		c.Cut("5", "1")
		time.Sleep(35 * time.Millisecond)
		c.Kill("5")
		for range 3000 {
			if c.Node("3").Leader().Token.Leader.ID == "4" {
				break
			}
			time.Sleep(time.Millisecond)
		}
		time.Sleep(1210 * time.Millisecond)
		c.Kill("4")
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Error("Transfer does not return")
		}
	})
}

// An election has the seats that its candidates ask for. A seat that has ended is not listed, or it would count as leaderless.
func TestSeatsThatEndAreNotListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 3)
		c.StartAll()
		c.Agree("3")
		lead := func(id batuta.ID, seats int) context.CancelFunc {
			ctx, stop := context.WithCancel(t.Context())
			go c.Node(id).Election("pool", batuta.Seats(seats)).Lead(ctx, func(ctx context.Context, _ batuta.Leadership) error {
				<-ctx.Done()
				return nil
			})
			time.Sleep(time.Second)
			return stop
		}
		lead("1", 1)
		leave := lead("2", 3)
		lead("3", 1)
		leave()
		time.Sleep(3 * time.Second)
		for _, id := range []batuta.ID{"1", "2", "3"} {
			if list := c.Node(id).ListElections(); len(list) != 1 || !list[0].Defined() {
				t.Errorf("%s lists %v", id, list)
			}
			var first []batuta.View
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			for v, err := range c.Node(id).Elections(ctx) {
				if err == nil {
					first = append(first, v)
				}
			}
			stop()
			if len(first) != 1 {
				t.Errorf("%s shows %v", id, first)
			}
		}
	})
}
