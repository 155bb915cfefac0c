package superpeer

import (
	"testing"
	"testing/synctest"

	"github.com/batuta-dev/batuta/superpeer/superpeertest"
)

// All nodes of an overlay may have the same configuration, with a seed too.
func TestNodesWithOneSeed(t *testing.T) {
	for _, membership := range []Membership{MembershipFull, MembershipCore} {
		t.Run(string(membership), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := superpeertest.NewNetwork(level)
				var all []*Member
				defer func() { killAll(all) }()
				for i := range 6 {
					c := Config{Fraction: 0.5, Membership: membership, Seed: 7, Transport: net.Transport(i)}
					if i > 0 {
						c.Join = []string{superpeertest.Address(0)}
					}
					m, err := Join(t.Context(), c)
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, m)
				}
				within(t, 120, "settle", func() error { return wrong(all, 0) })
			})
		})
	}
}
