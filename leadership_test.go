package batuta

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
)

// nowhere is a network with nobody else in it.
type nowhere struct {
	shut chan struct{}
	once sync.Once
}

func newNowhere() *nowhere { return &nowhere{shut: make(chan struct{})} }

func (n *nowhere) Listen(string) (net.Listener, error) { return n, nil }

func (n *nowhere) Dial(context.Context, string) (net.Conn, error) { return nil, ErrRefused }

func (n *nowhere) Accept() (net.Conn, error) {
	<-n.shut
	return nil, net.ErrClosed
}

func (n *nowhere) Close() error {
	n.once.Do(func() { close(n.shut) })
	return nil
}

func (n *nowhere) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7401} }

// alone runs f, in virtual time, with a member that leads itself.
func alone(t *testing.T, f func(t *testing.T, n *Node)) {
	synctest.Test(t, func(t *testing.T) {
		n, err := Start(t.Context(), Config{ID: "1", Algorithm: bully.New(), Transport: newNowhere(),
			Peers: []Peer{{ID: "2", Addr: "127.0.0.1:7402"}}})
		if err != nil {
			t.Fatal(err)
		}
		waitView(t, n, "it leads", View.Defined)
		f(t, n)
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestAStalledLeaderKnowsBeforeItsLoopRuns(t *testing.T) {
	alone(t, func(t *testing.T, n *Node) {
		token := n.Leader().Token
		watch := n.history.Last()
		n.call(t.Context(), func() {
			time.Sleep(n.timeout) // the loop stands still
			if !n.IsLeader() {
				t.Error("IsLeader is false after T; it has until then")
			}
			time.Sleep(time.Nanosecond)
			if n.IsLeader() {
				t.Error("IsLeader is still true after more than T")
			}
			if v := n.Leader(); v.Defined() || v.Lost != token || v.Cause != election.CauseStalled || !v.Since.Equal(time.Now().Add(-1)) {
				t.Errorf("after more than T the view is %+v", v)
			}
		})
		first := n.history.Next(t.Context(), watch)
		if first.Event.Kind != EventLost || first.Event.View.Lost != token || first.Event.View.Cause != election.CauseStalled {
			t.Errorf("the first event after the stall is %+v", first.Event.Event)
		}
		if v := waitView(t, n, "it leads again", View.Defined); v.Token.Epoch <= token.Epoch {
			t.Errorf("token %v after %v", v.Token, token)
		}
	})
}

// Who asks a node whose loop is stuck waits no longer than it likes.
func TestAStuckLoopIsToldByWhoAsksIt(t *testing.T) {
	alone(t, func(t *testing.T, n *Node) {
		stuck := make(chan struct{})
		go n.call(t.Context(), func() { <-stuck })
		synctest.Wait()
		within, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := n.Status(within); err != context.DeadlineExceeded {
			t.Errorf("status: %v", err)
		}
		if err := n.Campaign(within); err != context.DeadlineExceeded {
			t.Errorf("campaign: %v", err)
		}
		close(stuck)
		if s, err := n.Status(t.Context()); err != nil || s.ID != "1" {
			t.Errorf("status: %v, %v", s, err)
		}
	})
}

// Nor is it kept waiting when the loop gets stuck with what it was asked.
func TestALoopThatGetsStuckWithACallIsTold(t *testing.T) {
	alone(t, func(t *testing.T, n *Node) {
		stuck := make(chan struct{})
		within, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := n.call(within, func() { <-stuck }); err != context.DeadlineExceeded {
			t.Errorf("call: %v", err)
		}
		close(stuck)
	})
}

// gated is a log that is written only while the gate is open.
type gated struct{ open chan struct{} }

func (g gated) Write(b []byte) (int, error) {
	<-g.open
	return len(b), nil
}

func TestALogThatNobodyReadsDoesNotCostTheLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := gated{make(chan struct{})}
		n, err := Start(t.Context(), Config{ID: "1", Algorithm: bully.New(), Transport: newNowhere(),
			Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		if err != nil {
			t.Fatal(err)
		}
		waitView(t, n, "it leads", View.Defined)
		token := n.Leader().Token
		for statusOf(n).LogDropped == 0 {
			change(t, n, int(time.Now().Unix()%1000))
			time.Sleep(n.timeout)
		}
		if !n.IsLeader() || n.Leader().Token != token {
			t.Errorf("it leads %v, and has led %v", n.Leader(), token)
		}
		n.Close() // nor is it waited for at the end for longer than T
		close(log.open)
	})
}

func TestLeadRunsOncePerLeadership(t *testing.T) {
	alone(t, func(t *testing.T, n *Node) {
		var led []Token
		done := errors.New("done")
		err := n.Lead(t.Context(), func(ctx context.Context, l Leadership) error {
			led = append(led, l.Token)
			if len(led) == 3 {
				return done
			}
			go n.Resign(t.Context())
			<-ctx.Done()
			var lost *LostError
			if !errors.As(context.Cause(ctx), &lost) || lost.Token != l.Token || lost.Cause != election.CauseResigned {
				t.Errorf("cancelled by %v", context.Cause(ctx))
			}
			return ctx.Err()
		})
		if err != done {
			t.Errorf("Lead gives %v", err)
		}
		if !slices.IsSortedFunc(led, Token.Compare) || len(slices.Compact(led)) != 3 {
			t.Errorf("led under %v", led)
		}
		if n.IsLeader() {
			t.Error("it still leads after its function has returned")
		}
	})
}

// Whatever has been seen since it was elected: a leader's work begins at once.
func TestLeadBeginsWithThePresentLeadership(t *testing.T) {
	alone(t, func(t *testing.T, n *Node) {
		change(t, n, 0)
		if last := n.history.Last().Event.Kind; last != EventMember {
			t.Fatalf("the last event is %q", last)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		done := errors.New("done")
		if err := n.Lead(ctx, func(_ context.Context, l Leadership) error {
			if l.Token != n.Leader().Token {
				t.Errorf("it leads under %v, its work under %v", n.Leader().Token, l.Token)
			}
			return done
		}); err != done {
			t.Errorf("Lead gives %v, and this member has led all the time", err)
		}
	})
}

func TestNoWorkBeginsUnderALeadershipThatHasEnded(t *testing.T) {
	alone(t, func(t *testing.T, n *Node) {
		led := n.Leader()
		if err := n.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		if w := n.duties.begin(t.Context(), led); w != nil {
			t.Error("it begins before the next leadership")
			n.duties.finish(w)
		}
		waitView(t, n, "it leads again", View.Defined)
		if w := n.duties.begin(t.Context(), led); w != nil {
			t.Error("it begins under the next leadership")
			n.duties.finish(w)
		}
	})
}

// onCancel has f called, on the loop, when the work that runs is told of its end.
func onCancel(t *testing.T, n *Node, f func()) {
	t.Helper()
	n.call(t.Context(), func() {
		if len(n.duties.working) == 0 {
			t.Error("nothing works")
		}
		for w := range n.duties.working {
			cancel, first := w.cancel, sync.OnceFunc(f)
			w.cancel = func(err error) { first(); cancel(err) }
		}
	})
}

// Work is the first to know: nobody sees another view before it has been told.
func TestWorkIsToldBeforeTheViewChanges(t *testing.T) {
	alone(t, func(t *testing.T, n *Node) {
		begun, seen := make(chan Token), View{}
		go n.Lead(t.Context(), func(ctx context.Context, l Leadership) error {
			begun <- l.Token
			<-ctx.Done()
			return nil
		})
		token := <-begun
		onCancel(t, n, func() { seen = n.view() })
		if err := n.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		if seen.Token != token {
			t.Errorf("when it was told the view was %+v", seen)
		}
		<-begun
	})
}

// After a stall IsLeader stays false until everyone knows.
func TestAStalledLeaderDoesNotLeadWhileItsWorkIsTold(t *testing.T) {
	alone(t, func(t *testing.T, n *Node) {
		begun, leads := make(chan Token), true
		go n.Lead(t.Context(), func(ctx context.Context, l Leadership) error {
			begun <- l.Token
			<-ctx.Done()
			return nil
		})
		<-begun
		onCancel(t, n, func() { leads = n.IsLeader() })
		n.call(t.Context(), func() { time.Sleep(2 * n.timeout) })
		<-begun // the next leadership
		if leads {
			t.Error("IsLeader was true between the stall and the loss")
		}
	})
}

// The lead is given away when the last of several functions has returned.
func TestTheLeadWaitsForEveryFunction(t *testing.T) {
	alone(t, func(t *testing.T, n *Node) {
		first := n.Leader().Token
		slow := make(chan struct{})
		var all sync.WaitGroup
		for _, wait := range []chan struct{}{nil, slow} {
			all.Go(func() {
				n.Lead(t.Context(), func(ctx context.Context, l Leadership) error {
					if l.Token != first {
						return nil
					}
					<-ctx.Done()
					if wait != nil {
						<-wait
					}
					return nil
				})
			})
		}
		synctest.Wait()
		if err := n.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * n.timeout)
		if v := n.Leader(); v.Defined() {
			t.Errorf("%v leads, and one of two functions still runs", v.Token)
		}
		close(slow)
		all.Wait()
	})
}

func TestTheLeadIsGivenAwayOnlyWhenTheWorkHasReturned(t *testing.T) {
	alone(t, func(t *testing.T, n *Node) {
		ctx, cancel := context.WithCancel(t.Context())
		begun, slow := make(chan Token, 2), make(chan struct{})
		ended := make(chan error)
		go func() {
			ended <- n.Lead(ctx, func(ctx context.Context, l Leadership) error {
				begun <- l.Token
				<-ctx.Done()
				<-slow
				return nil
			})
		}()
		first := <-begun
		if err := n.Resign(ctx); err != nil {
			t.Fatal(err)
		}
		if n.IsLeader() {
			t.Error("it leads after it has resigned")
		}
		time.Sleep(10 * n.timeout)
		if n.IsLeader() || len(begun) > 0 {
			t.Error("it leads again while its earlier work still runs")
		}
		close(slow)
		if second := <-begun; second.Epoch <= first.Epoch {
			t.Errorf("led under %v after %v", second, first)
		}
		cancel()
		if err := <-ended; err != context.Canceled {
			t.Errorf("Lead gives %v", err)
		}
		if n.IsLeader() {
			t.Error("it leads after Lead's context has ended")
		}
	})
}

func TestShutdownWaitsForTheWork(t *testing.T) {
	alone(t, func(t *testing.T, n *Node) {
		begun, ended := make(chan struct{}), make(chan error, 1)
		var returned time.Time
		go func() {
			ended <- n.Lead(t.Context(), func(ctx context.Context, l Leadership) error {
				close(begun)
				<-ctx.Done()
				if lost := new(LostError); !errors.As(context.Cause(ctx), &lost) || lost.Cause != election.CauseStopped {
					t.Errorf("cancelled by %v", context.Cause(ctx))
				}
				time.Sleep(time.Minute)
				returned = time.Now()
				return nil
			})
		}()
		<-begun
		if err := n.Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		if returned.IsZero() {
			t.Error("Shutdown has returned before the work")
		}
		if err := <-ended; err != ErrClosed {
			t.Errorf("Lead gives %v", err)
		}
		if err := n.Resign(t.Context()); err != ErrClosed {
			t.Errorf("Resign gives %v", err)
		}
		if s := statusOf(n); s.ID != "1" || s.Lost[election.CauseStopped] != 1 {
			t.Errorf("the last status is %+v", s)
		}
	})
}

func TestAPanicOfTheWorkEndsIt(t *testing.T) {
	alone(t, func(t *testing.T, n *Node) {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			n.Lead(t.Context(), func(context.Context, Leadership) error { panic("work") })
		}()
		if n.IsLeader() {
			t.Error("it still leads")
		}
	})
}

func TestEveryWatcherSeesEveryViewInOrder(t *testing.T) {
	alone(t, func(t *testing.T, n *Node) {
		const rounds, watchers = 5, 3
		seen := make([][]View, watchers)
		var all sync.WaitGroup
		for w := range watchers {
			all.Go(func() {
				for v := range n.Watch(t.Context()) {
					time.Sleep(time.Duration(w) * time.Hour) // one slower than the other
					seen[w] = append(seen[w], v)
				}
			})
		}
		synctest.Wait()
		for range rounds {
			if err := n.Resign(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := n.Campaign(t.Context()); err != nil {
				t.Fatal(err)
			}
			waitView(t, n, "it leads again", View.Defined)
		}
		n.Close()
		all.Wait()
		for w, views := range seen {
			if len(views) != 2*rounds+2 { // and the loss at the end
				t.Errorf("watcher %d saw %d views: %+v", w, len(views), views)
			}
			for i, v := range views {
				if v.Defined() == (i%2 == 1) || i > 0 && !v.Defined() && v.Lost != views[i-1].Token {
					t.Errorf("watcher %d: view %d is %+v after %+v", w, i, v, views[max(i-1, 0)])
				}
			}
		}
	})
}

// A follower would find out on the day it leads.
func TestLeadWithoutWorkIsRefusedAtOnce(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 2)
		c.startAll()
		c.agree("2")
		n := c.nodes["1"]
		each := n.LeadEach(t.Context(), []*Election{n.Election("shard")}, nil)
		for _, err := range []error{n.Lead(t.Context(), nil), n.Election("shard").Lead(t.Context(), nil), each} {
			if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "give the work") {
				t.Errorf("got %v", err)
			}
		}
		if s := statusOf(n); s.Standing != StandingEligible {
			t.Errorf("it stands no more: %s", s.Standing)
		}
	})
}

// What was acquired is valid by the clock, and for its own leadership alone.
func TestHeldIsValidByTheClock(t *testing.T) {
	alone(t, func(t *testing.T, n *Node) {
		first, err := Acquire(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		n.call(t.Context(), func() {
			time.Sleep(n.timeout + time.Nanosecond) // the loop stands still
			if first.Valid() || first.Context().Err() != nil {
				t.Errorf("after more than T: valid: %v, context: %v", first.Valid(), first.Context().Err())
			}
		})
		<-first.Context().Done()
		first.Release()
		second, err := Acquire(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		if first.Valid() || !second.Valid() || !second.Token.Above(first.Token) {
			t.Errorf("%v is valid: %v, and then %v: %v", first.Token, first.Valid(), second.Token, second.Valid())
		}
		second.Release()
	})
}

// A pause that is over before this member has received it ends the call, too.
func TestAShortPauseEnds(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 2)
		c.startAll()
		c.agree("2")
		for _, length := range []time.Duration{1, time.Millisecond, 20 * time.Millisecond, time.Second} {
			for _, n := range c.nodes {
				ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
				if err := n.Pause(ctx, length); err != nil {
					t.Errorf("pause of %v at %s: %v", length, n.ID(), err)
				}
				stop()
				time.Sleep(2 * time.Second)
			}
		}
	})
}

// A member that has not received a pause yet ends it all the same.
func TestAPauseEndsWhereItIsNotKnown(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 2)
		c.startAll()
		c.agree("2")
		if err := c.nodes["2"].Pause(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		if s := statusOf(c.nodes["1"]); !s.Paused.IsZero() {
			t.Fatal("1 has received the pause")
		}
		if err := c.nodes["1"].Pause(t.Context(), 0); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		for _, n := range c.nodes {
			if s := statusOf(n); !s.Paused.IsZero() {
				t.Errorf("%s: the pause goes on until %v", n.ID(), s.Paused)
			}
		}
	})
}

// A pause that this member knew before is no sign that the new one has arrived, and one that another member
// has ended meanwhile does not arrive.
func TestAPauseIsChangedWhereItIsAskedFor(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 2)
		c.startAll()
		c.agree("2")
		n := c.nodes["1"]
		for _, length := range []time.Duration{time.Minute, time.Hour, 2 * time.Second} {
			if err := n.Pause(t.Context(), length); err != nil {
				t.Fatal(err)
			}
			s, err := n.Status(t.Context())
			if left := time.Until(s.Paused); err != nil || left < length-time.Second || left > length {
				t.Errorf("a pause of %v ends in %v", length, left)
			}
		}
		ended := make(chan error, 1)
		go func() { ended <- n.Pause(t.Context(), time.Hour) }()
		for s, _ := c.nodes["2"].Status(t.Context()); time.Until(s.Paused) < time.Minute; s, _ = c.nodes["2"].Status(t.Context()) {
			time.Sleep(time.Microsecond)
		}
		if err := c.nodes["2"].Pause(t.Context(), 0); err != nil {
			t.Error(err)
		}
		began := time.Now()
		if err := <-ended; err != nil || time.Since(began) > 5*time.Second {
			t.Errorf("a pause that another member ended: %v after %v", err, time.Since(began))
		}
	})
}
