package hooks

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
)

// patience is how long a test waits for an event before it gives up.
const patience = 30 * time.Second

// TestMain lets the test binary be a hook: it calls the test and ends when told.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "hook" {
		hook(os.Args[2], os.Args[3:])
		return
	}
	fulltest.MostlyWait(8)
	os.Exit(m.Run())
}

// hook tells the test at addr what it was told, and ends when that answers.
func hook(addr string, words []string) {
	signal.Ignore(syscall.SIGTERM)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		os.Exit(90)
	}
	fmt.Fprintln(conn, strings.Join(append(words, os.Getenv("BATUTA_EVENT"), os.Getenv("BATUTA_TOKEN"), os.Getenv("BATUTA_CAUSE")), " "))
	if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
		os.Exit(1)
	}
}

// bench is a member of a cluster of one, with hooks that wait for the test.
type bench struct {
	t      *testing.T
	listen net.Listener
	node   *batuta.Node
	held   chan batuta.Token // what Follow keeps from passing to another, as it begins to
	over   chan struct{}     // closed when Follow has returned
}

// told is a node that tells of the work that begins.
type told struct {
	*batuta.Node
	begins chan<- batuta.Token
}

func (n told) Lead(ctx context.Context, fn func(context.Context, batuta.Leadership) error) error {
	return n.Node.Lead(ctx, func(ctx context.Context, l batuta.Leadership) error {
		select {
		case n.begins <- l.Token:
		default: // nobody asks so often
		}
		return fn(ctx, l)
	})
}

func newBench(t *testing.T, timeout time.Duration) *bench {
	t.Helper()
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	node, err := batuta.Start(t.Context(), batuta.Config{ID: "1", Listen: "127.0.0.1:0", Algorithm: bully.New(),
		TMax: 500 * time.Millisecond, TProcess: time.Second}) // T is 2 s: what a busy machine holds up loses no lead
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t, listen, node, make(chan batuta.Token, 1), make(chan struct{})}
	argv := func(name string) []string { return []string{os.Args[0], "hook", listen.Addr().String(), name} }
	go func() {
		defer close(b.over)
		Follow(told{node, b.held}, Config{OnLead: argv("on-lead"), OnLose: argv("on-lose"), OnChange: argv("on-change"),
			Timeout: timeout, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	}()
	t.Cleanup(func() { listen.Close(); node.Close(); <-b.over })
	return b
}

// holds waits until the hooks hold the member's first lead.
func (b *bench) holds() {
	b.t.Helper()
	select {
	case <-b.held:
	case <-time.After(patience):
		b.t.Fatal("nothing holds the lead")
	}
}

// waits fails if the lead passes on, for longer than a member stands aside that
// has resigned and has no work to wait for.
func (b *bench) waits() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 3*statusOf(b.node).Timing.T())
	defer cancel()
	for v := range b.node.Watch(ctx) {
		if v.Defined() {
			b.t.Fatalf("%v leads before on-lose has run", v.Token)
		}
	}
}

// call is a hook that waits for the test's answer.
type call struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

// next waits for a hook that says want.
func (b *bench) next(want string) *call {
	b.t.Helper()
	b.listen.(*net.TCPListener).SetDeadline(time.Now().Add(patience))
	conn, err := b.listen.Accept()
	if err != nil {
		b.t.Fatalf("no hook says %q: %v", want, err)
	}
	b.t.Cleanup(func() { conn.Close() }) // a hook that nobody answers any more ends
	conn.SetDeadline(time.Now().Add(patience))
	c := &call{b.t, conn, bufio.NewReader(conn)}
	got, err := c.in.ReadString('\n')
	if err != nil {
		b.t.Fatal(err)
	}
	if got = strings.TrimRight(got, " \n"); got != want {
		b.t.Fatalf("a hook says %q, want %q", got, want)
	}
	return c
}

// finish lets the hook end, and waits until it has.
func (c *call) finish() {
	c.t.Helper()
	fmt.Fprintln(c.conn)
	c.killed()
}

// killed waits until the hook has ended.
func (c *call) killed() {
	c.t.Helper()
	if _, err := c.in.ReadByte(); err == nil || os.IsTimeout(err) {
		c.t.Fatalf("the hook lives on: %v", err)
	}
	c.conn.Close()
}

func TestHooksRunOneAtATimeAndInOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t, patience)
	b.next("on-lose start").finish()
	b.next("on-lead leader 1:1").finish()
	b.next("on-change leader 1:1").finish()
	if err := b.node.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.next("on-lose lost 1:1 resigned").finish()
	b.next("on-change lost 1:1 resigned").finish()
	b.next("on-lead leader 2:1").finish()
	b.next("on-change leader 2:1").finish()
}

// The lead is another's only when what it was good for has been given up.
func TestTheLeadWaitsForOnLose(t *testing.T) {
	t.Parallel()
	b := newBench(t, patience)
	b.next("on-lose start").finish()
	b.next("on-lead leader 1:1").finish()
	b.next("on-change leader 1:1").finish()
	closed := make(chan struct{})
	go func() { b.node.Shutdown(context.Background()); close(closed) }()
	lose := b.next("on-lose lost 1:1 stopped")
	select {
	case <-closed:
		t.Error("the node has ended before on-lose has")
	default:
	}
	lose.finish()
	b.next("on-change lost 1:1 stopped").finish()
	<-closed
	<-b.over
}

// Whatever happens during the start hook, a lead taken then waits for on-lose too.
func TestTheLeadWaitsForOnLoseAfterALongStart(t *testing.T) {
	t.Parallel()
	b := newBench(t, patience)
	start := b.next("on-lose start")
	b.holds()
	// An event that is no leadership's, as when a member dies.
	if err := b.node.AddMember(t.Context(), batuta.Peer{ID: "2", Addr: "127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	start.finish()
	b.next("on-lead leader 1:1").finish()
	b.next("on-change leader 1:1").finish()
	if err := b.node.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	lose := b.next("on-lose lost 1:1 resigned")
	b.waits()
	lose.finish()
}

// A lead that is lost during the start hook is another's after on-lose only.
func TestALeadLostDuringTheStartHook(t *testing.T) {
	t.Parallel()
	b := newBench(t, patience)
	start := b.next("on-lose start")
	b.holds()
	if err := b.node.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.waits()
	start.finish()
	b.next("on-change leader 1:1").finish()
	b.next("on-lose lost 1:1 resigned").finish()
}

// Hooks that have slept through more than is kept for them go on with the present,
// and run on-lose for what has ended meanwhile.
func TestHooksThatFallBehind(t *testing.T) {
	t.Parallel()
	b := newBench(t, time.Hour)
	b.next("on-lose start").finish()
	b.next("on-lead leader 1:1").finish()
	slow := b.next("on-change leader 1:1")
	if err := b.node.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range batuta.MaxBacklog + 1 {
		address := fmt.Sprintf("127.0.%d.%d:1", 1+i/250, 1+i%250) // where no test listens
		if err := b.node.AddMember(t.Context(), batuta.Peer{ID: "2", Addr: address}); err != nil {
			t.Fatal(err)
		}
	}
	slow.finish()
	b.next("on-lose lost 1:1 resigned").finish()
	b.next("on-change lost 1:1 resigned").finish()
	b.next("on-lead leader 2:1").finish()
}

func TestAHookThatTakesTooLongIsKilled(t *testing.T) {
	t.Parallel()
	b := newBench(t, 5*time.Second) // in which even a busy machine starts a process
	b.next("on-lose start").killed()
	b.next("on-lead leader 1:1").killed()
}

// A lead that is lost while on-lead runs is no time to go on with it.
func TestOnLeadEndsWithTheLead(t *testing.T) {
	t.Parallel()
	b := newBench(t, patience)
	b.next("on-lose start").finish()
	lead := b.next("on-lead leader 1:1")
	if err := b.node.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	lead.killed()
	b.next("on-change leader 1:1").finish()
	b.next("on-lose lost 1:1 resigned").finish()
	b.next("on-change lost 1:1 resigned").finish()
}

func TestWords(t *testing.T) {
	for _, tt := range []struct {
		line string
		want []string
	}{
		{"", nil},
		{"  ip addr\tadd 10.0.0.9/24 ", []string{"ip", "addr", "add", "10.0.0.9/24"}},
		{`a 'b c' "d e" f\ g`, []string{"a", "b c", "d e", "f g"}},
		{`"" '' x"y"'z'`, []string{"", "", "xyz"}},
		{`'a\b' "a\"b" $HOME * | ;`, []string{`a\b`, `a"b`, "$HOME", "*", "|", ";"}},
	} {
		if got, err := Words(tt.line); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("Words(%q) = %q, %v; want %q", tt.line, got, err, tt.want)
		}
	}
	for _, line := range []string{`a 'b`, `"`, `a\`} {
		if got, err := Words(line); err == nil {
			t.Errorf("Words(%q) = %q, want an error", line, got)
		}
	}
}

// statusOf is what a member reports; the last, once it has ended.
func statusOf(n *batuta.Node) batuta.Status {
	s, _ := n.Status(context.Background())
	return s
}
