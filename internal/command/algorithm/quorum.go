//go:build !noquorum

package algorithm

import (
	"cmp"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/quorum"
)

// newQuorum makes the algorithm; takeover is the policy by which the next leader begins.
func newQuorum(takeover string) (election.Algorithm, error) {
	a := quorum.New(quorum.WithTakeover(quorum.Takeover(cmp.Or(takeover, string(quorum.TakeoverLease)))))
	return a, a.Validate()
}
