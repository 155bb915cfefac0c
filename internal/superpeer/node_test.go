package superpeer

import (
	"slices"
	"testing"
)

// village is a handful of nodes in one line, with a network that loses what lost
// says and gossip that is never late.
type village struct {
	t     *testing.T
	cfg   Config
	ring  *Ring
	nodes []Node
	down  map[Peer]bool
	lost  func(*Message) bool
	round Round
	told  map[int32]Announcement
	queue []Message
}

func newVillage(t *testing.T, cfg Config, at ...float32) *village {
	v := &village{t: t, cfg: cfg.Defaults(), down: map[Peer]bool{}, told: map[int32]Announcement{}}
	v.cfg.Metric.Exact = true
	places := make([]Place, len(at))
	v.nodes = make([]Node, len(at))
	for i := range at {
		// Keys are chosen so that node 0 is the registrar of all.
		places[i] = Place{Key: uint64(i), Peer: Peer(i)}
		if i == 0 {
			places[i].Key = 1<<64 - 1
		}
		v.nodes[i] = New(&v.cfg, Peer(i), places[i].Key, uint64(i)*7919)
		v.nodes[i].Locate(Position{X: [MaxDims]float32{at[i]}})
	}
	v.ring = NewRing(places)
	v.cfg.Router = v.ring
	if err := v.cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	return v
}

// do lets p act and delivers what follows, until no message is left.
func (v *village) do(p Peer, act func(*Node, *Actions)) {
	v.step(p, act)
	for passed := 0; len(v.queue) > 0; passed++ {
		if passed == 10_000 {
			v.t.Fatalf("round %d: messages without end, now %+v", v.round, v.queue[0])
		}
		m := v.queue[0]
		v.queue = v.queue[1:]
		v.step(m.To, func(n *Node, out *Actions) { n.Receive(v.round, &m, out) })
		v.check()
	}
}

func (v *village) step(p Peer, act func(*Node, *Actions)) {
	if v.down[p] {
		return
	}
	var out Actions
	n := &v.nodes[p]
	act(n, &out)
	for len(out.Probe) > 0 || out.Look.Near > 0 {
		if out.Look.Near > 0 {
			out.Look.Near = 0
			n.Heard(v.round, v.gossip(n), &out)
			continue
		}
		to := out.Probe[0]
		out.Probe = out.Probe[1:]
		n.Probed(v.round, to, v.cfg.Metric.Estimate(&n.at, &v.nodes[to].at), !v.down[to], &out)
	}
	if out.Announce {
		v.told[out.Tell.Token] = out.Tell
	}
	for i := range out.Send {
		m := out.Send[i]
		if v.lost == nil || !v.lost(&m) {
			v.queue = append(v.queue, m)
		}
	}
}

func (v *village) gossip(n *Node) []Announcement {
	var list []Announcement
	for _, a := range v.told {
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b Announcement) int {
		return int(v.cfg.Metric.Estimate(&n.at, &a.At)) - int(v.cfg.Metric.Estimate(&n.at, &b.At))
	})
	return list
}

// check holds at every moment, not only between rounds.
func (v *village) check() {
	for i := range v.nodes {
		if load := len(v.nodes[i].Serving()); v.cfg.Capacity > 0 && load > v.cfg.Capacity {
			v.t.Fatalf("round %d: %d serves %d, over its capacity of %d", v.round, i, load, v.cfg.Capacity)
		}
	}
}

func (v *village) play(rounds int) {
	for range rounds {
		for i := range v.nodes {
			if v.nodes[i].Deadline() <= v.round {
				v.do(Peer(i), func(n *Node, out *Actions) { n.Wake(v.round, len(v.nodes)-len(v.down), out) })
			}
		}
		v.round++
	}
}

func (v *village) holders() (list []Peer) {
	for i := range v.nodes {
		if _, _, ok := v.nodes[i].Holding(); ok && !v.down[Peer(i)] {
			list = append(list, Peer(i))
		}
	}
	return list
}

// grant gives token to a node without its registrar, for a test's beginning.
func (v *village) grant(p Peer, token int32, version uint32) {
	v.do(p, func(n *Node, out *Actions) {
		n.Receive(v.round, &Message{Kind: Grant, From: 0, To: p, Token: token, Version: version}, out)
	})
}

func (v *village) charge(tokens ...int32) {
	for _, t := range tokens {
		v.nodes[0].Charged(v.round, t)
	}
}

func TestATokenIsGrantedAndServesEveryone(t *testing.T) {
	v := newVillage(t, Config{Fraction: 0.2}, 0, 1, 2, 3, 4)
	v.charge(0)
	v.play(12)
	h := v.holders()
	if len(h) != 1 {
		t.Fatalf("super peers are %v, want one", h)
	}
	for i := range v.nodes {
		if home := v.nodes[i].Home(); Peer(i) != h[0] && home != h[0] {
			t.Errorf("%d is served by %d, want %d", i, home, h[0])
		}
	}
}

func TestTheTokenGoesToTheMiddle(t *testing.T) {
	v := newVillage(t, Config{Fraction: 0.1}, 0, 10, 20, 30, 40, 50, 60, 70, 80)
	v.charge(0)
	v.grant(0, 0, 1)
	v.play(60)
	if h := v.holders(); !slices.Equal(h, []Peer{4}) {
		t.Errorf("super peers are %v, want the one in the middle, 4", h)
	}
}

// Two near the full super peer; the third has nowhere as good to go.
func TestAPlaceGoesToWhomItSparesMost(t *testing.T) {
	//                                                        near far
	v := newVillage(t, Config{Fraction: 0.4, Capacity: 2, Method: Random}, 100, 10, 12, 13, 90)
	v.charge(0, 1)
	v.grant(1, 0, 1)
	v.grant(4, 1, 1)
	v.play(30)
	for i, want := range map[int]Peer{0: 4, 2: 1, 3: 1} {
		if got := v.nodes[i].Home(); got != want {
			t.Errorf("%d is served by %d, want %d", i, got, want)
		}
	}
}

// A served node hears of a super peer that is nearer by less than the margin, and then of one by more.
func TestAHomeIsChangedForMoreThanTheMarginOnly(t *testing.T) {
	for _, c := range []struct {
		nearer float32
		home   Peer
	}{{0.5, 1}, {0.9, 1}, {1.5, 2}} {
		v := newVillage(t, Config{Fraction: 0.5, Method: Random}, 10, 0, 20-c.nearer, 300)
		v.charge(0)
		v.grant(1, 0, 1)
		v.play(10)
		if h := v.nodes[0].Home(); h != 1 {
			t.Fatalf("node 0 is served by %d, want the only super peer, 1", h)
		}
		v.grant(2, 1, 1)
		v.play(2 * maxLookGap)
		if h := v.nodes[0].Home(); h != c.home {
			t.Errorf("another super peer is %v ms nearer: node 0 is served by %d, want %d", c.nearer, h, c.home)
		}
	}
}

// A token in one room, where round trips differ by less than can be measured, stays where it is.
func TestATokenInOneRoomRests(t *testing.T) {
	v := newVillage(t, Config{Fraction: 0.2}, 0, 2, 1, 1.1, 0.9)
	v.charge(0)
	v.grant(1, 0, 1)
	v.play(60)
	if h := v.holders(); !slices.Equal(h, []Peer{1}) {
		t.Errorf("super peers are %v, want 1 as in the beginning", h)
	}
}

func TestALostTokenIsGrantedToAnHeir(t *testing.T) {
	v := newVillage(t, Config{Fraction: 0.2, Method: Random}, 0, 10, 11, 12, 13)
	v.charge(0)
	v.grant(1, 0, 1)
	v.play(8)
	v.down[1] = true
	v.play(10)
	h := v.holders()
	if len(h) != 1 || h[0] == 1 {
		t.Fatalf("super peers are %v, want one other than 1", h)
	}
	if _, version, _ := v.nodes[h[0]].Holding(); version < 2 {
		t.Errorf("the token came back under version %d, want a higher one than its last", version)
	}
	for i := range v.nodes {
		if p := Peer(i); p != 1 && p != h[0] && v.nodes[i].Home() != h[0] {
			t.Errorf("%d is served by %d, want %d", i, v.nodes[i].Home(), h[0])
		}
	}
}

func TestADuplicateIsDropped(t *testing.T) {
	v := newVillage(t, Config{Fraction: 0.2, Method: Random}, 0, 10, 11, 12, 13)
	v.charge(0)
	v.grant(1, 0, 1)
	v.play(6)
	v.grant(3, 0, 2) // by a registrar that another part of the ring believed in
	if h := v.holders(); len(h) != 2 {
		t.Fatalf("super peers are %v, want the duplicate", h)
	}
	v.play(6)
	if h := v.holders(); !slices.Equal(h, []Peer{3}) {
		t.Errorf("super peers are %v, want only the one with the newer version, 3", h)
	}
}

func TestATransferLostOnTheWayIsRepaired(t *testing.T) {
	v := newVillage(t, Config{Fraction: 0.1}, 0, 10, 20, 30, 40, 50, 60, 70, 80)
	v.charge(0)
	v.grant(0, 0, 1)
	lost := 0
	v.lost = func(m *Message) bool {
		if m.Kind == Transfer && lost == 0 {
			lost++
			return true
		}
		return false
	}
	v.play(60)
	if lost == 0 {
		t.Fatal("no transfer was lost; the test shows nothing")
	}
	if h := v.holders(); len(h) != 1 {
		t.Errorf("super peers are %v, want one", h)
	}
}

// A registrar under a newer version has fenced the holder; what the holder then
// asks for is not done.
func TestAFencedHolderCannotMoveItsToken(t *testing.T) {
	v := newVillage(t, Config{Fraction: 0.2, Method: Random}, 0, 10, 11, 12, 13)
	v.charge(0)
	v.grant(1, 0, 1)
	v.play(4)
	v.nodes[0].registrar.charges[0].version = 5
	moved := false
	v.lost = func(m *Message) bool { moved = moved || m.Kind == Confirm; return false }
	v.do(0, func(n *Node, out *Actions) {
		n.Receive(v.round, &Message{Kind: Move, From: 1, To: 0, Token: 0, Version: 1, Peer: 2}, out)
	})
	if moved {
		t.Error("the registrar recorded a move under an old version")
	}
}

func TestAnUnwantedTokenRetires(t *testing.T) {
	v := newVillage(t, Config{Fraction: 0.4, Method: Random}, 0, 10, 11, 12, 13)
	v.charge(0, 1)
	v.grant(1, 0, 1)
	v.grant(3, 1, 1)
	v.play(6)
	v.down[4], v.down[2], v.down[0] = true, true, false
	for range 4 {
		v.round++
		for i := range v.nodes {
			v.do(Peer(i), func(n *Node, out *Actions) { n.Wake(v.round, 2, out) }) // 0.4 of 2 makes one
		}
	}
	if h := v.holders(); !slices.Equal(h, []Peer{1}) {
		t.Errorf("super peers are %v, want token 0's holder alone, 1", h)
	}
}

// The node that a range belongs to has come later than the one that serves it.
// That one goes on until it has handed over, and nobody loses its place.
func TestAnIncumbentStaysUntilHandedOver(t *testing.T) {
	v := newVillage(t, Config{Fraction: 0.2, Method: PrefixExact}, 0, 10, 20, 30, 40)
	v.play(1) // everyone learns how many there are
	v.nodes[1].Charged(v.round, 0)
	handed := false
	v.lost = func(m *Message) bool {
		handed = handed || m.Kind == Transfer
		if h := v.holders(); !handed && !slices.Equal(h, []Peer{3}) {
			t.Fatalf("before the hand-over super peers are %v, want the incumbent, 3", h)
		}
		return false
	}
	v.grant(3, 0, 1)
	v.play(12)
	if !handed {
		t.Error("nothing was handed over")
	}
	if h := v.holders(); !slices.Equal(h, []Peer{1}) {
		t.Fatalf("super peers are %v, want the one whose range it is, 1", h)
	}
	for i := range v.nodes {
		if home := v.nodes[i].Home(); i != 1 && home != 1 {
			t.Errorf("%d is served by %d, want 1", i, home)
		}
	}
}

// A range over capacity is split: those nearest to its start stay.
func TestAFullRangeIsSplit(t *testing.T) {
	v := newVillage(t, Config{Fraction: 0.3, Capacity: 3, Method: PrefixExact}, 0, 10, 20, 30, 40, 50)
	v.play(1)
	// Both ranges' registrars: the first key at or after 0, and at or after half.
	v.nodes[1].Charged(v.round, 0)
	v.nodes[0].Charged(v.round, 1)
	v.play(30)
	if h := v.holders(); !slices.Equal(h, []Peer{0, 1}) {
		t.Fatalf("super peers are %v, want 0 and 1", h)
	}
	for i, want := range map[int]Peer{2: 1, 3: 1, 4: 1, 5: 0} {
		if got := v.nodes[i].Home(); got != want {
			t.Errorf("%d is served by %d, want %d", i, got, want)
		}
	}
}
