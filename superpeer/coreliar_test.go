package superpeer

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	rules "github.com/batuta-dev/batuta/internal/superpeer"
	"github.com/batuta-dev/batuta/superpeer/superpeertest"
)

// TestALiarOutsideTheCore has a client of a core say whatever it likes to all others, whose addresses it
// has got to know: that it holds their tokens, that tokens are granted, moved and dropped, that
// there are millions of nodes, where others are reached.
func TestALiarOutsideTheCore(t *testing.T) {
	const nodes, capacity = 16, 8
	synctest.Test(t, func(t *testing.T) {
		net := superpeertest.NewNetwork(func(a, b int) time.Duration { return time.Duration(5+a+b) * time.Millisecond })
		honest := together(t, net, nodes, Config{Membership: MembershipCore, Fraction: 0.375, Capacity: capacity})
		calm := func(what string) {
			t.Helper()
			time.Sleep(time.Second)
			within(t, 150, what, func() error { return wrong(honest, capacity) })
		}
		calm("settle")
		var liar *Member
		for i, m := range honest {
			if !m.IsSuperPeer() && i > 0 {
				liar, honest = m, append(append([]*Member(nil), honest[:i]...), honest[i+1:]...)
				break
			}
		}
		served, asked, most := 0, 0, 0
		for range 20 {
			for _, m := range honest {
				acquaint(liar, m)
				lie(liar, m)
				misname(liar, m)
			}
			time.Sleep(time.Second)
			for _, m := range honest {
				s := m.Status()
				asked, most = asked+1, max(most, s.Nodes)
				if s.Clients > capacity {
					t.Errorf("%s serves %d, its capacity is %d", s.ID, s.Clients, capacity)
				}
				if s.Home != nil || s.SuperPeer {
					served++
				}
			}
		}
		t.Logf("while one lied %d of 100 honest nodes were served, and at most %d nodes were counted", 100*served/asked, most)
		if 10*served < 7*asked {
			t.Errorf("while one lied %d of %d times an honest node was served, want seven of ten at least", served, asked)
		}
		if most > 4*nodes {
			t.Errorf("one liar had %d nodes counted, there are %d", most, nodes)
		}
		liar.Kill()
		calm("be well again without the liar")
		for _, m := range honest {
			m.Kill()
		}
		time.Sleep(time.Minute) // for memberlist to notice
	})
}

// acquaint lets one know where another is reached.
func acquaint(who, other *Member) {
	n := other.list.LocalNode()
	k := &known{node: memberlist.Node{Name: n.Name, Addr: n.Addr, Port: n.Port}}
	k.Peer = Peer{"x", k.node.Address(), "", uint64(other.peers.self)}
	who.peers.mu.Lock()
	defer who.peers.mu.Unlock()
	if who.peers.byUID[other.peers.self] == nil {
		who.peers.put(other.peers.self, k)
	}
}

// misname tells a node that others are reached where they are not, and that there are millions.
func misname(liar, to *Member) {
	w := message{Kind: kindKnow, From: liar.peers.self, Size: 5_000_000, Live: 9, Core: true}
	for _, n := range to.book.snapshot() {
		w.Nodes = append(w.Nodes, introduction{Node: n.holder, Addr: append(net.IPv4(10, 9, 9, 9).To4(), 1, 1)})
	}
	for _, kind := range []rules.Kind{kindKnow, rules.Accept, rules.Grant, rules.Offer} {
		w.Kind = kind
		if raw, err := encoder.Marshal(&w); err == nil {
			post(liar, to, append([]byte{tagMessage}, raw...))
		}
	}
}

func TestAHomeThatLiesForARoundDoublesTheNumberAtMost(t *testing.T) {
	c := &core{d: &driver{}}
	c.believe(16, 3)
	for range 5 {
		c.believe(5_000_000, 4)
	}
	if c.told != 32 {
		t.Errorf("of 16 nodes a liar has made %d in a round, want 32", c.told)
	}
	if c.believe(16, 4); c.told != 16 {
		t.Errorf("the next home says that there are 16, and %d are counted", c.told)
	}
	for now := range rules.Round(7) {
		c.believe(2000, now+5)
	}
	if c.told != 2000 {
		t.Errorf("an overlay that has grown to 2,000 counts %d after seven rounds", c.told)
	}
}

func TestAnAddressIsChangedByItsNodeAlone(t *testing.T) {
	p := three()
	p.most = 8
	at := func(u uid, last byte) introduction {
		return introduction{Node: u, Addr: []byte{10, 0, 0, last, 1, 1}}
	}
	address := func(u uid) string {
		k, _ := p.of(u)
		if k == nil {
			return "none"
		}
		return k.Address
	}
	p.meet(&message{From: 2, Nodes: []introduction{at(7, 7), at(3, 9), at(1, 9)}}, 1)
	if address(7) != "10.0.0.7:257" {
		t.Errorf("a node that was introduced is known at %s", address(7))
	}
	if a := address(3); a != "127.0.0.1:2" {
		t.Errorf("one that memberlist lists was moved to %s by another", a)
	}
	first, _ := p.of(7)
	p.meet(&message{From: 2, Nodes: []introduction{at(7, 8)}}, 2)
	if address(7) != "10.0.0.7:257" {
		t.Errorf("another moved it to %s", address(7))
	}
	p.meet(&message{From: 7, Nodes: []introduction{at(7, 8)}}, 3)
	if moved, _ := p.of(7); moved.Address != "10.0.0.8:257" || moved.peer != first.peer {
		t.Errorf("it moved to %s under handle %d, want 10.0.0.8:257 and %d", moved.Address, moved.peer, first.peer)
	}
	p.meet(&message{From: 2, Nodes: []introduction{{Node: 8, Addr: []byte{1}}, {Node: 9, Addr: []byte{0, 0, 0, 0, 1, 1}}, {Node: 10, Addr: []byte{10, 0, 0, 1, 0, 0}}}}, 3)
	if address(8)+address(9)+address(10) != "nonenonenone" {
		t.Errorf("impossible addresses are known: %s, %s, %s", address(8), address(9), address(10))
	}
}

func TestWhoIsKnownFromMessagesIsBounded(t *testing.T) {
	p := three()
	p.most = 8
	for u := uid(100); u < 200; u++ {
		p.meet(&message{From: 2, Nodes: []introduction{{Node: u, Addr: []byte{10, 0, 0, 1, 1, 1}}}}, rules.Round(u))
	}
	if n := len(p.byUID); n > 16 {
		t.Errorf("%d are known between two sweeps, want at most 16", n)
	}
	p.sweep(200, map[uid]bool{100: true})
	if n := len(p.byUID); n > 8 {
		t.Errorf("%d are known, want at most 8", n)
	}
	if _, ok := p.of(100); !ok {
		t.Error("one that is needed was forgotten")
	}
	for draw := range uint64(20) {
		if k := p.some(draw, true); k == nil || !k.listed {
			t.Errorf("lists are compared with %v, which has none", k)
		}
	}
	p.sweep(200+keepMet, map[uid]bool{100: true})
	if n := len(p.byUID); n != 4 {
		t.Errorf("%d are known after a long silence, want the three listed and the one needed", n)
	}
}

func TestTheGaugeDoesNotFollowWhatPasses(t *testing.T) {
	const window = 14
	feed := func(g *gauge, sum, rounds int) (n int) {
		for range rounds {
			n = g.take(sum, window)
		}
		return n
	}
	g := &gauge{n: 1}
	if n := feed(g, 100, haste); n != 100 {
		t.Errorf("an overlay that grew to 100 counts %d after %d rounds", n, haste)
	}
	feed(g, 100, window)
	if n := feed(g, 120, window/4); n != 100 {
		t.Errorf("who is counted twice while a super peer dies makes it %d, want 100", n)
	}
	if n := feed(g, 80, window/4); n != 100 {
		t.Errorf("who is counted by nobody meanwhile makes it %d, want 100", n)
	}
	if n := feed(g, 90, window); n != 90 {
		t.Errorf("when ten have gone for good it is %d, want 90", n)
	}
}
