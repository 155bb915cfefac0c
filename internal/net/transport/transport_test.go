package transport

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/net/network"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

// pipeConn gives a connection that stands, and its other end.
func pipeConn(t *testing.T, live *sync.WaitGroup) (*conn, net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close(); far.Close() })
	c := &conn{bounds: bounds{frame: time.Second, write: time.Second, idle: time.Second}, live: live, counters: new(network.Counters)}
	if err := c.connect(near, time.Time{}); err != nil {
		t.Fatal(err)
	}
	c.release()
	return c, far
}

func TestAReaderThatDoesNotReadIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var live sync.WaitGroup
		c, _ := pipeConn(t, &live)
		frame := make([]byte, wire.MaxFrame)
		var err error
		for range maxQueue/wire.MaxFrame + 2 {
			if err = c.send(frame); err != nil {
				break
			}
			synctest.Wait()
		}
		if !errors.Is(err, errOverflow) {
			t.Errorf("got %v", err)
		}
		live.Wait() // the writer has come back: the connection is closed
	})
}

func TestAWriteThatHangsEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var live sync.WaitGroup
		c, _ := pipeConn(t, &live)
		if err := c.send([]byte("frame")); err != nil {
			t.Fatal(err)
		}
		if _, err := c.read(wire.MaxFrame); err == nil {
			t.Error("the reader goes on although nothing can be written")
		}
		live.Wait()
	})
}

func TestFramesArriveHoweverTheyAreCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var live sync.WaitGroup
		c, far := pipeConn(t, &live)
		var e wire.Encoder
		var sent [][]byte
		var stream []byte
		for _, size := range []int{1, 10, readBuffer - wire.LengthSize, readBuffer, 3 * readBuffer, 100_000, 1} {
			frame, err := e.Frame(make([]byte, size), wire.MaxFrame)
			if err != nil {
				t.Fatal(err)
			}
			sent = append(sent, slices.Clone(frame[wire.LengthSize:]))
			stream = append(stream, frame...)
		}
		live.Go(func() {
			for cut := 1; len(stream) > 0; cut = (3*cut + 1) % 5000 {
				n := min(cut+1, len(stream))
				far.Write(stream[:n])
				stream = stream[n:]
			}
		})
		for i, want := range sent {
			got, err := c.read(wire.MaxFrame)
			if err != nil || !slices.Equal(got, want) {
				t.Fatalf("frame %d: %d bytes, want %d (%v)", i, len(got), len(want), err)
			}
		}
		live.Wait()
	})
}

func TestARetiredConnectionIsReadUntilItIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var live sync.WaitGroup
		c, far := pipeConn(t, &live)
		c.retire(true)
		live.Go(func() {
			for range 3 {
				time.Sleep(c.bounds.idle - 1)
				far.Write([]byte{0, 0, 0, 1, 'x'})
			}
		})
		for range 3 {
			if _, err := c.read(wire.MaxFrame); err != nil {
				t.Fatal(err)
			}
		}
		before := time.Now()
		if _, err := c.read(wire.MaxFrame); !isTimeout(err) || time.Since(before) != c.bounds.idle+lastLook {
			t.Errorf("got %v after %v", err, time.Since(before))
		}
		live.Wait()
	})
}

// both ends must keep the same one of two connections, in whichever order they
// learn of them.
func TestBothEndsKeepTheSameConnection(t *testing.T) {
	for _, order := range [][]bool{{true, false}, {false, true}} {
		var live sync.WaitGroup
		low := &peers{me: "1"}
		high := &peers{me: "2"}
		at := func(tr *peers, other election.ID, dialed bool) *conn {
			p := &peer{id: other}
			for i, d := range order {
				c, _ := pipeConn(t, &live)
				c.peer, c.dialed, c.order = p, d == dialed, uint64(i)
				p.conns = append(p.conns, c)
			}
			tr.choose(p)
			return p.active
		}
		// "true" is the connection that the low one dialed.
		if kept := at(low, "2", true); kept.dialed {
			t.Errorf("order %v: the low member keeps its own", order)
		}
		if kept := at(high, "1", false); !kept.dialed {
			t.Errorf("order %v: the high member drops its own", order)
		}
	}
}

// twoConnections is member 1 with two connections to 2, and what its Machine is told.
func twoConnections(t *testing.T, live *sync.WaitGroup) (tr *Transport, p *peer, told *[]election.EventKind) {
	t.Helper()
	told = new([]election.EventKind)
	tr = &Transport{peers: peers{me: "1", byID: map[election.ID]*peer{}},
		site: network.Site{Emit: func(ev election.Event) { *told = append(*told, ev.Kind) }}}
	p = &peer{id: "2"}
	tr.byID["2"] = p
	for order := range uint64(2) {
		c, _ := pipeConn(t, live)
		c.peer, c.order = p, order
		p.conns = append(p.conns, c)
	}
	tr.choose(p)
	return tr, p, told
}

// What was on its way on a retired connection is lost when that is torn, and not when its
// other end closes it.
func TestARetiredConnectionThatIsTornIsTold(t *testing.T) {
	for err, want := range map[error][]election.EventKind{
		io.EOF:             nil,
		syscall.ECONNRESET: {election.LinkDown, election.LinkUp},
	} {
		var live sync.WaitGroup
		tr, p, told := twoConnections(t, &live)
		used := p.active
		retired := p.conns[slices.IndexFunc(p.conns, func(c *conn) bool { return c != used })]
		tr.ended(retired, err)
		if !slices.Equal(*told, want) || p.active != used {
			t.Errorf("it ends by %v: told %v, want %v; the one in use is kept: %v", err, *told, want, p.active == used)
		}
		tr.drop(p)
		live.Wait()
	}
}

// What was written to a connection that then ends may be lost, though another
// stands: the Machine must hear of it, so that it says it again.
func TestTheEndOfTheConnectionInUseIsTold(t *testing.T) {
	var live sync.WaitGroup
	tr, p, all := twoConnections(t, &live)
	used := p.active
	tr.ended(used, net.ErrClosed)
	if want := []election.EventKind{election.LinkDown, election.LinkUp}; !slices.Equal(*all, want) {
		t.Errorf("told %v, want %v", *all, want)
	}
	if p.active == nil || p.active == used {
		t.Error("the other connection is not in use")
	}
	tr.ended(p.active, net.ErrClosed)
	if told := *all; len(told) != 3 || told[2] != election.LinkDown {
		t.Errorf("after the last one: told %v, want a LinkDown more", told)
	}
	live.Wait()
}

// A process that was stopped finds its deadline over and frames that came meanwhile:
// those are read before the connection ends.
func TestARetiredConnectionIsReadAfterAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var live sync.WaitGroup
		c, far := pipeConn(t, &live)
		c.net = &stopped{Conn: c.net}
		c.in = c.net
		c.retire(true)
		live.Go(func() { far.Write([]byte{0, 0, 0, 1, 'x'}) })
		if body, err := c.read(wire.MaxFrame); err != nil || string(body) != "x" {
			t.Errorf("got %q, %v", body, err)
		}
		if _, err := c.read(wire.MaxFrame); !isTimeout(err) {
			t.Errorf("then %v, want the end of an idle connection", err)
		}
		live.Wait()
	})
}

// stopped is the connection of a process that was stopped until the deadline of its
// read was over.
type stopped struct {
	net.Conn
	woken bool
}

func (s *stopped) Read(b []byte) (int, error) {
	if !s.woken {
		s.woken = true
		return 0, os.ErrDeadlineExceeded
	}
	return s.Conn.Read(b)
}

// A dial whose name did not resolve may end after the member itself has connected: it has no fault to report then.
func TestALateLookupOfAConnectedMemberIsNoFault(t *testing.T) {
	var live sync.WaitGroup
	var out bytes.Buffer
	tr, p, _ := twoConnections(t, &live)
	tr.log = slog.New(slog.NewTextHandler(&out, nil))
	late := &net.DNSError{Err: "no such host", Name: "two.test"}
	if tr.resolves(p, late); tr.Unresolved("2") != "" || out.Len() > 0 {
		t.Errorf("connected: %q is reported and %q logged", tr.Unresolved("2"), out.String())
	}
	p.conns = nil
	if tr.resolves(p, late); tr.Unresolved("2") == "" || out.Len() == 0 {
		t.Error("not connected: nothing is reported or logged")
	}
}
