package boss

import (
	"context"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/net/network"
)

// writing gives a persistent connection whose other end is far.
func writing(t *testing.T) (n *connections, l *persistent, far net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close(); far.Close() })
	n = &connections{timeout: 3 * time.Second, log: slog.New(slog.DiscardHandler)}
	n.ctx, n.cancel = context.WithCancel(t.Context())
	l = newPersistent(&peer{id: "172.18.0.5"}, near, false)
	n.live.Go(func() { l.write(n.timeout) })
	return n, l, far
}

func TestAReaderThatFallsBehindIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, _ := writing(t)
		for range maxQueue + 2 {
			l.send([]byte("frame"))
			synctest.Wait()
		}
		select {
		case <-l.done:
		default:
			t.Error("the connection stands although its queue is full")
		}
		n.live.Wait()
	})
}

func TestAWriteThatHangsEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, _ := writing(t)
		before := time.Now()
		l.send([]byte("frame"))
		<-l.done
		if waited := time.Since(before); waited != n.timeout {
			t.Errorf("after %v, want %v", waited, n.timeout)
		}
		n.live.Wait()
	})
}

func TestWhatWaitsIsWrittenBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, far := writing(t)
		l.send([]byte("one "))
		l.send([]byte("two"))
		l.finish()
		got := make([]byte, 7)
		for i := 0; i < len(got); {
			m, err := far.Read(got[i:])
			if err != nil {
				t.Fatal(err)
			}
			i += m
		}
		if string(got) != "one two" {
			t.Errorf("got %q", got)
		}
		<-l.done
		n.live.Wait()
	})
}

// TestAnExchangeEndsBeforeThePersistentConnections: a foreign member that read the question of a boss which it
// has lost would take it for its boss again.
func TestAnExchangeEndsBeforeThePersistentConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, l, far := writing(t)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.peer.persistent = l
		n.listener, n.peers = listener, map[election.ID]*peer{l.peer.id: l.peer}
		n.out.Add(1)
		asked := time.Now()
		time.AfterFunc(100*time.Millisecond, n.out.Done)
		go n.shut(time.Second)
		if _, err := far.Read(make([]byte, 1)); err == nil {
			t.Error("it was told something")
		}
		if gone := time.Since(asked); gone != 100*time.Millisecond {
			t.Errorf("the persistent connection ended after %v, the exchange after 100 ms", gone)
		}
		n.live.Wait()
	})
}

// A leader with thousands of members still beats: their states are left out.
func TestABeatThatIsTooLongLosesTheStates(t *testing.T) {
	n := newConnections(&wire{Options{NodeType: "scrapper"}}, nil, network.Site{Self: "172.18.0.5", Log: slog.New(slog.DiscardHandler)})
	defer n.cancel()
	beat := &election.Message{Kind: election.Beat, Stamp: 7}
	for range 2000 {
		beat.States = append(beat.States, election.MemberReport{ID: "2001:db8:1234:5678:9abc:def0:1234:5678", State: election.StateUp, Epoch: 1 << 50})
	}
	b := n.self.bytes(&frame{Type: typeHeartbeat, MyID: n.self.IP, Batuta: n.self.envelope(beat)})
	f, err := readFrame(strings.NewReader(string(b)), func() {})
	if err != nil || f.Batuta == nil || f.Batuta.Message.Stamp != 7 || f.Batuta.Message.States != nil {
		t.Errorf("got %+v, %v", f, err)
	}
}

// That a machine has gone is no fault in a frame.
func TestAConnectionThatTheKernelGivesUpIsNoBadFrame(t *testing.T) {
	n, l, _ := writing(t)
	defer func() { l.close(); n.live.Wait() }()
	n.faults = &faults{log: n.log, counters: new(network.Counters)}
	n.faults.connection(l.nc, &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ETIMEDOUT)})
	n.faults.connection(l.nc, &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded})
	if _, _, counted := n.faults.counters.Counts(); len(counted) != 1 || counted["slow"] != 1 {
		t.Errorf("counted as %v", counted)
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"type":"identification","ip":"1.2.3.4","port":8080,"is_boss":true}`, `{"type":"heartbeat","batuta":{"message":{"list":[{"id":"x"}]}}}`, `{}`, `[`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := decode(body)
		if err == nil && got.Batuta != nil && got.Batuta.Message != nil {
			outward(got.Batuta.Message.inward())
		}
	})
}
