package superpeer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta/internal/net/security"
	rules "github.com/batuta-dev/batuta/internal/superpeer"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
	"github.com/batuta-dev/batuta/superpeer"
	"github.com/batuta-dev/batuta/superpeer/superpeertest"
)

func init() { fulltest.MostlyComputes() }

// crowd is some members on one fabric, in virtual time: a busy machine changes nothing.
type crowd struct {
	*testing.T
	net     *superpeertest.Network
	members map[int]*superpeer.Member
}

// inVirtualTime runs f with n members of base, the founder first.
func inVirtualTime(t *testing.T, n int, base superpeer.Config, f func(*crowd)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{T: t, members: map[int]*superpeer.Member{}}
		c.net = superpeertest.NewNetwork(func(a, b int) time.Duration { return time.Duration(10+7*(a+b)%90) * time.Millisecond })
		t.Cleanup(func() {
			for i := range c.members {
				c.kill(i)
			}
			time.Sleep(time.Minute) // for memberlist to notice
		})
		for i := range n {
			c.join(i, base)
		}
		f(c)
	})
}

func (c *crowd) join(host int, cfg superpeer.Config) *superpeer.Member {
	c.Helper()
	m, err := c.try(host, cfg)
	if err != nil {
		c.Fatalf("node %d: %v", host, err)
	}
	c.members[host] = m
	return m
}

func (c *crowd) try(host int, cfg superpeer.Config) (*superpeer.Member, error) {
	cfg.ID, cfg.Seed = fmt.Sprint(host), uint64(host)+1
	if cfg.Transport == nil {
		cfg.Transport = c.net.Transport(host)
	}
	if host > 0 && cfg.Join == nil {
		cfg.Join = []string{superpeertest.Address(0)}
	}
	ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
	defer cancel()
	return superpeer.Join(ctx, cfg)
}

func (c *crowd) kill(host int) {
	c.members[host].Kill()
	delete(c.members, host)
}

// settled says what is still wrong among some members: the number of super peers, a token
// that two hold, or somebody without a super peer.
func (c *crowd) settled(among func(host int) bool) error {
	if err := c.duplicates(among); err != nil {
		return err
	}
	supers, served, n, wanted := 0, 0, 0, 0
	for i, m := range c.members {
		if among != nil && !among(i) {
			continue
		}
		n++
		s := m.Status()
		wanted = s.Wanted
		if among == nil && s.Nodes != len(c.members) {
			return fmt.Errorf("%s counts %d nodes of %d", s.ID, s.Nodes, len(c.members))
		}
		if s.Capacity > 0 && s.Clients > s.Capacity {
			c.Errorf("%s serves %d, its capacity is %d", s.ID, s.Clients, s.Capacity)
		}
		if s.SuperPeer {
			supers++
		} else if s.Home != nil {
			served++
		}
	}
	if supers != wanted || served != n-supers {
		return fmt.Errorf("%d super peers, %d wanted; %d of %d ordinary nodes are served", supers, wanted, served, n-supers)
	}
	return nil
}

// within lets rounds pass until check holds, and tells how many.
func (c *crowd) within(rounds int, what string, check func() error) int {
	c.Helper()
	var err error
	for i := range rounds + 1 {
		if err = check(); err == nil {
			return i
		}
		time.Sleep(time.Second)
	}
	c.Fatalf("%s: not within %d rounds: %v", what, rounds, err)
	return rounds
}

// calm lets rounds pass until nothing has been wrong for twenty in a row. The first time that
// all is well may pass: while nodes still learn how far they are from each other, tokens move.
func (c *crowd) calm() {
	c.Helper()
	well := 0
	c.within(240, "be calm", func() error {
		if err := c.settled(nil); err != nil {
			well = 0
			return err
		}
		if well++; well < 20 {
			return fmt.Errorf("all has been well for %d rounds", well)
		}
		return nil
	})
}

func (c *crowd) super() int {
	for i := range 1000 {
		if m := c.members[i]; m != nil && m.IsSuperPeer() {
			return i
		}
	}
	c.Fatal("there is no super peer")
	return -1
}

// loseOne kills a super peer and waits until each of its clients has another.
func (c *crowd) loseOne(rounds int) {
	c.Helper()
	dead := c.super()
	var orphans []*superpeer.Member
	for _, m := range c.members {
		if h, ok := m.Home(); ok && h.ID == fmt.Sprint(dead) {
			orphans = append(orphans, m)
		}
	}
	c.kill(dead)
	took := c.within(rounds, "its clients have another", func() error {
		for _, m := range orphans {
			h, ok := m.Home()
			if (!ok || h.ID == fmt.Sprint(dead)) && !m.IsSuperPeer() {
				return fmt.Errorf("%s has none", m.ID())
			}
		}
		return nil
	})
	c.Logf("all %d clients had another super peer after %d rounds", len(orphans), took)
}

// duplicates says which token two of some members hold.
func (c *crowd) duplicates(among func(host int) bool) error {
	holder := map[int32]string{}
	for i, m := range c.members {
		if among != nil && !among(i) {
			continue
		}
		if s := m.Status(); s.Token != nil && holder[*s.Token] != "" {
			return fmt.Errorf("%s and %s hold token %d", holder[*s.Token], s.ID, *s.Token)
		} else if s.Token != nil {
			holder[*s.Token] = s.ID
		}
	}
	return nil
}

func TestOneNodeIsItsOwnSuperPeer(t *testing.T) {
	inVirtualTime(t, 1, superpeer.Config{Fraction: 0.02, Capacity: 49}, func(c *crowd) {
		c.within(120, "a node alone is a super peer", func() error { return c.settled(nil) })
		s := c.members[0].Status()
		if !s.SuperPeer || s.Live != 1 || s.Wanted != 1 || s.Clients != 0 {
			c.Errorf("status is %+v", s)
		}
		if r := s.Requirements; !r.Latency.Holds || !r.Spread.Holds || !r.Share.Holds || !r.Capacity.Holds {
			c.Errorf("a node alone meets all four, not %+v", r)
		}
	})
}

func TestADeadSuperPeerIsReplaced(t *testing.T) {
	inVirtualTime(t, 24, superpeer.Config{Fraction: 0.125, Capacity: 12}, func(c *crowd) {
		c.calm()
		c.loseOne(12)
		c.within(120, "be exact again", func() error { return c.settled(nil) })
	})
}

func TestAPartitionHealsWithoutDuplicates(t *testing.T) {
	inVirtualTime(t, 12, superpeer.Config{Fraction: 0.25}, func(c *crowd) {
		c.within(120, "settle", func() error { return c.settled(nil) })
		left := func(i int) bool { return i < 6 }
		c.net.Cut(func(a, b int) bool { return left(a) != left(b) })
		time.Sleep(90 * time.Second) // longer than memberlist remembers its dead
		for side, of := range map[string]func(int) bool{"left": left, "right": func(i int) bool { return !left(i) }} {
			c.within(120, side+" goes on by itself", func() error { return c.settled(of) })
		}
		if s := c.members[0].Status(); s.Nodes != 6 || s.Wanted != 2 {
			c.Errorf("one side counts %d nodes and wants %d super peers, want 6 and 2", s.Nodes, s.Wanted)
		}
		c.net.Cut(nil)
		c.within(120, "find each other again", func() error {
			for _, m := range c.members {
				if n := m.Status().Nodes; n != 12 {
					return fmt.Errorf("%s counts %d nodes", m.ID(), n)
				}
			}
			return nil
		})
		took := c.within(10, "have no duplicates once all know each other", func() error { return c.duplicates(nil) })
		c.Logf("duplicates were gone after %d rounds", took)
		c.within(120, "serve all", func() error { return c.settled(nil) })
	})
}

func TestWatchTellsHomesAndClients(t *testing.T) {
	inVirtualTime(t, 6, superpeer.Config{Fraction: 0.2}, func(c *crowd) {
		type seen struct{ supers, homes, came, went int }
		told := map[int]*seen{}
		ctx, cancel := context.WithCancel(c.Context())
		for i, m := range c.members {
			s := &seen{}
			told[i] = s
			go func() {
				for ev, err := range m.Watch(ctx) {
					switch {
					case err != nil:
						c.Errorf("watch of %d: %v", i, err)
					case ev.Kind == superpeer.EventSuper:
						s.supers++
					case ev.Kind == superpeer.EventHome && ev.Home != nil:
						s.homes++
					case ev.Kind == superpeer.EventClient && ev.Came:
						s.came++
					case ev.Kind == superpeer.EventClient:
						s.went++
					}
				}
			}()
		}
		c.within(120, "settle", func() error { return c.settled(nil) })
		time.Sleep(5 * time.Second)
		cancel()
		synctest.Wait()
		for i, m := range c.members {
			s := told[i]
			if m.IsSuperPeer() && (s.supers == 0 || s.came-s.went != len(m.Clients())) {
				c.Errorf("super peer %d serves %d and was told %+v", i, len(m.Clients()), *s)
			}
			if _, ok := m.Home(); ok && s.homes == 0 {
				c.Errorf("node %d has a home and was told %+v", i, *s)
			}
		}
	})
}

func TestLookupFindsTheRangesSuperPeer(t *testing.T) {
	inVirtualTime(t, 12, superpeer.Config{Fraction: 0.3, Method: rules.PrefixExact}, func(c *crowd) {
		c.within(120, "settle", func() error { return c.settled(nil) })
		c.within(120, "agree on whose each key is", func() error {
			for _, key := range []uint64{0, 1 << 62, 1 << 63, 1<<64 - 1} {
				names := map[string]bool{}
				for _, m := range c.members {
					p, err := m.Lookup(key)
					if err != nil {
						return fmt.Errorf("%s: key %x: %w", m.ID(), key, err)
					}
					names[p.ID] = true
				}
				if len(names) != 1 {
					return fmt.Errorf("key %x belongs to %v, depending on who is asked", key, names)
				}
			}
			return nil
		})
	})
}

func TestMapSaysWhoServesWhom(t *testing.T) {
	inVirtualTime(t, 12, superpeer.Config{Fraction: 0.25}, func(c *crowd) {
		c.within(120, "settle", func() error { return c.settled(nil) })
		c.within(120, "draw all", func() error {
			groups, err := c.members[5].Map(c.Context())
			if err != nil {
				return err
			}
			clients := 0
			for _, g := range groups {
				if !g.Answers {
					return fmt.Errorf("%s did not say whom it serves", g.ID)
				}
				clients += len(g.Clients)
			}
			if len(groups) != 3 || clients != 9 {
				return fmt.Errorf("the map has %d super peers with %d clients, want 3 with 9", len(groups), clients)
			}
			return nil
		})
	})
}

func TestAServicesOwnMeasureDecides(t *testing.T) {
	// Every node says that hosts of its own parity are near, whatever the network says.
	inVirtualTime(t, 1, superpeer.Config{Fraction: 0.2}, func(c *crowd) {
		for i := 1; i < 16; i++ {
			c.join(i, superpeer.Config{Fraction: 0.2, Service: fmt.Sprint(i), Measure: func(_ context.Context, addr string) (time.Duration, error) {
				var other int
				fmt.Sscan(addr, &other)
				if strings.Contains(addr, ":") || (other+i)%2 == 0 {
					return 3 * time.Millisecond, nil
				}
				return 400 * time.Millisecond, nil
			}})
		}
		c.within(120, "settle", func() error { return c.settled(nil) })
		time.Sleep(60 * time.Second)
		far := 0
		for i, m := range c.members {
			if h, ok := m.Home(); ok && h.Service != "" && i%2 != atoi(h.Service)%2 {
				far++
			}
		}
		if far > 3 {
			c.Errorf("%d of 16 nodes are served by one that they measured as far", far)
		}
	})
}

func atoi(s string) (n int) {
	fmt.Sscan(s, &n)
	return n
}

func TestStrangersAreRefused(t *testing.T) {
	dir := t.TempDir()
	secret := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(security.NewSecret()+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ours, theirs := secret("ours"), secret("theirs")
	base := superpeer.Config{Fraction: 0.2, Capacity: 10, Secret: ours}
	inVirtualTime(t, 3, base, func(c *crowd) {
		for name, change := range map[string]func(*superpeer.Config){
			"another secret":   func(o *superpeer.Config) { o.Secret = theirs },
			"no secret":        func(o *superpeer.Config) { o.Secret, o.Insecure = "", true },
			"another fraction": func(o *superpeer.Config) { o.Fraction = 0.3 },
			"another capacity": func(o *superpeer.Config) { o.Capacity = 11 },
			"another method":   func(o *superpeer.Config) { o.Method = rules.Random },
			"another round":    func(o *superpeer.Config) { o.Round = 2 * time.Second },
			"another overlay":  func(o *superpeer.Config) { o.Overlay = "other" },
		} {
			o := base
			change(&o)
			m, err := c.try(99, o)
			if err == nil {
				m.Kill()
				c.Errorf("%s: was let in", name)
				continue
			}
			if name != "another overlay" && !errors.Is(err, superpeer.ErrRefused) && !strings.Contains(err.Error(), "another secret") {
				c.Errorf("%s: the error does not say what to do: %v", name, err)
			}
		}
		c.within(120, "go on undisturbed", func() error { return c.settled(nil) })
		if n := c.members[0].Status().Nodes; n != 3 {
			c.Errorf("%d nodes are listed, want 3", n)
		}
	})
}

func TestAConfigThatCannotWorkIsRefused(t *testing.T) {
	for want, c := range map[string]superpeer.Config{
		"20 super peers × capacity 10 = 200 places for 980 others; raise the capacity to 49 or the fraction to 0.09091": withTransport(superpeer.Config{Fraction: 0.02, Capacity: 10}),
		"fraction 1.5":      withTransport(superpeer.Config{Fraction: 1.5}),
		"method \"x\"":      withTransport(superpeer.Config{Method: "x"}),
		"round 1ms":         withTransport(superpeer.Config{Round: time.Millisecond}),
		"capacity -1":       withTransport(superpeer.Config{Capacity: -1}),
		"give a secret":     {Listen: "0.0.0.0:7600", Advertise: "10.0.0.1:7600"},
		"want HOST:PORT":    {Join: []string{"nowhere"}},
		"not a name":        {Listen: "example.org:1"},
		"printable text":    withTransport(superpeer.Config{ID: "a\nb"}),
		"at most 128 bytes": withTransport(superpeer.Config{Service: strings.Repeat("x", 129)}),
	} {
		m, err := superpeer.Join(t.Context(), c)
		if err == nil {
			m.Kill()
			t.Errorf("%+v was taken", c)
			continue
		}
		if !errors.Is(err, superpeer.ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one that says %q", err, want)
		}
	}
}

// At boot a network may be configured after the service has started: a restart finds the address.
func TestAnAddressThatThisMachineHasNotYetIsNoWrongConfiguration(t *testing.T) {
	_, err := superpeer.Join(t.Context(), superpeer.Config{Listen: "192.0.2.1:0", Advertise: "192.0.2.1:7600", Insecure: true})
	if err == nil || errors.Is(err, superpeer.ErrConfig) || !strings.Contains(err.Error(), "192.0.2.1:0") || !strings.Contains(err.Error(), "an address of this machine") {
		t.Errorf("got %v", err)
	}
}

func withTransport(c superpeer.Config) superpeer.Config {
	c.Transport = superpeertest.NewNetwork(func(a, b int) time.Duration { return 0 }).Transport(0)
	return c
}
