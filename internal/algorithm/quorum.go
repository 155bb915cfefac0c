//go:build !noquorum

package algorithm

import (
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/quorum"
)

func newQuorum() (election.Algorithm, error) { return quorum.New(), nil }
