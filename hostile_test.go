package batuta

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/net/transport"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

// stranger dials a member as a raw connection, over the network that it is on.
func stranger(t *testing.T, n *Node) net.Conn {
	t.Helper()
	c, err := n.cfg.Transport.Dial(t.Context(), n.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return c
}

func helloFrom(from, to ID, change func(*wire.Handshake)) *wire.Handshake {
	h := &wire.Handshake{Kind: wire.KindHello, Version: wire.ProtocolVersion, Cluster: DefaultCluster,
		From: Rank{ID: from}, Incarnation: math.MaxUint64, To: to, Address: "127.0.0.1:1"}
	if change != nil {
		change(h)
	}
	return h
}

// say writes a handshake and gives the answer.
func say(t *testing.T, c net.Conn, h *wire.Handshake) *wire.Handshake {
	t.Helper()
	frame, err := new(wire.Encoder).Handshake(h)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(frame); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, wire.LengthSize)
	if _, err := io.ReadFull(c, head); err != nil {
		t.Fatalf("no answer: %v", err)
	}
	body := make([]byte, binary.BigEndian.Uint32(head))
	if _, err := io.ReadFull(c, body); err != nil {
		t.Fatal(err)
	}
	answer, err := wire.DecodeHandshake(body)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// closed waits until the other end has closed c.
func closed(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := io.Copy(io.Discard, c); isTimeout(err) {
		t.Fatal("the connection still stands")
	}
}

// quick is a config with short times, so that deadlines pass soon.
func quick(c *Config) {
	c.Heartbeat, c.TMax, c.TProcess = 20*time.Millisecond, 50*time.Millisecond, 100*time.Millisecond
}

// unmoved runs f against the leader of a cluster and checks that nobody's view
// has changed, and what the leader has counted.
func unmoved(t *testing.T, what string, counted func(Status) uint64, f func(t *testing.T, leader *Node)) {
	t.Run(what, func(t *testing.T) {
		virtually(t, func(t *testing.T) {
			c := newVirtualCluster(t, 3)
			c.startAll()
			token := c.agree("3")
			f(t, c.nodes["3"])
			s := statusOf(c.nodes["3"])
			if counted(s) == 0 {
				t.Errorf("not counted: refused %v, bad %v", s.Refused, s.Bad)
			}
			for id, n := range c.nodes {
				if got := n.Leader().Token; got != token {
					t.Errorf("member %s holds %v, and held %v", id, got, token)
				}
			}
		})
	})
}

func TestStrangersAreRefusedAndCounted(t *testing.T) {
	for _, test := range []struct {
		what  string
		hello *wire.Handshake
		want  wire.Reason
	}{
		{"another cluster", helloFrom("1", "3", func(h *wire.Handshake) { h.Cluster = "other" }), wire.ReasonCluster},
		{"another version", helloFrom("1", "3", func(h *wire.Handshake) { h.Version = 99 }), wire.ReasonVersion},
		{"meant for another", helloFrom("1", "2", nil), wire.ReasonReceiver},
		{"not a member", helloFrom("9", "3", nil), wire.ReasonNotMember},
		{"the leader's own id", helloFrom("3", "3", nil), wire.ReasonSameID},
		{"the id of a member that is linked", helloFrom("1", "3", nil), wire.ReasonSameID},
		{"an older process", helloFrom("1", "3", func(h *wire.Handshake) { h.Incarnation = 1 }), wire.ReasonOldIncarnation},
		{"an address that is none", helloFrom("1", "3", func(h *wire.Handshake) { h.Address = "$(touch x):7400" }), wire.ReasonAddress},
		{"an address that steers", helloFrom("1", "3", func(h *wire.Handshake) { h.Address = "\x1b[31m:7400" }), wire.ReasonAddress},
		{"no hello", helloFrom("1", "3", func(h *wire.Handshake) { h.Kind = wire.KindWelcome }), wire.ReasonEarly},
	} {
		counted := func(s Status) uint64 { return s.Refused[string(test.want)] }
		unmoved(t, test.what, counted, func(t *testing.T, leader *Node) {
			waitLinks(t, leader, 2)
			c := stranger(t, leader)
			if answer := say(t, c, test.hello); answer.Kind != wire.KindRefused || answer.Reason != test.want || answer.Detail == "" {
				t.Errorf("answer %+v", answer)
			}
			closed(t, c)
		})
	}
}

// waitLinks waits until so many connections stand.
func waitLinks(t *testing.T, n *Node, links int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range n.Events(ctx) { // a link that comes up is a member event
		if statusOf(n).Links >= links {
			return
		}
	}
	t.Fatalf("%d links in vain; there are %d", links, statusOf(n).Links)
}

func TestBadFramesAreCountedAndMoveNothing(t *testing.T) {
	for _, test := range []struct {
		what string
		data []byte
		want wire.Reason
	}{
		{"random bytes", bytes.Repeat([]byte("batuta? "), 100), wire.ReasonLength},
		{"an endless frame", []byte("\xff\xff\xff\xff"), wire.ReasonLength},
		{"an empty frame", make([]byte, 4), wire.ReasonLength},
		{"no CBOR", []byte("\x00\x00\x00\x04oops"), wire.ReasonMalformed},
	} {
		counted := func(s Status) uint64 { return s.Bad[string(test.want)] }
		unmoved(t, test.what, counted, func(t *testing.T, leader *Node) {
			c := stranger(t, leader)
			if _, err := c.Write(test.data); err != nil {
				t.Fatal(err)
			}
			closed(t, c)
		})
	}
}

func TestAHelloThatDripsIsCutOff(t *testing.T) {
	counted := func(s Status) uint64 { return s.Bad[string(wire.ReasonSlow)] }
	unmoved(t, "hello", counted, func(t *testing.T, leader *Node) {
		c := stranger(t, leader)
		if _, err := c.Write([]byte{0, 0}); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		closed(t, c)
		if took, most := time.Since(begun), leader.cfg.timing().DialTime()+oneWay; took > most {
			t.Errorf("it stood for %v, longer than %v", took, most)
		}
	})
}

// impostor is a member of a cluster of two that is not batuta: it may send what
// it likes. It gives the member under test and the connection. It runs within
// [virtually].
func impostor(t *testing.T) (*Node, net.Conn) {
	t.Helper()
	c := newVirtualCluster(t, 2)
	n := c.start("2", quick)
	c.agree("2")
	conn := stranger(t, n)
	if answer := say(t, conn, helloFrom("1", "2", nil)); answer.Kind != wire.KindWelcome {
		t.Fatalf("answer %+v", answer)
	}
	return n, conn
}

func sendTo(t *testing.T, c net.Conn, m *election.Message) {
	t.Helper()
	frame, err := new(wire.Encoder).Message(m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(frame); err != nil {
		t.Fatal(err)
	}
}

func TestAMembersBadMessageEndsItsConnection(t *testing.T) {
	for _, test := range []struct {
		what    string
		message election.Message
		want    wire.Reason
	}{
		{"epoch near 2^64", election.Message{Kind: election.Coordinator, From: "1",
			Token: Token{Epoch: math.MaxUint64, Leader: Rank{ID: "1"}}}, wire.ReasonEpoch},
		{"highest near 2^64", election.Message{Kind: election.Beat, From: "1", Highest: math.MaxUint64}, wire.ReasonEpoch},
		{"another's name", election.Message{Kind: election.Beat, From: "2"}, wire.ReasonID},
		{"no name", election.Message{Kind: election.Beat}, wire.ReasonID},
	} {
		t.Run(test.what, func(t *testing.T) {
			virtually(t, func(t *testing.T) {
				n, c := impostor(t)
				before := n.Leader().Token
				sendTo(t, c, &test.message)
				closed(t, c)
				if s := statusOf(n); s.Bad[string(test.want)] != 1 || s.Token != before {
					t.Errorf("bad %v, token %v, and was %v", s.Bad, s.Token, before)
				}
			})
		})
	}
}

func TestAFrameThatDripsEndsItsConnection(t *testing.T) {
	virtually(t, func(t *testing.T) {
		n, c := impostor(t)
		if _, err := c.Write([]byte{0, 0, 0}); err != nil {
			t.Fatal(err)
		}
		closed(t, c)
		if s := statusOf(n); s.Bad[string(wire.ReasonSlow)] != 1 || s.Leader != "2" {
			t.Errorf("bad %v, leader %s", s.Bad, s.Leader)
		}
	})
}

func TestAnUnknownKindIsCountedAndTheConnectionStays(t *testing.T) {
	virtually(t, func(t *testing.T) {
		n, c := impostor(t)
		sendTo(t, c, &election.Message{Kind: "of-a-later-version", From: "1"})
		sendTo(t, c, &election.Message{Kind: election.Probe, Election: DefaultElection, From: "1"})
		// The report on the query shows that the connection was not closed.
		head := make([]byte, wire.LengthSize)
		for {
			if _, err := io.ReadFull(c, head); err != nil {
				t.Fatal(err)
			}
			body := make([]byte, binary.BigEndian.Uint32(head))
			if _, err := io.ReadFull(c, body); err != nil {
				t.Fatal(err)
			}
			if m, err := wire.DecodeMessage(body); err != nil {
				t.Fatal(err)
			} else if m.Kind == election.ProbeReply {
				break
			}
		}
		if s := statusOf(n); s.Bad[string(wire.ReasonKind)] != 1 || s.Received["of-a-later-version"] != 0 {
			t.Errorf("bad %v, received %v", s.Bad, s.Received)
		}
	})
}

func TestACrowdOfStrangersDoesNotKeepMembersOut(t *testing.T) {
	t.Parallel()
	patient := func(c *Config) { c.TMax = 2 * time.Second } // a slow machine still brings them all in before the first is cut off
	c := newCluster(t, 2)
	n := c.start("2", patient)
	c.agree("2")
	for range 3 * transport.PerHost(len(n.cfg.Peers)) {
		stranger(t, n)
	}
	c.start("1", patient)
	c.agree("2")
	if s := statusOf(n); s.Refused[string(wire.ReasonCrowded)] == 0 {
		t.Errorf("refused %v", s.Refused)
	}
}

func TestASecondProcessWithOneIDGivesUp(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 3)
		c.startAll(quick)
		token := c.agree("3")
		cfg := c.config("3")
		quick(&cfg)
		cfg.Listen, cfg.Transport = "127.0.0.1:0", c.memory.Host("")
		second, err := Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close()
		awaitEnd(t, second)
		if err := second.Err(); err == nil || !bytes.Contains([]byte(err.Error()), []byte(c.members[2].Addr)) {
			t.Errorf("got %v; want it to name %s", err, c.members[2].Addr)
		}
		for id, n := range c.nodes {
			if got := n.Leader().Token; got != token {
				t.Errorf("member %s holds %v, and held %v", id, got, token)
			}
		}
	})
}

// Where nobody has heard the first process for T, the second is the member, and the first
// ends once it reaches the others again.
func TestTheFirstOfTwoProcessesEndsWhereTheSecondIsTheMember(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 3)
		c.startAll(quick)
		c.agree("3")
		first := c.nodes["3"]
		c.memory.Cut("3", "1")
		c.memory.Cut("3", "2")
		delete(c.nodes, "3")
		c.agree("2")
		c.nodes["3"] = c.start("3", quick, func(cfg *Config) { cfg.Listen, cfg.Transport = "127.0.0.1:0", c.memory.Host("second") })
		token := c.agree("3")
		c.memory.Heal("3", "1")
		c.memory.Heal("3", "2")
		awaitEnd(t, first)
		if err := first.Err(); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "id 3 is in use") {
			t.Errorf("got %v", err)
		}
		if now := c.agree("3"); now != token {
			t.Errorf("the others hold %v, and held %v", now, token)
		}
	})
}

// A second process that asks to be let in is refused for as long as the first is heard: it ends, too.
func TestASecondProcessThatJoinsGivesUp(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 3)
		c.start("1", joins(c), quick)
		c.start("2", joins(c, "1"), quick)
		token := c.agree("2")
		cfg := c.config("3")
		joins(c, "1")(&cfg)
		quick(&cfg)
		cfg.ID, cfg.Bootstrap = "2", false
		second, err := Start(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close()
		awaitEnd(t, second)
		if err := second.Err(); err == nil || !strings.Contains(err.Error(), "id 2 is in use by the process at "+c.members[1].Addr+", as member 1 reports") {
			t.Errorf("got %v; want it to name %s", err, c.members[1].Addr)
		}
		if now := c.agree("2"); now != token {
			t.Errorf("the others hold %v, and held %v", now, token)
		}
	})
}
