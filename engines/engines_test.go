package engines_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/electiontest/electortest"
	"github.com/batuta-dev/batuta/engines"
)

var _ batuta.Elector = (*engines.Election)(nil)

// What an engine has to give is little: with that, an election keeps all that an
// Elector promises.
func TestConformance(t *testing.T) {
	electortest.RunIn(t, synctest.Test, func(t *testing.T) electortest.Candidates {
		m, lines := newMemory(), map[batuta.ID]*line{}
		return electortest.Candidates{
			OneLeader: true,
			Start: func(id batuta.ID) electortest.Candidate {
				lines[id] = &line{memory: m}
				return start(t, lines[id], engines.Config{ID: id})
			},
			Cut: func(id batuta.ID) func() { return lines[id].sever() },
			Fail: func() func() {
				m.fail(true)
				return func() { m.fail(false) }
			},
		}
	})
}

func (m *memory) fail(down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = down
}

func start(t *testing.T, engine engines.Engine, c engines.Config) *engines.Election {
	t.Helper()
	c.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	e, err := engines.Start(t.Context(), engine, c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// leads waits until e leads.
func leads(t *testing.T, e *engines.Election) batuta.View {
	t.Helper()
	for v := range e.Watch(t.Context()) {
		if v.Token.Leader.ID == e.ID() {
			return v
		}
	}
	t.Fatal("it is closed")
	return batuta.View{}
}

// A leader that the engine does not answer stops before its lease ends, its work has
// Stop to do the same, and the next one begins when the lease has been seen to end.
func TestALeadershipEndsBeforeItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		one, two := &line{memory: m}, &line{memory: m}
		a := start(t, one, engines.Config{ID: "1", StandAlways: true})
		defer a.Close()
		leads(t, a)
		b := start(t, two, engines.Config{ID: "2", StandAlways: true})
		defer b.Close()
		time.Sleep(time.Minute)
		cut := time.Now()
		one.sever()
		lost := time.Time{}
		for v := range a.Watch(t.Context()) {
			if !v.Defined() {
				lost = time.Now()
				if v.Cause != batuta.CauseSilent {
					t.Errorf("it is lost by %q", v.Cause)
				}
				break
			}
		}
		if why := statusOf(a).StandingWhy; !strings.Contains(why, " within 3s: context deadline exceeded") {
			t.Errorf("the status of the leader that was cut off has %q", why)
		}
		leads(t, b)
		next := time.Now()
		const lease, stop, renew = engines.DefaultLease, engines.DefaultLease / 5, engines.DefaultLease / 6
		if d := lost.Sub(cut); d < lease-stop-renew-time.Second || d > lease-stop {
			t.Errorf("a leader that was cut off leads for %v", d)
		}
		if d := next.Sub(lost); d < stop {
			t.Errorf("the next one leads %v later; the work was promised %v to stop", d, stop)
		}
		if d := next.Sub(cut); d > lease+time.Second {
			t.Errorf("the next one leads %v after the cut, which is longer than the lease", d)
		}
	})
}

// A claim whose answer never came is given up when it is seen, not waited out.
func TestAClaimWhoseAnswerIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		l := &line{memory: m, lose: true}
		e := start(t, l, engines.Config{ID: "1", StandAlways: true})
		defer e.Close()
		began := time.Now()
		v := leads(t, e)
		if d := time.Since(began); d > engines.DefaultLease/2 {
			t.Errorf("it leads after %v", d)
		}
		if v.Token.Epoch < 2 {
			t.Errorf("it leads under epoch %d, that of the claim which had no answer", v.Token.Epoch)
		}
	})
}

// The work of a leader that was cut off goes on for long: when the engine answers
// again, the record is renewed until the work has stopped, and nobody else leads before.
func TestTheRecordIsKeptUntilTheWorkHasStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		one := &line{memory: m}
		a, b := start(t, one, engines.Config{ID: "1"}), start(t, &line{memory: m}, engines.Config{ID: "2"})
		defer a.Close()
		defer b.Close()
		working, stopped := make(chan struct{}), make(chan time.Time, 1)
		led := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			led <- a.Lead(ctx, func(ctx context.Context, _ batuta.Leadership) error {
				close(working)
				<-ctx.Done()
				time.Sleep(10 * engines.DefaultLease)
				stopped <- time.Now()
				cancel()
				return nil
			})
		}()
		<-working
		if err := b.Campaign(t.Context()); err != nil {
			t.Fatal(err)
		}
		heal := one.sever()
		for v := range a.Watch(t.Context()) {
			if !v.Defined() {
				break
			}
		}
		heal()
		leads(t, b)
		select {
		case <-stopped:
		default:
			t.Error("another leads while the work has not stopped")
		}
		if err := <-led; !errors.Is(err, context.Canceled) {
			t.Errorf("Lead: %v", err)
		}
	})
}

// A function of Lead that goes on after its leadership has ended is logged.
func TestWorkThatGoesOnIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		e, err := engines.Start(t.Context(), &line{memory: newMemory()}, engines.Config{ID: "1", Election: "shard", Logger: slog.New(slog.NewTextHandler(&out, nil))})
		if err != nil {
			t.Fatal(err)
		}
		began, over := make(chan struct{}), make(chan struct{})
		go e.Lead(t.Context(), func(context.Context, batuta.Leadership) error {
			close(began)
			<-over
			return nil
		})
		<-began
		if err := e.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		close(over)
		e.Close()
		synctest.Wait()
		if text := out.String(); !strings.Contains(text, "work goes on") || !strings.Contains(text, "election=shard") || !strings.Contains(text, "for=6s") {
			t.Errorf("the log has:\n%s", text)
		}
	})
}

// A candidate that may read the record, and may not claim it, logs the refusal once a minute and reports it.
func TestARefusalIsLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := &line{memory: newMemory(), deny: fmt.Errorf("no right to the key: %w", engines.ErrDenied)}
		e, err := engines.Start(t.Context(), l, engines.Config{ID: "1", StandAlways: true, Logger: slog.New(slog.NewTextHandler(&out, nil))})
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			time.Sleep(6 * time.Second)
			if why := statusOf(e).StandingWhy; !strings.Contains(why, "no right to the key") {
				t.Fatalf("the status has %q", why)
			}
		}
		synctest.Wait()
		if text := out.String(); strings.Count(text, "no right to the key") != 10 || strings.Count(text, "\n") != 10 {
			t.Errorf("within ten minutes the log has:\n%s", text)
		}
		l.mu.Lock()
		l.deny = nil
		l.mu.Unlock()
		leadsAndLogs(t, e, &out)
	})
}

// leadsAndLogs waits until a candidate leads, and demands that it has logged once that its engine works.
func leadsAndLogs(t *testing.T, e *engines.Election, out *bytes.Buffer) {
	t.Helper()
	leads(t, e)
	e.Close()
	if text := out.String(); strings.Count(text, "answers again") != 1 {
		t.Errorf("the log has:\n%s", text)
	}
}

// A store has lost a record in part: it reads as free, and each claim of it is refused. That is logged once a minute, and
// is in the status, for no candidate leads.
func TestClaimsInVainAreLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := &line{memory: newMemory(), vain: true}
		e, err := engines.Start(t.Context(), l, engines.Config{ID: "1", StandAlways: true, Logger: slog.New(slog.NewTextHandler(&out, nil))})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(engines.DefaultLease + 10*time.Minute)
		synctest.Wait()
		if why := statusOf(e).StandingWhy; !strings.Contains(why, "delete what is left of the record") {
			t.Errorf("the status has %q", why)
		}
		if text := out.String(); strings.Count(text, "refuses each claim") != 10 || strings.Count(text, "\n") != 10 {
			t.Errorf("within ten minutes the log has:\n%s", text)
		}
		l.mu.Lock()
		l.vain = false
		l.mu.Unlock()
		leadsAndLogs(t, e, &out)
	})
}

// outrun is a line on which a faster candidate, which dies at once, wins each race for the record.
type outrun struct{ *line }

func (o outrun) Claim(ctx context.Context, seen, _ engines.Record) (engines.Record, error) {
	if seen.Epoch > 0 {
		time.Sleep(5 * time.Millisecond)
	}
	o.memory.mu.Lock()
	o.put(engines.Record{ID: "2", Process: "p", Epoch: o.number + 1, Lasts: engines.DefaultLease})
	o.memory.mu.Unlock()
	if seen.Epoch == 0 {
		time.Sleep(2 * time.Millisecond) // this candidate reads the record before the refusal arrives
	}
	return engines.Record{}, engines.ErrTaken
}

// A candidate that loses two races, a lease apart, is not refused in vain.
func TestLostRacesAreNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		e, err := engines.Start(t.Context(), outrun{&line{memory: newMemory()}}, engines.Config{ID: "1", StandAlways: true, Logger: slog.New(slog.NewTextHandler(&out, nil))})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * engines.DefaultLease)
		e.Close()
		if text := out.String(); strings.Contains(text, "refuses") {
			t.Errorf("the log has:\n%s", text)
		}
	})
}

// A candidate that can read the record, and not write it, reports why, and logs it once.
func TestAClaimThatFailsIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := &line{memory: newMemory(), deny: errors.New("there is no table of epochs")}
		e, err := engines.Start(t.Context(), l, engines.Config{ID: "1", StandAlways: true, Logger: slog.New(slog.NewTextHandler(&out, nil))})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		for range 1000 {
			time.Sleep(617 * time.Millisecond)
			if why := statusOf(e).StandingWhy; !strings.Contains(why, "no table of epochs") {
				t.Fatalf("the status has %q", why)
			}
		}
		l.mu.Lock()
		l.deny = nil
		l.mu.Unlock()
		leads(t, e)
		e.Close()
		if text := out.String(); strings.Count(text, "no table of epochs") != 1 || strings.Count(text, "answers again") != 1 {
			t.Errorf("the log has:\n%s", text)
		}
	})
}

// A call without an answer is named in the status, whichever error the client gives for that.
func TestACallWithoutAnAnswerIsNamed(t *testing.T) {
	for _, late := range []error{context.DeadlineExceeded, &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}} {
		synctest.Test(t, func(t *testing.T) {
			e := start(t, &line{memory: newMemory(), deny: late}, engines.Config{ID: "1", StandAlways: true})
			defer e.Close()
			time.Sleep(5 * time.Second)
			if why := statusOf(e).StandingWhy; !strings.Contains(why, `no answer to the call "claim" within 3s`) {
				t.Errorf("after %v the status has %q", late, why)
			}
		})
	}
}

// Shutdown waits for two calls without an answer at most: the one that is under way, and the release.
func TestShutdownWithoutTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{memory: newMemory()}
		e := start(t, l, engines.Config{ID: "1", StandAlways: true})
		leads(t, e)
		l.sever()
		time.Sleep(engines.DefaultLease/6 + 100*time.Millisecond) // a renewal is under way
		began := time.Now()
		if err := e.Shutdown(context.Background()); err != nil || time.Since(began) > engines.DefaultLease/2 {
			t.Errorf("Shutdown gives %v after %v", err, time.Since(began))
		}
	})
}

// A lease that is no whole number of milliseconds is counted as the record has it: rounded down.
func TestALeaseIsCountedAsTheRecordHasIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := start(t, &line{memory: newMemory()}, engines.Config{ID: "1", Lease: 100*time.Millisecond + 900*time.Microsecond, Drift: 1e-9})
		defer e.Close()
		if l, err := e.Lease(t.Context()); err != nil || l.Whole > 100*time.Millisecond {
			t.Errorf("the lease is %v, %v", l.Whole, err)
		}
	})
}

// The engine loses the record of a leader, as an empty server does that takes the place of the last one. A candidate that
// has seen the record waits until that leadership is over.
func TestTheRecordOfALeaderIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		one := &line{memory: m}
		a := start(t, one, engines.Config{ID: "1", StandAlways: true})
		defer a.Close()
		leads(t, a)
		b := start(t, &line{memory: m}, engines.Config{ID: "2", StandAlways: true})
		defer b.Close()
		time.Sleep(time.Minute)
		one.sever() // this leader does not learn of it
		m.mu.Lock()
		m.put(engines.Record{})
		m.mu.Unlock()
		lost := time.Now()
		leads(t, b)
		if a.IsLeader() {
			t.Errorf("the other leads after %v, and the first leads still", time.Since(lost))
		}
		if d := time.Since(lost); d < engines.DefaultLease || d > engines.DefaultLease+time.Second {
			t.Errorf("the other leads after %v", d)
		}
	})
}

// Lead without a function is refused at once, not when this candidate first leads.
func TestLeadWithoutWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := start(t, &line{memory: newMemory()}, engines.Config{ID: "1"})
		defer e.Close()
		if err := e.Lead(t.Context(), nil); !errors.Is(err, batuta.ErrConfig) {
			t.Errorf("Lead: %v", err)
		}
	})
}

// Who calls no Lead is no candidate, and gives the lead up when it calls none any more.
func TestACandidateOnlyWhileItCampaigns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		e := start(t, &line{memory: m}, engines.Config{ID: "1"})
		defer e.Close()
		time.Sleep(time.Hour)
		if e.IsLeader() || statusOf(e).Standing != batuta.StandingObserver {
			t.Errorf("it leads, or would: %v", statusOf(e).Standing)
		}
		for range 2 {
			err := e.Lead(t.Context(), func(context.Context, batuta.Leadership) error { return nil })
			if err != nil || e.IsLeader() {
				t.Errorf("Lead: %v; and it leads on: %v", err, e.IsLeader())
			}
		}
		if err := e.Campaign(t.Context()); err != nil {
			t.Fatal(err)
		}
		leads(t, e)
	})
}

// What is wrong with a configuration is said at once, all of it.
func TestBadConfig(t *testing.T) {
	for name, c := range map[string]engines.Config{
		"no id":            {},
		"an id":            {ID: "a b\n"},
		"a short lease":    {ID: "1", Lease: time.Millisecond},
		"no time is left":  {ID: "1", Lease: time.Second, Stop: time.Second},
		"a negative time":  {ID: "1", Renew: -1},
		"drift":            {ID: "1", Drift: 2},
		"an election name": {ID: "1", Election: "a\nb"},
		"no text":          {ID: "1", Election: "\xff"},
	} {
		if e, err := engines.Start(t.Context(), &line{memory: newMemory()}, c); !errors.Is(err, batuta.ErrConfig) {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				e.Close()
			}
		}
	}
}

// An earlier process of the same id, which may still work, is waited for; nobody is told that
// this one leads.
func TestAnEarlierProcessWithTheSameID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		earlier := &line{memory: m}
		if _, err := earlier.Claim(t.Context(), engines.Record{}, engines.Record{ID: "1", Process: "earlier", Lasts: engines.DefaultLease}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		e := start(t, &line{memory: m}, engines.Config{ID: "1", StandAlways: true})
		defer e.Close()
		v := leads(t, e)
		if d := time.Since(began); d < engines.DefaultLease {
			t.Errorf("it leads after %v, when the earlier process may still work", d)
		}
		if v.Token.Epoch < 2 {
			t.Errorf("it leads under %s, the earlier one's", v.Token)
		}
	})
}

// The lead of a process that has died is given up by its name, and no other's is; an engine that does not answer is asked again.
func TestReleaseForAProcessThatHasDied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		died := &line{memory: m}
		if _, err := died.Claim(t.Context(), engines.Record{}, engines.Record{ID: "1", Process: "died", Lasts: time.Hour}); err != nil {
			t.Fatal(err)
		}
		e := start(t, &line{memory: m}, engines.Config{ID: "2", StandAlways: true})
		defer e.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		for _, process := range []string{"another", ""} {
			if err := engines.Release(ctx, died, process); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(engines.DefaultLease)
		if e.IsLeader() {
			t.Error("the lead was given up under another process's name")
		}
		heal := died.sever()
		time.AfterFunc(10*time.Second, func() { heal() })
		if err := engines.Release(ctx, died, "died"); err != nil {
			t.Error(err)
		}
		leads(t, e)
		if d := time.Since(began); d > time.Minute {
			t.Errorf("the next one leads %v later", d)
		}
		died.sever()
		if err := engines.Release(ctx, died, "died"); err == nil {
			t.Error("an engine that never answers is said to have been asked")
		}
	})
}

// Made, an election asks the engine nothing before it runs; Run ends with its context, when the work has.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		e, err := engines.New(&line{memory: m}, engines.Config{ID: "1"})
		if err != nil {
			t.Fatal(err)
		}
		led, ran := make(chan struct{}), make(chan error, 1)
		go e.Lead(context.Background(), func(ctx context.Context, _ batuta.Leadership) error {
			close(led)
			<-ctx.Done()
			time.Sleep(time.Minute)
			return nil
		})
		time.Sleep(time.Hour)
		if e.Leader().Defined() {
			t.Error("it leads before it runs")
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { ran <- e.Run(ctx) }()
		<-led
		if err := e.Run(ctx); err == nil || errors.Is(err, batuta.ErrClosed) {
			t.Errorf("a second Run gives %v", err)
		}
		cancel()
		began := time.Now()
		if err := <-ran; err != nil || time.Since(began) < time.Minute {
			t.Errorf("it ends with %v after %v", err, time.Since(began))
		}
		if err := e.Run(t.Context()); err != batuta.ErrClosed {
			t.Errorf("Run after the end gives %v", err)
		}
	})
}

func TestAnElectionThatNeverRunsIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := engines.New(&line{memory: newMemory()}, engines.Config{ID: "1"})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := e.Run(t.Context()); err != batuta.ErrClosed {
			t.Errorf("Run gives %v", err)
		}
	})
}

// Work that goes on is left behind by Close, and by Shutdown when its context ends; the record is not given up: the
// next one waits for the end of the lease.
func TestAnElectionEndsWithoutItsWork(t *testing.T) {
	for name, end := range map[string]func(*engines.Election) error{
		"Close": func(e *engines.Election) error { return e.Close() },
		"Shutdown": func(e *engines.Election) error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			err := e.Shutdown(ctx)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Shutdown gives %v", err)
			}
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory()
			a, b := start(t, &line{memory: m}, engines.Config{ID: "1"}), start(t, &line{memory: m}, engines.Config{ID: "2"})
			defer b.Close()
			led, over, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			go func() {
				ended <- a.Lead(context.Background(), func(ctx context.Context, _ batuta.Leadership) error {
					if err := a.Shutdown(ctx); err != batuta.ErrInWork {
						t.Errorf("within the work: %v", err)
					}
					close(led)
					<-over
					return nil
				})
			}()
			<-led
			if err := b.Campaign(t.Context()); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if err := end(a); !errors.Is(err, batuta.ErrClosed) || time.Since(began) > engines.DefaultLease/2 {
				t.Errorf("%s gives %v after %v", name, err, time.Since(began))
			}
			leads(t, b)
			if d := time.Since(began); d < engines.DefaultLease/2 {
				t.Errorf("another leads %v after, within the lease", d)
			}
			close(over)
			if err := <-ended; !errors.Is(err, batuta.ErrClosed) {
				t.Errorf("Lead gives %v", err)
			}
		})
	}
}

// statusOf is what a member reports; the last, once it has ended.
func statusOf(n *engines.Election) batuta.Status {
	s, _ := n.Status(context.Background())
	return s
}

// A record that is damaged after it was seen is not claimed when what was seen has run out, and is logged once.
func TestARecordDamagedSinceIsNotClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := &line{memory: newMemory()}
		config := engines.Config{ID: "2", StandAlways: true, Logger: slog.New(slog.NewTextHandler(&out, nil))}
		l.put(engines.Record{ID: "1", Process: "p", Epoch: 1, Lasts: 15 * time.Second})
		e, err := engines.Start(t.Context(), l, config)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		l.damage(fmt.Errorf("key k %w: lasts_ms is -5", engines.ErrDamaged))
		time.Sleep(5 * time.Minute)
		if e.IsLeader() || l.number != 1 {
			t.Errorf("the damaged record is claimed: %+v", l.record)
		}
		l.damage(nil)
		time.Sleep(time.Minute)
		if !e.IsLeader() {
			t.Error("the record can be read again, has run out, and is not claimed")
		}
		e.Close()
		if strings.Count(out.String(), "cannot be used") != 1 || strings.Count(out.String(), "answers again") != 1 {
			t.Errorf("it was damaged once, and the log is\n%s", out.String())
		}
	})
}

// A leader renews by the version only. It reports a record that is damaged for readers.
func TestALeaderReportsADamagedRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := &line{memory: newMemory()}
		e, err := engines.Start(t.Context(), l, engines.Config{ID: "1", StandAlways: true, Logger: slog.New(slog.NewTextHandler(&out, nil))})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		l.damage(fmt.Errorf("key k %w: address is 7", engines.ErrDamaged))
		time.Sleep(5 * time.Minute)
		if why := statusOf(e).StandingWhy; !e.IsLeader() || !strings.Contains(why, "address is 7") {
			t.Errorf("it leads: %v, and its status has %q", e.IsLeader(), why)
		}
		e.Close()
		if strings.Count(out.String(), "cannot be used") != 1 || strings.Contains(out.String(), "answers again") {
			t.Errorf("it was damaged once, and the log is\n%s", out.String())
		}
	})
}

// A server that takes writes and refuses to be read, such as one that was set to evict keys, is logged once by the leader and
// by a candidate, and the candidate claims nothing that it has not read since.
func TestARecordThatCannotBeReadIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, outs := newMemory(), map[batuta.ID]*bytes.Buffer{"1": {}, "2": {}}
		lines, all := map[batuta.ID]*line{}, map[batuta.ID]*engines.Election{}
		for _, id := range []batuta.ID{"1", "2"} {
			lines[id] = &line{memory: m}
			e, err := engines.Start(t.Context(), lines[id], engines.Config{ID: id, StandAlways: true, Logger: slog.New(slog.NewTextHandler(outs[id], nil))})
			if err != nil {
				t.Fatal(err)
			}
			all[id] = e
			time.Sleep(time.Minute)
		}
		for _, l := range lines {
			l.damage(errors.New("this server may evict the leader"))
		}
		time.Sleep(10 * time.Minute)
		claims := lines["2"].claims()
		for id, e := range all {
			if why := statusOf(e).StandingWhy; !strings.Contains(why, "may evict") || e.IsLeader() != (id == "1") {
				t.Errorf("%s leads: %v, and its status has %q", id, e.IsLeader(), why)
			}
		}
		for _, l := range lines {
			l.damage(nil)
		}
		time.Sleep(time.Minute)
		for id, e := range all {
			e.Close()
			if text := outs[id].String(); strings.Count(text, "may evict") != 1 || strings.Count(text, "answers again") != 1 {
				t.Errorf("the log of %s has %d lines:\n%.1000s", id, strings.Count(text, "\n"), text)
			}
		}
		if claims > 0 {
			t.Errorf("the candidate has claimed %d times what it could not read", claims)
		}
	})
}

// A leader that resigns releases the record as soon as its work has returned: the next candidate does not wait for
// the time of a renewal.
func TestTheRecordIsReleasedWhenTheWorkReturns(t *testing.T) {
	for _, drain := range []time.Duration{0, 100 * time.Millisecond, engines.DefaultLease} {
		t.Run(drain.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMemory()
				a, b := start(t, &line{memory: m}, engines.Config{ID: "1"}), start(t, &line{memory: m}, engines.Config{ID: "2"})
				defer a.Close()
				defer b.Close()
				working, returned := make(chan struct{}), time.Time{}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go a.Lead(ctx, func(ctx context.Context, _ batuta.Leadership) error {
					close(working)
					<-ctx.Done()
					time.Sleep(drain)
					returned = time.Now()
					return nil
				})
				<-working
				if err := b.Campaign(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(engines.DefaultLease)
				if err := a.Resign(t.Context()); err != nil {
					t.Fatal(err)
				}
				leads(t, b)
				if late := time.Since(returned); late > 100*time.Millisecond {
					t.Errorf("the other leads %v after the work returned", late)
				}
			})
		})
	}
}

// lossy loses the answers to its releases, which are done.
type lossy struct{ *line }

func (l lossy) Release(ctx context.Context, mine engines.Record) error {
	return errors.Join(l.line.Release(ctx, mine), context.DeadlineExceeded)
}

// A candidate that has resigned claims nothing for a while after the release, also if that was not answered.
func TestTheTimeAsideCountsFromAReleaseWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := start(t, lossy{&line{memory: newMemory()}}, engines.Config{ID: "1"})
		defer e.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		began := make(chan struct{}, 2)
		returned, over := time.Time{}, make(chan struct{})
		go func() {
			defer close(over)
			e.Lead(ctx, func(ctx context.Context, _ batuta.Leadership) error {
				began <- struct{}{}
				<-ctx.Done()
				if returned.IsZero() {
					time.Sleep(engines.DefaultLease)
					returned = time.Now()
				}
				return nil
			})
		}()
		<-began
		if err := e.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-began
		if aside := time.Since(returned); aside < engines.DefaultLease/3 {
			t.Errorf("it leads again %v after its work returned", aside)
		}
		cancel()
		<-over
	})
}
