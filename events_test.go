package batuta

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta/election/bully"
)

// epoch is a leadership of member 1.
func epoch(e uint64) Token { return Token{Epoch: e, Leader: Rank{ID: "1"}} }

// A reader that is called for late begins with the leader event of the leadership
// that has ended since.
func TestTheFirstEventOfALeadershipIsItsLeader(t *testing.T) {
	alone(t, func(t *testing.T, n *Node) {
		if err := n.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var kinds []EventKind
		for ev, err := range n.Events(ctx) {
			if kinds = append(kinds, ev.Kind); err != nil || len(kinds) == 2 {
				cancel()
			}
			if token := epoch(1); ev.View.Token != token && ev.View.Lost != token {
				t.Errorf("%s of another leadership: %+v", ev.Kind, ev.View)
			}
		}
		if !slices.Equal(kinds, []EventKind{EventLeader, EventLost}) {
			t.Errorf("events %q, want leader and lost", kinds)
		}
	})
}

// What is taken up before Run has the whole life of the node, however late it is read.
func TestEventsTakenUpBeforeRunMissNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []Token
		n, err := New(Config{ID: "1", Algorithm: bully.New(), Transport: newNowhere()})
		if err != nil {
			t.Fatal(err)
		}
		events := n.Events(context.Background())
		t.Cleanup(func() {
			for ev := range events {
				if ev.Kind == EventStanding {
					continue
				}
				told = append(told, ev.View.Token, ev.View.Lost)
			}
			one, two := epoch(1), epoch(2)
			if !slices.Equal(told, []Token{one, {}, {}, one, two, {}, {}, two}) {
				t.Errorf("told %v", told)
			}
		})
		go n.Run(t.Context())
		waitView(t, n, "it leads", View.Defined)
		if err := n.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		waitView(t, n, "it leads again", View.Defined)
		n.Close()
	})
}

// change makes an event.
func change(t *testing.T, n *Node, i int) {
	t.Helper()
	if err := n.AddMember(t.Context(), Peer{ID: "3", Addr: "127.0.0.1:" + strconv.Itoa(10000+i)}); err != nil {
		t.Fatal(err)
	}
}

func TestAReaderThatStopsIsEnded(t *testing.T) {
	alone(t, func(t *testing.T, n *Node) {
		n.history.Limit(10)
		events := 0
		for ev, err := range n.Events(t.Context()) {
			if events++; events == 2 {
				if err != ErrBehind || !reflect.DeepEqual(ev, Event{}) {
					t.Errorf("%+v, %v: it is told to a reader that has missed something", ev, err)
				}
				continue
			}
			for i := range 11 {
				change(t, n, i)
			}
		}
		if events != 2 || n.history.Readers() > 0 {
			t.Errorf("%d events, and %d readers are left", events, n.history.Readers())
		}
	})
}

func TestAWatcherThatStopsIsToldSo(t *testing.T) {
	alone(t, func(t *testing.T, n *Node) {
		n.history.Limit(10)
		var views []View
		told := false
		for v, err := range n.Watch(t.Context()) {
			if err != nil {
				told = true
				if err != ErrBehind || v.Defined() {
					t.Errorf("ended by %v with %+v", err, v)
				}
				break
			}
			views = append(views, v)
			for i := range 11 {
				change(t, n, i)
			}
		}
		if len(views) != 1 || !told {
			t.Errorf("views %+v; told that it has missed some: %v", views, told)
		}
	})
}

// A reader at the limit misses nothing.
func TestAReaderAtTheLimitGoesOn(t *testing.T) {
	alone(t, func(t *testing.T, n *Node) {
		n.history.Limit(10)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		seen := 0
		for ev, err := range n.Events(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.Kind == EventLeader {
				for i := range 10 {
					change(t, n, i)
				}
				continue
			}
			if seen++; seen == 10 {
				break
			}
			change(t, n, 10+seen) // the distance stays
		}
	})
}

// What Elections gives is read again from what is so then.
func TestElectionsAreReadAgain(t *testing.T) {
	n := &Node{candidacies: candidacies{elections: newElections()}}
	lead := func(epoch uint64) {
		n.candidacies.elections.tell(View{Election: "a", Token: Token{Epoch: epoch, Leader: Rank{ID: "1"}}})
	}
	lead(1)
	views := n.Elections(t.Context())
	lead(2)
	for _, want := range []uint64{1, 3} {
		for v := range views {
			if v.Token.Epoch != want {
				t.Errorf("it begins with epoch %d, want %d", v.Token.Epoch, want)
			}
			break
		}
		lead(3)
	}
}

// A reader that begins while no member leads receives the leadership that ended before its loss.
func TestALossFollowsItsLeadership(t *testing.T) {
	n := &Node{candidacies: candidacies{elections: newElections()}}
	token := func(epoch uint64) Token { return Token{Epoch: epoch, Leader: Rank{ID: "1"}} }
	tell := func(v View) { v.Election = "a"; n.candidacies.elections.tell(v) }
	tell(View{Token: token(1)})
	tell(View{Lost: token(1)})
	tell(View{Token: token(2)})
	tell(View{Lost: token(2), Cause: CauseCrashed})
	views := n.Elections(t.Context())
	tell(View{Token: token(3)})
	n.candidacies.elections.forget("a", 0)
	later := n.Elections(t.Context())
	n.candidacies.elections.end()
	var got []string
	for v := range views {
		got = append(got, v.Token.String()+"/"+v.Lost.String())
	}
	if want := []string{"2:1/", "/2:1", "3:1/"}; !slices.Equal(got, want) {
		t.Errorf("views %q, want %q", got, want)
	}
	for v := range later {
		t.Errorf("%+v of an election that no member stands for", v)
	}
	if len(n.candidacies.elections.views) > 0 {
		t.Errorf("%v is kept", n.candidacies.elections.views)
	}
}

// That every leader of many elections is another is no more than a reader may be behind.
func TestAReaderOfElectionsMayMissNoChangeOfAll(t *testing.T) {
	const names = MaxBacklog
	n := &Node{candidacies: candidacies{elections: newElections()}}
	changeAll := func(epoch uint64) {
		for i := range names {
			name, token := strconv.Itoa(i), Token{Epoch: epoch, Leader: Rank{ID: "1"}}
			n.candidacies.elections.tell(View{Election: name, Lost: token})
			n.candidacies.elections.tell(View{Election: name, Token: token})
		}
	}
	changeAll(1)
	events := n.Elections(t.Context())
	changeAll(2)
	n.candidacies.elections.end()
	seen := 0
	for v, err := range events {
		if err != nil {
			t.Fatal(v, err)
		}
		seen++
	}
	if seen != 3*names {
		t.Errorf("%d views, want the %d present ones and two changes of each", seen, names)
	}
}

// A loss that is noticed late names when the leader was last heard.
func TestALossNamesTheLastSign(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 3)
		c.startAll()
		c.agree("3")
		lost := func(n *Node, do func()) (at, sign time.Time) {
			last := n.history.Last()
			go do()
			for last = n.history.Next(t.Context(), last); last.Event.Kind != EventLost; last = n.history.Next(t.Context(), last) {
			}
			return last.Event.Time, last.Event.View.LastSeen
		}
		if at, sign := lost(c.nodes["1"], func() { c.nodes["3"].Resign(t.Context()) }); !sign.Equal(at) {
			t.Errorf("resigned at %v: the last sign is that, and not %v", at, sign)
		}
		c.agree("2")
		leader, follower := c.nodes["2"], c.nodes["1"]
		bears := leader.cfg.timing().Bears()
		time.Sleep(20 * bears) // a leadership that is older than any silence
		began := leader.history.Last()
		at, sign := lost(follower, func() { leader.call(t.Context(), func() { time.Sleep(3 * bears) }) })
		if silent := at.Sub(sign); silent < bears || silent > 2*bears {
			t.Errorf("a leader that is frozen was silent for %v when that was noticed, want %v or somewhat more", silent, bears)
		}
		for began = leader.history.Next(t.Context(), began); began.Event.Kind != EventLost; began = leader.history.Next(t.Context(), began) {
		}
		if ev := began.Event; ev.View.Cause != CauseStalled || ev.Time.Sub(ev.View.LastSeen) < 3*bears {
			t.Errorf("%v: its loop ran last %v before, want %v", ev.View.Cause, ev.Time.Sub(ev.View.LastSeen), 3*bears)
		}
		token := c.agree(follower.Leader().Token.Leader.ID)
		time.Sleep(20 * bears)
		for _, n := range c.nodes {
			if n.ID() == token.Leader.ID {
				continue
			}
			if at, sign := lost(n, func() { c.kill(token.Leader.ID) }); at.Sub(sign) > n.cfg.timing().Heartbeat+bears/2 {
				t.Errorf("a leader that crashed was silent for %v, want one heartbeat at most", at.Sub(sign))
			}
			break
		}
	})
}

// Any name can be watched, by any client: what is kept for it ends with its last reader.
func TestANameIsForgottenWithItsLastReader(t *testing.T) {
	c := newCluster(t, 1)
	c.startAll()
	n := c.nodes["1"]
	stay := n.Election("stays").Watch(t.Context())
	for i := range 1000 {
		for range n.Election(fmt.Sprintf("other-%d", i)).Watch(t.Context()) {
			break
		}
	}
	kept := func() (names []string) {
		n.candidacies.elections.mu.Lock()
		defer n.candidacies.elections.mu.Unlock()
		return slices.Sorted(maps.Keys(n.candidacies.elections.names))
	}
	within(t, "the names without a reader are forgotten", func() bool {
		runtime.GC()
		return len(kept()) == 1
	})
	go n.Election("stays").Lead(t.Context(), func(ctx context.Context, _ Leadership) error {
		<-ctx.Done()
		return nil
	})
	for range 2 { // the same reader again, from the then present view on
		for v := range stay {
			if v.Defined() {
				break
			}
		}
	}
	runtime.KeepAlive(stay)
}
