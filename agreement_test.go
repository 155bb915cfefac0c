package batuta

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election/ring"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

// differences are settings in which one member may differ from all others; both
// values are in what either end reports.
var differences = []struct {
	what   string
	change func(*Config)
	want   wire.Reason
	values []string
}{
	{"algorithm", func(c *Config) { c.Algorithm = ring.New() }, wire.ReasonAlgorithm, []string{`"bully"`, `"ring"`}},
	{"times", func(c *Config) {
		c.TMax, c.TProcess = 20*time.Millisecond, 40*time.Millisecond
		c.Heartbeat = 10 * time.Millisecond
	},
		wire.ReasonTimes, []string{"150ms", "300ms", "20ms", "40ms"}},
	{"t_max", func(c *Config) { c.TMax = 200 * time.Millisecond }, wire.ReasonTimes, []string{"150ms", "200ms"}},
	{"t_process", func(c *Config) { c.TProcess = 400 * time.Millisecond }, wire.ReasonTimes, []string{"300ms", "400ms"}},
	{"election", func(c *Config) { c.Election = "backups" }, wire.ReasonElection, []string{`"default"`, `"backups"`}},
}

// waitStatus waits until n's status is good.
func waitStatus(t *testing.T, n *Node, what string, good func(Status) bool) Status {
	t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		s := statusOf(n)
		if good(s) {
			return s
		}
		if time.Now().After(until) {
			t.Fatalf("waited in vain until %s; refused %v, members %+v", what, s.Refused, s.Members)
		}
	}
}

func memberIn(s Status, id ID) MemberStatus {
	for _, m := range s.Members {
		if m.ID == id {
			return m
		}
	}
	return MemberStatus{}
}

func TestMembersThatDifferRefuseEachOtherAndBothSayWhy(t *testing.T) {
	for _, test := range differences {
		t.Run(test.what, func(t *testing.T) {
			c := newCluster(t, 2)
			logs := map[ID]*bytes.Buffer{"1": {}, "2": {}}
			logged := func(cfg *Config) { cfg.Logger = slog.New(slog.NewTextHandler(logs[ID(cfg.ID)], nil)) }
			ends := map[ID]*Node{"2": c.start("1", logged), "1": c.start("2", test.change, logged)} // by the other's id
			for other, n := range ends {
				s := waitStatus(t, n, "it has refused", func(s Status) bool {
					return s.Refused[string(test.want)] > 0 && memberIn(s, other).Refusal != ""
				})
				for _, value := range test.values {
					if said := memberIn(s, other).Refusal; !strings.Contains(said, value) {
						t.Errorf("member %s says %q, which does not name %s", n.ID(), said, value)
					}
				}
				if s.Links != 0 || s.Leader == other {
					t.Errorf("member %s has %d links and follows %q", n.ID(), s.Links, s.Leader)
				}
			}
			for _, n := range ends {
				n.Close() // and its log is written
				for _, value := range test.values {
					if log := logs[n.ID()].String(); !strings.Contains(strings.ReplaceAll(log, `\"`, `"`), value) {
						t.Errorf("the log of member %s does not name %s:\n%s", n.ID(), value, log)
					}
				}
			}
		})
	}
}

func TestAMemberThatDiffersDisturbsNobody(t *testing.T) {
	for _, test := range differences {
		t.Run(test.what, func(t *testing.T) {
			virtually(t, func(t *testing.T) {
				c := newVirtualCluster(t, 3)
				c.start("1")
				c.start("2")
				token := c.agree("2")
				odd := c.start("3", test.change)
				if s := waitStatus(t, odd, "it stands aside as refused", func(s Status) bool { return s.Standing == StandingRefused }); s.Token.Defined() {
					t.Errorf("member 3 has %v for its leader next to the members that refuse it", s.Token)
				}
				for _, id := range []ID{"1", "2"} {
					waitStatus(t, c.nodes[id], "it has refused", func(s Status) bool { return s.Refused[string(test.want)] > 0 })
					if got := c.nodes[id].Leader().Token; got != token {
						t.Errorf("member %s holds %v, and held %v", id, got, token)
					}
				}
			})
		})
	}
}

func TestANewcomerThatDiffersIsToldWhy(t *testing.T) {
	for _, test := range differences {
		t.Run(test.what, func(t *testing.T) {
			c := newCluster(t, 1)
			n := c.start("1")
			c.agree("1")
			cfg := Config{ID: "2", Algorithm: c.config("1").Algorithm, Listen: "127.0.0.1:0", Join: []string{n.Addr()}, Logger: testLog(t, "2")}
			test.change(&cfg)
			newcomer, err := Start(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer newcomer.Close()
			awaitEnd(t, newcomer)
			if !errors.Is(newcomer.Err(), ErrConfig) {
				t.Errorf("got %v", newcomer.Err())
			}
			for _, value := range test.values {
				if err := newcomer.Err(); err == nil || !strings.Contains(err.Error(), value) {
					t.Errorf("got %v, which does not name %s", err, value)
				}
			}
			for _, s := range []Status{statusOf(n), statusOf(newcomer)} {
				if s.Refused[string(test.want)] == 0 {
					t.Errorf("member %s has refused %v", s.ID, s.Refused)
				}
			}
			if s := statusOf(n); len(s.Members) != 1 {
				t.Errorf("it stands on the list: %+v", s.Members)
			}
		})
	}
}

func TestHeartbeatsMayDiffer(t *testing.T) {
	c := newCluster(t, 2)
	c.start("1", func(c *Config) { c.Heartbeat = 20 * time.Millisecond })
	c.start("2")
	c.agree("2")
}

// A member of another protocol version is refused by name, dialed or dialing, and each
// end has both versions in its log and status.
func TestAnotherProtocolVersionIsRefused(t *testing.T) {
	another := func(h *wire.Handshake) { h.Version = 7 }
	const words = "member 2 speaks protocol version 1, member 1 version 7"
	t.Run("dialing", func(t *testing.T) {
		virtually(t, func(t *testing.T) {
			c := newVirtualCluster(t, 2)
			var out bytes.Buffer
			n := c.start("2", func(cfg *Config) { cfg.Logger = slog.New(slog.NewTextHandler(&out, nil)) })
			answer := say(t, stranger(t, n), helloFrom("1", "2", another))
			if answer.Kind != wire.KindRefused || answer.Reason != wire.ReasonVersion || !strings.Contains(answer.Detail, words) {
				t.Errorf("answer %+v", answer)
			}
			if s := statusOf(n); s.Refused["version"] != 1 || !strings.Contains(memberIn(s, "1").Refusal, words) {
				t.Errorf("refused %v, and of member 1 it says %q", s.Refused, memberIn(s, "1").Refusal)
			}
			n.Close()
			if !strings.Contains(out.String(), words) {
				t.Errorf("the log does not say it:\n%s", out.String())
			}
		})
	})
	for _, kind := range []wire.HandshakeKind{wire.KindWelcome, wire.KindRefused} {
		t.Run("answering: "+string(kind), func(t *testing.T) {
			c := newCluster(t, 2)
			addr, _ := olderMember(t, "1", another, func(h *wire.Handshake) {
				if h.Kind = kind; kind == wire.KindRefused {
					h.Reason, h.Detail = wire.ReasonVersion, "so it is"
				}
			})
			n := c.start("2", func(cfg *Config) { cfg.Peers = []Peer{{ID: "1", Addr: addr}, c.members[1]} })
			s := waitStatus(t, n, "it has refused", func(s Status) bool { return s.Refused["version"] > 0 })
			if said := memberIn(s, "1").Refusal; !strings.Contains(said, words) || s.Links != 0 {
				t.Errorf("of member 1 it says %q, and it has %d links", said, s.Links)
			}
		})
	}
}

// olderMember is a process that sends nothing of what must agree: it
// answers a hello with a welcome, and hands over each connection.
func olderMember(t *testing.T, id ID, change ...func(*wire.Handshake)) (addr string, conns chan net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	conns = make(chan net.Conn, 16)
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			answer := &wire.Handshake{Kind: wire.KindWelcome, Version: wire.ProtocolVersion, From: Rank{ID: id}, Incarnation: 7, Address: l.Addr().String()}
			for _, f := range change {
				f(answer)
			}
			frame, _ := new(wire.Encoder).Handshake(answer)
			nc.Write(frame)
			select {
			case conns <- nc:
			default:
			}
		}
	}()
	return l.Addr().String(), conns
}

// An older member sends neither its algorithm nor its times: a cluster is brought
// up to date member by member.
func TestAnOlderMemberIsAdmitted(t *testing.T) {
	t.Run("when it dials", func(t *testing.T) {
		virtually(t, func(t *testing.T) {
			_, c := impostor(t) // its hello has none of the fields
			c.Close()
		})
	})
	t.Run("when it is dialed", func(t *testing.T) {
		c := newCluster(t, 2)
		addr, conns := olderMember(t, "1")
		n := c.start("2", func(cfg *Config) {
			cfg.Peers = []Peer{{ID: "1", Addr: addr}, c.members[1]}
		})
		defer func() {
			for len(conns) > 0 {
				(<-conns).Close()
			}
		}()
		s := waitStatus(t, n, "the link stands", func(s Status) bool { return s.Links > 0 })
		if len(s.Refused) != 0 {
			t.Errorf("refused %v", s.Refused)
		}
	})
	t.Run("when it joins", func(t *testing.T) {
		c := newCluster(t, 1)
		n := c.start("1")
		c.agree("1")
		conn := stranger(t, n)
		hello := helloFrom("0", "", func(h *wire.Handshake) { h.Kind = wire.KindJoin })
		if answer := say(t, conn, hello); answer.Kind != wire.KindAdmitted {
			t.Errorf("answer %+v", answer)
		}
	})
}

func TestARefusalIsForgottenOnceALinkStands(t *testing.T) {
	c := newCluster(t, 2)
	c.start("1")
	odd := c.start("2", func(c *Config) { c.Election = "other" })
	waitStatus(t, c.nodes["1"], "it has refused", func(s Status) bool { return memberIn(s, "2").Refusal != "" })
	odd.Close()
	c.kill("2")
	c.rebind("2")
	c.start("2")
	c.agree("2")
	waitStatus(t, c.nodes["1"], "all is well", func(s Status) bool { return memberIn(s, "2").Refusal == "" })
}

// A reason is the label of a counter: another member does not make up new ones.
func TestAnUnknownReasonIsCountedAsOther(t *testing.T) {
	c := newCluster(t, 2)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			frame, _ := new(wire.Encoder).Handshake(&wire.Handshake{Kind: wire.KindRefused, Version: wire.ProtocolVersion, From: Rank{ID: "1"},
				Reason: "because \x1b[31m", Detail: "\x1b]0;owned\x07 it is so"})
			nc.Write(frame)
			nc.Close()
		}
	}()
	n := c.start("2", func(cfg *Config) {
		cfg.Peers = []Peer{{ID: "1", Addr: l.Addr().String()}, c.members[1]}
	})
	s := waitStatus(t, n, "it was refused", func(s Status) bool { return len(s.Refused) > 0 })
	if s.Refused[string(wire.ReasonOther)] == 0 || len(s.Refused) != 1 {
		t.Errorf("refused %v", s.Refused)
	}
	if said := memberIn(s, "1").Refusal; strings.ContainsAny(said, "\x1b\x07") || !strings.Contains(said, "it is so") {
		t.Errorf("it says %q", said)
	}
}
