package enginetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/electiontest/electortest"
	"github.com/batuta-dev/batuta/engines"
)

// Conform makes the conformance call, with candidates that have a line of their own to each address. During an election
// it calls fail, and then what that returns, which ends the failure. Dial gives an engine of the election of that name.
func Conform(t *testing.T, addrs []string, fail func() func(), dial func(name string, lines []string) engines.Engine) {
	electortest.Run(t, func(t *testing.T) electortest.Candidates {
		lines := map[batuta.ID][]*Proxy{}
		return electortest.Candidates{
			OneLeader: true,
			Start: func(id batuta.ID) electortest.Candidate {
				var through []string
				for _, addr := range addrs {
					p := NewProxy(t, addr)
					lines[id], through = append(lines[id], p), append(through, p.Addr())
				}
				return Start(t, dial(t.Name(), through), engines.Config{ID: id})
			},
			Cut: func(id batuta.ID) func() {
				var heals []func()
				for _, p := range lines[id] {
					heals = append(heals, p.Cut())
				}
				return func() {
					for _, heal := range heals {
						heal()
					}
				}
			},
			Fail: fail,
		}
	})
}

// Leads waits until any of these candidates leads under a token above floor, and returns that candidate.
func Leads(t testing.TB, floor batuta.Token, all ...*engines.Election) *engines.Election {
	t.Helper()
	var found *engines.Election
	Await(t, "one leads", func(context.Context) error {
		i := slices.IndexFunc(all, func(e *engines.Election) bool { return e.IsLeader() && e.Leader().Token.Above(floor) })
		if i < 0 {
			return fmt.Errorf("no leader above %q", floor)
		}
		found = all[i]
		return nil
	})
	return found
}

// Reports waits until the status of e has that text as the reason for which it does not lead.
func Reports(t testing.TB, e *engines.Election, text string) {
	t.Helper()
	Await(t, "the status reports "+text, func(ctx context.Context) error { return reports(ctx, e, text) })
}

func reports(ctx context.Context, e *engines.Election, text string) error {
	s, err := e.Status(ctx)
	if err == nil && (e.IsLeader() || !strings.Contains(s.StandingWhy, text)) {
		err = fmt.Errorf("it is %s, %q", s.Role, s.StandingWhy)
	}
	return err
}
