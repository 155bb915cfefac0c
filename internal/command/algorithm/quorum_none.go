//go:build noquorum

package algorithm

import (
	"errors"

	"github.com/batuta-dev/batuta/election"
)

// newQuorum refuses: raft doubles the size of the lab's simulator, which has a file of
// its own for it.
func newQuorum(string) (election.Algorithm, error) {
	return nil, errors.New("quorum is not in this simulator")
}
