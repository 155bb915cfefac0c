package superpeer

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	rules "github.com/batuta-dev/batuta/internal/superpeer"
	"github.com/batuta-dev/batuta/superpeer/superpeertest"
)

// TestALiarAmongHonestNodes has one node of sixteen, which knows the secret if there is one, say
// whatever it likes for a while: that it holds others' tokens, under versions that rise and
// rise, with ten thousand clients, at NaN, that tokens are granted, moved and dropped. What it
// can do meanwhile is in docs/superpeers-operation.md; once it is silent all is well again.
func TestALiarAmongHonestNodes(t *testing.T) {
	const nodes, capacity = 16, 8
	synctest.Test(t, func(t *testing.T) {
		net := superpeertest.NewNetwork(func(a, b int) time.Duration { return time.Duration(5+a+b) * time.Millisecond })
		all := together(t, net, nodes, Config{Fraction: 0.375, Capacity: capacity})
		honest, liar := all, (*Member)(nil)
		well := func() error { return wrong(honest, capacity) }
		within(t, 60, "settle", well)
		for i, m := range all { // one that serves nobody: what a super peer can do to its own clients is another matter
			if !m.IsSuperPeer() {
				honest, liar = append(append([]*Member(nil), all[:i]...), all[i+1:]...), m
			}
		}
		served, asked := 0, 0
		for range 20 {
			for _, m := range honest {
				lie(liar, m)
			}
			time.Sleep(time.Second)
			for _, m := range honest {
				asked++
				if n := len(m.Clients()); n > capacity {
					t.Errorf("%s serves %d, its capacity is %d", m.ID(), n, capacity)
				}
				if _, ok := m.Home(); ok || m.IsSuperPeer() {
					served++
				}
				if at := m.place.Coordinate(); at.Check() != nil {
					t.Errorf("%s believes to be at %+v", m.ID(), at)
				}
			}
		}
		t.Logf("while one lied %d of 100 honest nodes were served", 100*served/asked)
		if 10*served < 7*asked {
			t.Errorf("while one lied %d of %d times an honest node was served, want seven of ten at least", served, asked)
		}
		liar.Kill()
		within(t, 60, "be well again without the liar", well)
		for _, m := range honest {
			m.Kill()
		}
		time.Sleep(time.Minute) // for memberlist to notice
	})
}

// TestALiarAmongNewcomers has nodes join through a liar, which tells them of each token a version
// that nobody has come to, and claims one token after the other under it. They are registrars of
// some. The others' word sets it right: no token is left that nobody can take.
func TestALiarAmongNewcomers(t *testing.T) {
	const nodes, newcomers, made = 8, 8, 1 << 30
	synctest.Test(t, func(t *testing.T) {
		net := superpeertest.NewNetwork(func(a, b int) time.Duration { return time.Duration(5+a+b) * time.Millisecond })
		var honest []*Member
		enter := func(i int, join ...string) *Member {
			c := Config{Fraction: 0.375, ID: fmt.Sprint(i), Seed: uint64(i) + 1, Transport: net.Transport(i), Join: join}
			m, err := Join(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		for i := range nodes {
			honest = append(honest, enter(i, superpeertest.Address(0)))
		}
		liar := enter(nodes, superpeertest.Address(0))
		time.Sleep(30 * time.Second)
		for round := range 40 {
			if round < newcomers {
				liar.book.mu.Lock()
				for _, e := range liar.book.entries {
					e.Version |= made
				}
				liar.book.mu.Unlock()
				honest = append(honest, enter(nodes+1+round, superpeertest.Address(nodes)))
			}
			w := message{Kind: rules.Keep, From: liar.peers.self, Token: int32(round / minTellGap % 6), Version: made}
			raw, err := encoder.Marshal(&w)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range honest[nodes:] {
				post(liar, m, append([]byte{tagMessage}, raw...))
			}
			time.Sleep(time.Second)
		}
		liar.Kill()
		time.Sleep(time.Second)
		within(t, 60, "be well again without the liar", func() error {
			for _, m := range honest {
				for _, n := range m.book.snapshot() {
					if n.Version >= made {
						return fmt.Errorf("%s believes token %d to have version %d", m.ID(), n.Token, n.Version)
					}
				}
			}
			return wrong(honest, 0)
		})
		for _, m := range honest {
			m.Kill()
		}
		time.Sleep(time.Minute) // for memberlist to notice
	})
}

// TestALiarBesideAHolderThatIsItsOwnRegistrar has a liar claim a token whose holder keeps the
// token's record itself, and so has heard of the token's version from nobody.
func TestALiarBesideAHolderThatIsItsOwnRegistrar(t *testing.T) {
	tried := 0
	for nodes := 4; nodes < 20; nodes++ {
		synctest.Test(t, func(t *testing.T) {
			net := superpeertest.NewNetwork(func(int, int) time.Duration { return 5 * time.Millisecond })
			all := together(t, net, nodes, Config{Fraction: 0.5})
			within(t, 60, "settle", func() error {
				for _, m := range all { // a newcomer may reach some nodes by a later exchange of lists
					if listed := m.Status().Nodes; listed != nodes {
						return fmt.Errorf("%s lists %d nodes of %d", m.ID(), listed, nodes)
					}
				}
				return wrong(all, 0)
			})
			var own []*Member
			var liar *Member
			claims := map[*Member]message{}
			for _, m := range all {
				err := m.call(t.Context(), func(d *driver) {
					switch held, _, holds := d.node.Holding(); {
					case !holds:
						liar = m
					case d.charged[held]:
						own = append(own, m)
						claims[m] = message{Kind: rules.Keep, Token: held, Version: 1 << 30}
					}
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			tried += len(own)
			for _, m := range own {
				claim := claims[m]
				claim.From = liar.peers.self
				raw, err := encoder.Marshal(&claim)
				if err != nil {
					t.Fatal(err)
				}
				if !post(liar, m, append([]byte{tagMessage}, raw...)) {
					t.Fatalf("%s does not know %s", liar.ID(), m.ID())
				}
				time.Sleep(minTellGap * time.Second) // nobody is heard for two tokens sooner
			}
			time.Sleep(4 * time.Second)
			for _, m := range own {
				if !m.IsSuperPeer() {
					t.Errorf("%s of %d was deposed by a version that no node can have reached", m.ID(), nodes)
				}
			}
			for _, m := range all {
				m.Kill()
			}
			time.Sleep(time.Minute) // for memberlist to notice
		})
	}
	if tried == 0 {
		t.Error("no holder was its own registrar")
	}
}

// together are so many nodes that have joined by the first.
func together(t *testing.T, net *superpeertest.Network, nodes int, base Config) (all []*Member) {
	t.Helper()
	for i := range nodes {
		c := base
		c.ID, c.Seed, c.Transport = fmt.Sprint(i), uint64(i)+1, net.Transport(i)
		if i > 0 {
			c.Join = []string{superpeertest.Address(0)}
		}
		m, err := Join(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

// within waits until check finds nothing wrong, looking at once and then a round at a time, so often at most.
func within(t *testing.T, looks int, what string, check func() error) {
	t.Helper()
	var err error
	for range looks {
		if err = check(); err == nil {
			return
		}
		time.Sleep(time.Second)
	}
	t.Errorf("%s: not within %d rounds: %v", what, looks, err)
}

// wrong says what is not as it should be among nodes, or nil.
func wrong(nodes []*Member, capacity int) error {
	supers := 0
	for _, m := range nodes {
		s := m.Status()
		if s.SuperPeer {
			supers++
		} else if s.Home == nil {
			return fmt.Errorf("%s is not served", s.ID)
		}
		if capacity > 0 && s.Clients > capacity {
			return fmt.Errorf("%s serves %d", s.ID, s.Clients)
		}
	}
	if wanted := nodes[0].Status().Wanted; supers != wanted && supers != wanted-1 { // the liar may be one
		return fmt.Errorf("%d super peers, %d wanted", supers, wanted)
	}
	return nil
}

// post sends a packet, if one knows where the other is.
func post(from, to *Member, raw []byte) bool {
	k, ok := from.peers.of(to.peers.self)
	if ok {
		_ = from.list.SendBestEffort(&k.node, raw)
	}
	return ok
}

// lie tells a node all that is false.
func lie(liar, to *Member) {
	tell := func(raw []byte) { post(liar, to, raw) }
	nan := float32(math.NaN())
	for token := range int32(6) {
		for _, n := range to.book.snapshot() {
			if n.Token != token {
				continue
			}
			for _, rise := range []uint32{1, 64, 1 << 20} {
				false1 := notice{holder: liar.peers.self, seq: 1 << 30, load: 1}
				false1.Token, false1.Version, false1.Spare = token, n.Version+rise, 4
				tell(false1.encode())
				false2 := false1
				false2.Gain, false2.Price, false2.load = float32(math.Inf(1)), nan, 10_000
				tell(false2.encode())
				for _, kind := range []rules.Kind{rules.Keep, rules.Grant, rules.Drop, rules.Moved, rules.Gone, rules.Transfer, rules.Detach, rules.Redirect} {
					w := message{Kind: kind, From: liar.peers.self, Peer: liar.peers.self, Token: token, Version: n.Version + rise}
					raw, _ := encoder.Marshal(&w)
					tell(append([]byte{tagMessage}, raw...))
				}
			}
		}
	}
	for _, w := range []message{
		{Kind: rules.Attach, RTT: nan, At: []float32{nan, 0, 0, 0, 0}},
		{Kind: rules.Attach, RTT: 1, At: []float32{1e9, 0, 0, 0, 0}},
		{Kind: rules.Transfer, Leases: make([]lease, 10_000)},
	} {
		w.From = liar.peers.self
		if raw, err := encoder.Marshal(&w); err == nil && len(raw) < 1200 {
			tell(append([]byte{tagMessage}, raw...))
		}
	}
}
