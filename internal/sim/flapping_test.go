package sim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
)

// A follower is cut off in every way, once and on and off at every period from T/4 to 4T. No other
// member loses its leader, and each cut costs one change of leader at most: the follower's own.
// cmd/batuta plays the same with real processes and firewalls.
func TestAFlappingFollowerCostsNoLeader(t *testing.T) {
	T := election.Timing{TMax: election.DefaultTMax, TProcess: election.DefaultTProcess}.T()
	seeds := fulltest.Size(uint64(1), 12)
	for _, algorithm := range []string{"bully", "ring", "chang-roberts"} {
		for name, fault := range map[string]string{
			"drop":                 "partition 3 | 1,2,4,5",
			"reset":                "reject 1-3 2-3 3-4 3-5",
			"nothing arrives":      "cut 1>3 2>3 4>3 5>3",
			"nothing leaves":       "cut 3>1 3>2 3>4 3>5",
			"drop on one link":     "cut 3-5",
			"reset on one link":    "reject 3-5",
			"one way on one link":  "cut 5>3",
			"the other way on one": "cut 3>5",
		} {
			for _, pattern := range []struct {
				cuts   int
				period time.Duration
			}{{1, 4 * T}, {16, T / 4}, {8, T / 2}, {8, T}, {6, 2 * T}, {5, 4 * T}} {
				t.Run(fmt.Sprintf("%s/%s/%d times in %v", algorithm, name, pattern.cuts, pattern.period), func(t *testing.T) {
					t.Parallel()
					for seed := uint64(1); seed <= seeds; seed++ {
						text := fmt.Sprintf("members 1 2 3 4 5\nalgorithm %s\nseed %d\nwork 10ms\nagree\nmark\nrepeat %d\n%s\nrun %v\nheal\nrun %v\nend\nagree\nexpect leader 5\nexpect lost 5 = 0\nexpect lost 1 = 0\nexpect lost 2 = 0\nexpect lost 4 = 0\nexpect changes <= %d\n",
							algorithm, seed, pattern.cuts, fault, pattern.period/2, pattern.period/2, pattern.cuts)
						s, err := scenario.Parse("flapping", text)
						if err == nil {
							_, err = sim.Play(s, maker, nil)
						}
						if err != nil {
							t.Fatalf("%v\n%s", err, text)
						}
					}
				})
			}
		}
	}
}
