package superpeer_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	rules "github.com/batuta-dev/batuta/internal/superpeer"
	"github.com/batuta-dev/batuta/superpeer"
)

// ofCore is an overlay whose super peers alone know each other.
func ofCore(fraction float64, capacity int) superpeer.Config {
	return superpeer.Config{Fraction: fraction, Capacity: capacity, Membership: superpeer.MembershipCore}
}

func TestACoreServesAllAndReplacesItsDead(t *testing.T) {
	inVirtualTime(t, 24, ofCore(0.125, 12), func(c *crowd) {
		took := c.within(240, "settle", func() error { return c.settled(nil) })
		c.Logf("settled after %d rounds", took)
		c.loseOne(20)
		took = c.within(240, "be exact again", func() error { return c.settled(nil) })
		c.Logf("the number was right after %d rounds more", took)
	})
}

// TestAllSuperPeersOfACoreDie has nobody left who knows a living super peer; where the founder dies too,
// nobody answers at the only address that all were given.
func TestAllSuperPeersOfACoreDie(t *testing.T) {
	for name, founderToo := range map[string]bool{"the address to join by lives": false, "it dies too": true} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, 24, ofCore(0.125, 0), func(c *crowd) {
				c.within(240, "settle", func() error { return c.settled(nil) })
				for i := range 24 {
					if c.members[i].IsSuperPeer() || founderToo && i == 0 {
						c.kill(i)
					}
				}
				took := c.within(300, "elect others", func() error { return c.settled(nil) })
				c.Logf("all were served again after %d rounds", took)
			})
		})
	}
}

func TestTwoCoresBecomeOneWhenAPartitionHeals(t *testing.T) {
	inVirtualTime(t, 16, ofCore(0.25, 0), func(c *crowd) {
		c.within(240, "settle", func() error { return c.settled(nil) })
		left := func(i int) bool { return i < 8 }
		c.net.Cut(func(a, b int) bool { return left(a) != left(b) })
		for side, of := range map[string]func(int) bool{"left": left, "right": func(i int) bool { return !left(i) }} {
			took := c.within(240, side+" goes on by itself", func() error { return c.settled(of) })
			c.Logf("%s had its own super peers after %d rounds", side, took)
		}
		c.net.Cut(nil)
		took := c.within(240, "be one overlay again", func() error { return c.settled(nil) })
		c.Logf("one overlay after %d rounds", took)
		c.within(10, "have no duplicates", func() error { return c.duplicates(nil) })
	})
}

// TestACoreCountsWhoComesAndGoes waits for a moment in which no client changes hands: 84 rounds in the median
// of 88 runs, 179 in the longest.
func TestACoreCountsWhoComesAndGoes(t *testing.T) {
	base := ofCore(0.2, 5)
	inVirtualTime(t, 10, base, func(c *crowd) {
		c.within(240, "settle", func() error { return c.settled(nil) })
		for i := 10; i < 40; i++ {
			c.join(i, base)
		}
		took := c.within(400, "count those who came", func() error { return c.settled(nil) })
		c.Logf("40 nodes were counted after %d rounds", took)
		for i := 20; i < 40; i++ {
			if err := c.members[i].Close(); err != nil {
				c.Errorf("close: %v", err)
			}
			delete(c.members, i)
		}
		took = c.within(400, "count those who stayed", func() error { return c.settled(nil) })
		c.Logf("20 nodes were counted after %d rounds", took)
	})
}

// TestAFounderThatIsStartedAnewIsFound has the node leave that was given no address to join by, and
// come back at the address that it had.
func TestAFounderThatIsStartedAnewIsFound(t *testing.T) {
	for _, membership := range []superpeer.Membership{superpeer.MembershipFull, superpeer.MembershipCore} {
		t.Run(string(membership), func(t *testing.T) {
			base := superpeer.Config{Fraction: 0.25, Membership: membership}
			inVirtualTime(t, 8, base, func(c *crowd) {
				c.within(240, "settle", func() error { return c.settled(nil) })
				if err := c.members[0].Close(); err != nil {
					c.Errorf("close: %v", err)
				}
				delete(c.members, 0)
				c.within(240, "go on", func() error { return c.settled(nil) })
				base.Transport, base.Join = c.net.Transport(0), []string{}
				c.join(100, base)
				took := c.within(240, "be one overlay again", func() error { return c.settled(nil) })
				c.Logf("one overlay after %d rounds", took)
			})
		})
	}
}

func TestMembershipsDoNotMix(t *testing.T) {
	for _, own := range []superpeer.Membership{superpeer.MembershipFull, superpeer.MembershipCore} {
		base := superpeer.Config{Fraction: 0.5, Membership: own}
		inVirtualTime(t, 2, base, func(c *crowd) {
			base.Membership = superpeer.MembershipCore
			if own == base.Membership {
				base.Membership = superpeer.MembershipFull
			}
			m, err := c.try(9, base)
			if err == nil {
				m.Kill()
			}
			want := fmt.Sprintf("its membership is %s, here it is %s", own, base.Membership)
			if !errors.Is(err, superpeer.ErrRefused) || !strings.Contains(err.Error(), want) {
				c.Errorf("one of membership %s that joined one of %s was told %v, want %q", base.Membership, own, err, want)
			}
			c.within(240, "count two", func() error { return c.settled(nil) })
		})
	}
	c := withTransport(ofCore(0.1, 0))
	if c.Method = rules.PrefixExact; c.Validate() == nil {
		t.Error("a core was taken for ranges of all nodes")
	}
	if c = withTransport(superpeer.Config{Membership: "half"}); c.Validate() == nil {
		t.Error("membership \"half\" was taken")
	}
}
