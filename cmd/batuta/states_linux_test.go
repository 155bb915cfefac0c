package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/api"
)

// A follower's status has a member that is frozen or killed as not up within 2·T, whatever the algorithm.
func TestAFollowerPublishesAFrozenOrKilledMember(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{"bully", "quorum"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			c := newLocks(t, algorithm)
			stateAt2 := func() string {
				_, body, err := getFrom(c.http["2"], "/v1/status")
				var s api.Status
				if err != nil || json.Unmarshal(body, &s) != nil || s.Leader == nil || *s.Leader != "3" {
					return fmt.Sprintf("none: %v %s", err, body)
				}
				for _, m := range s.Members {
					if m.ID == "1" {
						return m.State
					}
				}
				return "none: not listed"
			}
			becomes := func(what string, within time.Duration, states ...string) {
				t.Helper()
				began := time.Now()
				until(t, what, func() error {
					got := stateAt2()
					if slices.Contains(states, got) {
						return nil
					}
					return fmt.Errorf("member 2 publishes member 1 as %s", got)
				})
				took := c.watch.Given(began, time.Now())
				if t.Logf("%s: after %v", what, took); took > within {
					t.Errorf("%s: after %v, want %v at most", what, took, within)
				}
			}
			becomes("they agree", agreeWithin, "up")
			time.Sleep(2 * defaults.T())
			c.signal("1", syscall.SIGSTOP)
			becomes("a frozen member is unreachable", 2*defaults.T(), "unreachable")
			c.signal("1", syscall.SIGCONT)
			becomes("it is thawed", agreeWithin, "up")
			c.signal("1", syscall.SIGKILL)
			becomes("a killed member is down", 2*defaults.T(), "down", "unreachable")
		})
	}
}
