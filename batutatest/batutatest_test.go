package batutatest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutatest"
	"github.com/batuta-dev/batuta/election/ring"
)

// Five nodes in one process: killed, cut, healed and started again by calls; what they
// wait takes no time.
func TestFiveNodesInOneProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		c := batutatest.New(t, 5)
		c.StartAll()
		c.Agree("5")
		c.Kill("5")
		first := c.Agree("4")
		if time.Since(began) > 10*time.Second {
			t.Errorf("a kill was seen after %v", time.Since(began))
		}
		c.Part("1", "2")
		c.Agree("2", "1", "2")
		c.Agree("4", "3", "4")
		c.Heal()
		healed := c.Agree("4")
		if !healed.Above(first) {
			t.Errorf("one leads by %v, and led by %v before", healed, first)
		}
		c.Start("5")
		c.Agree("5")
		c.PowerOff("5")
		c.Agree("4")
		c.Heal()
		c.Start("5")
		last := c.Agree("5")
		time.Sleep(5 * time.Minute)
		if now := c.Agree("5"); now != last {
			t.Errorf("in five calm minutes the leadership went from %v to %v", last, now)
		}
		c.Stop("5")
		c.Agree("4")
	})
}

// What a leader runs is cancelled when it is killed, or cut off for too long.
func TestWorkMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 3, func(cfg *batuta.Config) { cfg.Algorithm = ring.New() })
		c.Latency(func() time.Duration { return 5 * time.Millisecond })
		works := make(chan string, 8)
		for _, id := range []batuta.ID{"1", "2", "3"} {
			n := c.Start(id)
			go n.Lead(t.Context(), func(ctx context.Context, l batuta.Leadership) error {
				works <- "begins at " + string(l.Token.Leader.ID)
				<-ctx.Done()
				works <- "ends at " + string(l.Token.Leader.ID)
				return ctx.Err()
			})
		}
		expect := func(want ...string) {
			t.Helper()
			for range want {
				if got := <-works; got != want[0] && got != want[len(want)-1] {
					t.Errorf("work %s, want %q", got, want)
				}
			}
		}
		c.Agree("3")
		synctest.Wait()
		for len(works) > 0 {
			<-works // who led before all had started
		}
		c.Kill("3")
		expect("ends at 3", "begins at 2")
		c.Agree("2")
		c.Isolate("2")
		c.Agree("1", "1")
		expect("begins at 1")
	})
}

// What cannot be meant fails the test where it stands.
func TestMistakes(t *testing.T) {
	for what, f := range map[string]func(t testing.TB){
		"nobody":               func(t testing.TB) { batutatest.New(t, 0) },
		"a change that is nil": func(t testing.TB) { batutatest.New(t, 1, nil) },
		"nobody runs":          func(t testing.TB) { batutatest.New(t, 1).Agree("1") },
		"a cut from nobody":    func(t testing.TB) { batutatest.New(t, 2).Cut("1", "3") },
		"nobody alone":         func(t testing.TB) { batutatest.New(t, 2).Isolate("3") },
		"a join of nobody":     func(t testing.TB) { batutatest.New(t, 2).Join() },
		"a start of nobody":    func(t testing.TB) { batutatest.New(t, 2).Start("3") },
		"a freeze of nobody":   func(t testing.TB) { batutatest.New(t, 2).Freeze("2") },
		"a thaw of the awake":  func(t testing.TB) { c := batutatest.New(t, 1); c.Start("1"); c.Thaw("1") },
		"a node of nobody":     func(t testing.TB) { batutatest.New(t, 1).Node("2") },
		"a node not started":   func(t testing.TB) { batutatest.New(t, 1).Node("1") },
		"frozen twice":         func(t testing.TB) { frozen(t).Freeze("1") },
		"a stop of the frozen": func(t testing.TB) { frozen(t).Stop("1") },
	} {
		tried := &trial{TB: t}
		var wg sync.WaitGroup
		wg.Go(func() { f(tried) })
		wg.Wait()
		if tried.said == "" {
			t.Errorf("%s: the test goes on", what)
		}
	}
}

// The node of a member that was killed reports that it has ended.
func TestANodeThatWasKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 2)
		c.StartAll()
		c.Agree("2")
		c.Kill("2")
		err := c.Node("2").Lead(t.Context(), func(context.Context, batuta.Leadership) error { return nil })
		if !errors.Is(err, batuta.ErrClosed) {
			t.Errorf("Lead: %v", err)
		}
		if v := c.Node("2").Leader(); c.Node("2").IsLeader() || v.Defined() {
			t.Errorf("it follows %v", v)
		}
		if again := c.Start("2"); c.Node("2") != again {
			t.Error("the node is not that of the second start")
		}
		c.Agree("2")
	})
}

// frozen makes a cluster of one member, which is frozen.
func frozen(t testing.TB) *batutatest.Cluster {
	c := batutatest.New(t, 1)
	c.Start("1")
	c.Freeze("1")
	return c
}

// trial is a test that notes why it has failed.
type trial struct {
	testing.TB
	said string
}

func (t *trial) Fatal(args ...any) { t.Fatalf("%s", fmt.Sprint(args...)) }

func (t *trial) Fatalf(format string, args ...any) {
	t.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func ExampleNew() {
	var t *testing.T // the test's own
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 3)
		c.StartAll()
		c.Agree("3")
		c.Isolate("3") // the others elect, and it leads on alone
		c.Agree("2", "1", "2")
		fmt.Println(c.Node("3").IsLeader())
		c.Heal()
		c.Agree("3")
	})
}

// A newcomer joins through those that run, and again after a kill.
func TestANewcomerJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 2)
		c.StartAll()
		c.Agree("2")
		c.Join()
		c.Agree("3")
		c.Kill("3")
		c.Agree("2")
		c.Start("3")
		c.Agree("3")
		if s, err := c.Node("1").Status(t.Context()); err != nil || len(s.Members) != 3 {
			t.Errorf("1 lists %d members, %v", len(s.Members), err)
		}
	})
}
