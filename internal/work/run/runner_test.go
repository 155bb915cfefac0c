package run

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/work/run/runtest"
	"github.com/batuta-dev/batuta/internal/work/schedule"
)

// single is a cluster of one member, and a runner on it.
type single struct {
	factory
	node   *batuta.Node
	cancel context.CancelCauseFunc
	over   chan error
}

func lead(t *testing.T, f factory, change func(*Config), argv ...string) *single {
	t.Helper()
	return leadIn(t, f, func(n *batuta.Node) Node { return n }, change, argv...)
}

// leadIn is lead in the election that in returns.
func leadIn(t *testing.T, f factory, in func(*batuta.Node) Node, change func(*Config), argv ...string) *single {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	node, err := batuta.Start(t.Context(), batuta.Config{ID: "1", Listen: "127.0.0.1:0", Algorithm: bully.New(),
		TMax: 500 * time.Millisecond, TProcess: time.Second}) // a lease that a slow start does not outlast
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Argv: argv, Grace: long, Heartbeat: 100 * time.Millisecond, T: statusOf(node).Timing.T(), Pause: time.Millisecond,
		Program: os.Args[0], Guard: []string{os.Args[0], "guard"}, Logger: log}
	if change != nil {
		change(&c)
	}
	runner, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	s := &single{f, node, cancel, make(chan error, 1)}
	ended := make(chan struct{})
	go func() { s.over <- runner.Run(ctx, in(node)); close(ended) }()
	t.Cleanup(func() { cancel(nil); <-ended; runner.Close(); node.Close() })
	return s
}

func (s *single) wait() error {
	s.T.Helper()
	select {
	case err := <-s.over:
		return err
	case <-time.After(runtest.Patience):
		s.T.Fatal("Run never returns")
		return nil
	}
}

func TestACommandThatEndsWellEndsTheRun(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	s := lead(t, f, nil, f.argv("exit=0")...)
	if w := f.Next(); w.Token != statusOf(s.node).Token.String() && w.Token != "1:1" {
		t.Errorf("BATUTA_TOKEN is %q", w.Token)
	}
	if err := s.wait(); err != nil {
		t.Errorf("Run: %v", err)
	}
	if s.node.IsLeader() {
		t.Error("it leads on although there is nothing left to do")
	}
}

func TestRestartKeepsGoing(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	s := lead(t, f, func(c *Config) { c.Restart = true }, f.argv("exit=0")...)
	if first, second := f.Next(), f.Next(); first.Token != second.Token {
		t.Errorf("tokens %s and %s: leadership was given away between", first.Token, second.Token)
	}
	s.cancel(nil)
	if err := s.wait(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

// leased is a node with a lease, which is renewed at each call unless it is late.
type leased struct {
	*batuta.Node
	late    atomic.Bool
	renewed atomic.Int64 // a time
}

func (l *leased) Lease(context.Context) (batuta.Lease, error) {
	const whole = 4 * time.Second
	if !l.late.Load() {
		l.renewed.Store(time.Now().UnixNano())
	}
	return batuta.Lease{Whole: whole, Left: whole - time.Since(time.Unix(0, l.renewed.Load()))}, nil
}

// A renewal may come after the command was asked to end, and within the lease: the command begins again under the same
// token, when nothing of its first run is left.
func TestALateRenewalStartsTheCommandAgain(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	s := lead(t, f, nil, "true")
	if err := s.wait(); err != nil {
		t.Fatal(err)
	}
	argv := f.argv("lock=" + filepath.Join(t.TempDir(), "lock"))
	runner, err := New(Config{Argv: argv, Grace: long, Heartbeat: 100 * time.Millisecond, T: long, Program: os.Args[0], Guard: []string{os.Args[0], "guard"},
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	node, over := &leased{Node: s.node}, make(chan error, 1)
	go func() { over <- runner.Run(ctx, node) }()
	first := f.Next()
	node.late.Store(true)
	f.Dies(first)
	node.late.Store(false)
	if second := f.Next(); second.Token != first.Token || !second.Alone {
		t.Errorf("it begins under %s after %s, next to none: %v", second.Token, first.Token, second.Alone)
	}
	cancel()
	if err := <-over; err != nil {
		t.Error(err)
	}
	runner.Close()
}

func TestACommandThatFailsTriesAgainUnderAnotherEpoch(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	lead(t, f, nil, f.argv("exit=1")...)
	if first, second := f.Next(), f.Next(); first.Token == second.Token {
		t.Errorf("both under token %s: the lead was not given away", first.Token)
	}
}

func TestResigningStopsTheCommandAndLeadingStartsItAgain(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	s := lead(t, f, func(c *Config) { c.Grace = time.Second }, f.argv("deaf", "child")...)
	family := []*runtest.Worker{f.Next(), f.Next()}
	if err := s.node.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, w := range family {
		f.Awaits(w, "terminated")
		f.Dies(w)
	}
	if again := f.Next(); again.Token == family[0].Token {
		t.Errorf("it runs again under the same token %s", again.Token)
	}
}

// A leadership may end while its command is about to start: a guard takes its time to start.
func TestACommandDoesNotBeginAfterItsLeadership(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"at once": func(*Config) {},
		"planned": func(c *Config) { c.Plan = &Plan{Schedule: schedule.Schedule{Ticks: often{}}} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFactory(t)
			ended := make(chan string, 100)
			first := true // only one leadership has the command at a time
			s := make(chan *batuta.Node, 1)
			node := lead(t, f, func(c *Config) {
				change(c)
				c.Serve = func(ctx context.Context, l batuta.Leadership) ([]string, func(), error) {
					if first {
						first = false
						go (<-s).Resign(t.Context())
						<-ctx.Done()
						ended <- l.Token.String()
					}
					return nil, func() {}, nil
				}
			}, f.argv()...).node
			s <- node
			if over, w := <-ended, f.Next(); w.Token == over {
				t.Errorf("it began under %s, which had ended", over)
			}
		})
	}
}

// oneTick is a schedule with a single tick, 1 ms after the first time that is asked for.
type oneTick struct{ at time.Time }

func (o *oneTick) Next(after time.Time) time.Time {
	if o.at.IsZero() {
		o.at = after.Add(time.Millisecond)
	}
	if after.Before(o.at) {
		return o.at
	}
	return after.Add(1000 * time.Hour)
}

// A run that is about to start when its election is handed over is not lost: no member begins its tick again.
func TestATickIsRunThoughItsElectionIsHandedOver(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	e := make(chan *batuta.Election, 1)
	in := func(n *batuta.Node) Node { // only a named election waits for a run
		e <- n.Election("job")
		return Under(n, n.Election("job"))
	}
	leadIn(t, f, in, func(c *Config) {
		c.Finish, c.Plan = time.Minute, &Plan{Schedule: schedule.Schedule{Ticks: new(oneTick)}}
		c.Serve = func(ctx context.Context, _ batuta.Leadership) ([]string, func(), error) {
			go (<-e).Resign(t.Context())
			<-ctx.Done()
			return nil, func() {}, nil
		}
	}, append([]string{"sh", "-c", `sleep 0.5; exec "$@"`, "sh"}, f.argv("exit=0")...)...)
	f.Next()
}

// The lease is renewed while this very leadership lasts, or the command is being
// stopped, and not otherwise.
// What a command that is killed holds, such as an address, is taken away before another may lead.
func TestWhatARunLeavesIsClearedBeforeTheNextLead(t *testing.T) {
	t.Parallel()
	f := newFactory(t)
	cleared, next := make(chan struct{}, 1), make(chan struct{})
	s := lead(t, f, func(c *Config) {
		c.Grace = 50 * time.Millisecond
		c.Clear = func() error {
			select {
			case cleared <- struct{}{}:
			default:
			}
			<-next
			return nil
		}
	}, f.argv("deaf")...)
	defer close(next) // even if no command comes: the run ends only then
	w := f.Next()
	go s.node.Resign(t.Context())
	select {
	case <-cleared:
		f.Dies(w)
	case <-time.After(runtest.Patience):
		t.Fatal("nothing is taken away")
	}
	time.Sleep(3 * statusOf(s.node).Timing.T()) // longer than it would wait otherwise
	if v := s.node.Leader(); v.Defined() {
		t.Errorf("%v leads before that is over", v.Token)
	}
}

func TestWhenTheLeaseIsRenewed(t *testing.T) {
	t.Parallel()
	node, err := batuta.Start(t.Context(), batuta.Config{ID: "1", Listen: "127.0.0.1:0", Algorithm: bully.New()})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	for v := range node.Watch(t.Context()) {
		if v.Defined() {
			break
		}
	}
	r := &Runner{cfg: Config{Heartbeat: 100 * time.Millisecond, T: statusOf(node).Timing.T()}}
	ctx, stop := context.WithCancel(t.Context())
	token := node.Leader().Token
	renewed := func(token batuta.Token) bool {
		_, ok := r.renewal(ctx, node, token)()
		return ok
	}
	before := now()
	lasts, ok := r.renewal(ctx, node, token)()
	until := lasts.until
	if rest := until.sub(before); !ok || rest < r.lease() || until.sub(now()) > r.lease() {
		t.Errorf("renewed %v, for %v; want the lease, %v", ok, rest, r.lease())
	}
	if r.lease() != statusOf(node).Timing.T()-100*time.Millisecond {
		t.Errorf("the lease is %v; the others may elect %v after a beat that is up to 100ms old", r.lease(), statusOf(node).Timing.T())
	}
	if other := (batuta.Token{Epoch: token.Epoch + 1, Leader: token.Leader}); renewed(other) {
		t.Error("renewed for another leadership")
	}
	if err := node.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	if renewed(token) {
		t.Error("renewed while not leading")
	}
	if stop(); !renewed(token) {
		t.Error("not renewed for the grace period of a command that is being stopped")
	}
}

func TestTheEnvironmentOfTheCommand(t *testing.T) {
	t.Parallel()
	l := batuta.Leadership{Election: "default", Token: batuta.Token{Epoch: 7, Leader: batuta.Rank{ID: "5"}}}
	got := environment([]string{"HOME=/", "NOTIFY_SOCKET=/x", "BATUTA_ID=old", "BATUTA_HTTP=127.0.0.1:1"}, "5", l)
	want := []string{"HOME=/", "BATUTA_HTTP=127.0.0.1:1", "BATUTA_ID=5", "BATUTA_ELECTION=default", "BATUTA_EPOCH=7", "BATUTA_TOKEN=7:5"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// statusOf is what a member reports; the last, once it has ended.
func statusOf(n *batuta.Node) batuta.Status {
	s, _ := n.Status(context.Background())
	return s
}
