package batutatest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutatest"
)

var _ batuta.Elector = (*batutatest.Elector)(nil)

// The work of a service runs between Elect and Lose, under the token of Elect, and knows why it ends.
func TestElector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := batutatest.NewElector(t)
		var log []string
		enough := errors.New("enough")
		ended := make(chan error)
		leave := make(chan struct{})
		go func() {
			ended <- e.Lead(t.Context(), func(ctx context.Context, l batuta.Leadership) error {
				epoch, fence := l.Fence()
				under, _ := batuta.LeadershipFrom(ctx)
				log = append(log, fmt.Sprint("begins ", epoch, fence, under == l))
				select {
				case <-ctx.Done():
					time.Sleep(time.Second)
					log = append(log, fmt.Sprint(context.Cause(ctx)))
					return nil
				case <-leave:
					return enough
				}
			})
		}()
		expect := func(wanted ...string) {
			t.Helper()
			synctest.Wait()
			if got := fmt.Sprintf("%q", log); got != fmt.Sprintf("%q", wanted) {
				t.Errorf("the work has done %s, want %q", got, wanted)
			}
			log = nil
		}
		expect()
		first := e.Elect()
		expect("begins 1 true true")
		if !e.IsLeader() || e.Leader().Token != first {
			t.Errorf("it leads under %s, and the view is %v", first, e.Leader())
		}
		e.Lose(batuta.CauseStalled)
		expect("leadership 1:1 lost: stalled")
		if v := e.Leader(); e.IsLeader() || v.Lost != first || v.Cause != batuta.CauseStalled {
			t.Errorf("it is lost: %+v", v)
		}
		e.Elect()
		expect("begins 2 true true")
		other := e.Follow("2", map[string]string{"url": "there"})
		expect("leadership 2:1 lost: superseded")
		if v := e.Leader(); e.IsLeader() || v.Token != other || v.Meta["url"] != "there" || !other.Above(first) {
			t.Errorf("2 leads: %+v", v)
		}
		e.BestEffort = true
		e.Elect()
		expect("begins 0 false true")
		close(leave)
		if err := <-ended; err != enough || e.IsLeader() || e.Leader().Cause != batuta.CauseResigned {
			t.Errorf("the work has returned: %v, and the view is %+v", err, e.Leader())
		}
		if err := e.Lead(t.Context(), nil); !errors.Is(err, batuta.ErrConfig) {
			t.Errorf("Lead without a function: %v", err)
		}
	})
}

// Requests, what is acquired, and watchers see what they see of a node.
func TestElectorHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := batutatest.NewElector(t)
		if _, _, err := e.Hold(t.Context()); !errors.Is(err, batuta.ErrNotLeading) {
			t.Errorf("Hold, and no member leads: %v", err)
		}
		var views []string
		watcher, stop := context.WithCancel(t.Context())
		go func() {
			for v, err := range e.Watch(watcher) {
				views = append(views, fmt.Sprint(v.Token, " ", v.Lost, " ", v.Cause, err))
			}
		}()
		synctest.Wait()
		e.Elect()
		ctx, release, err := e.Hold(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		short, end, err := e.Hold(t.Context())
		if end(); err != nil || short.Err() == nil || !e.IsLeader() {
			t.Errorf("a request has ended: %v, %v, it leads: %v", err, short.Err(), e.IsLeader())
		}
		time.AfterFunc(time.Second, release)
		if err := e.Resign(t.Context()); err != nil || ctx.Err() == nil {
			t.Errorf("it has resigned: %v, and the request: %v", err, ctx.Err())
		}
		began := time.Now()
		e.Elect()
		if took := time.Since(began); took != time.Second {
			t.Errorf("the next leadership begins after %v, and the request ends after 1s", took)
		}
		held, err := batuta.Acquire(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		if held.Release(); e.IsLeader() {
			t.Error("it is released, and leads")
		}
		e.Follow("2", nil)
		if _, err := batuta.TryAcquire(t.Context(), e); !errors.Is(err, batuta.ErrNotLeading) {
			t.Errorf("TryAcquire, and 2 leads: %v", err)
		}
		synctest.Wait()
		stop()
		want := []string{"  <nil>", "1:1  <nil>", " 1:1 resigned<nil>", "2:1  <nil>", " 2:1 resigned<nil>", "3:2  <nil>"}
		if fmt.Sprintf("%q", views) != fmt.Sprintf("%q", want) {
			t.Errorf("a watcher sees %q, want %q", views, want)
		}
	})
}

// An Elector ends with its test.
func TestElectorEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e *batutatest.Elector
		led := make(chan error, 1)
		var cause error
		tried := &ending{TB: t}
		e = batutatest.NewElector(tried)
		e.Elect()
		go func() {
			led <- e.Lead(context.Background(), func(ctx context.Context, _ batuta.Leadership) error {
				<-ctx.Done()
				cause = context.Cause(ctx)
				return nil
			})
		}()
		synctest.Wait()
		tried.cleanup()
		if err := <-led; err != batuta.ErrClosed || cause.Error() != "leadership 1:1 lost: stopped" {
			t.Errorf("its test has ended: %v, and the work by %v", err, cause)
		}
		if _, _, err := e.Hold(t.Context()); err != batuta.ErrClosed || e.Resign(t.Context()) != batuta.ErrClosed {
			t.Errorf("Hold after the end: %v", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := batutatest.NewElector(t).Lead(ended, func(context.Context, batuta.Leadership) error { return nil }); err != context.Canceled {
			t.Errorf("Lead with a context that has ended: %v", err)
		}
	})
}

// ending is a test that ends when cleanup is called.
type ending struct {
	testing.TB
	cleanup func()
}

func (e *ending) Cleanup(f func()) { e.cleanup = f }

// Work that does not stop fails the test.
func TestElectorWaitsForTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tried := &trial{TB: t}
		e := batutatest.NewElector(tried)
		e.Elect()
		_, release, err := e.Hold(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		over := make(chan struct{})
		go func() { defer close(over); e.Lose(batuta.CauseCrashed) }()
		<-over
		if tried.said == "" {
			t.Error("a request goes on, and the test too")
		}
		release()
	})
}

func ExampleNewElector() {
	var t *testing.T // the test's own
	service := func(ctx context.Context, e batuta.Elector) error { return nil }
	synctest.Test(t, func(t *testing.T) {
		e := batutatest.NewElector(t)
		go service(t.Context(), e) // it takes part by e.Lead, Acquire, Hold or IsLeader
		e.Elect()
		synctest.Wait() // here the test looks at what the service does as a leader
		e.Lose(batuta.CauseCrashed)
		e.Follow("2", map[string]string{"url": "http://10.0.0.2:8080"})
	})
}
