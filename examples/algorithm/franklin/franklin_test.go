package franklin_test

import (
	"math/bits"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/electiontest"
	"github.com/batuta-dev/batuta/examples/algorithm/franklin"
)

// The kit tries it as it tries batuta's own.
func TestFranklin(t *testing.T) {
	electiontest.Run(t, func() election.Algorithm { return franklin.New() })
}

// count gives how many messages a contest takes on a ring in that order, which start
// begins.
func count(t *testing.T, order []election.ID, start election.ID) int {
	t.Helper()
	n := len(order)
	maker := func(string, string) (func() election.Algorithm, error) {
		return func() election.Algorithm { return franklin.New(order...) }, nil
	}
	r, err := electiontest.Count(maker, electiontest.CountConfig{Algorithm: "franklin", Nodes: n, Start: []election.ID{start}})
	if err != nil {
		t.Fatalf("n=%d: %v", n, err)
	}
	if r.Messages[election.Coordinator] != n-1 || r.Leader != id(n) {
		t.Errorf("n=%d, %s begins: %v and %s leads, want the highest to lead and to tell each once", n, start, r.Messages, r.Leader)
	}
	return r.Messages["franklin"]
}

func id(i int) election.ID { return election.ID(strconv.Itoa(i)) }

// Where ranks go up round the ring, only the highest outranks both its neighbors, and
// the second phase is its own alone: 4n messages, whoever begins.
func TestAscendingRing(t *testing.T) {
	for n := 4; n <= 64; n += 3 {
		order := make([]election.ID, n)
		for i := range order {
			order[i] = id(i + 1)
		}
		for _, start := range []int{1, n / 2, n} {
			if got := count(t, order, id(start)); got != 4*n {
				t.Errorf("n=%d, %d begins: %d messages, the closed form gives %d", n, start, got, 4*n)
			}
		}
	}
}

// Where every second candidate outranks its neighbors in every phase, it takes as many
// messages as it ever does: 2n·(log₂ n + 1).
func TestWorstRing(t *testing.T) {
	for k := 1; k <= 7; k++ {
		n := 1 << k
		order := []election.ID{id(n)}
		for len(order) < n { // the lower half goes in between
			var wider []election.ID
			for i, high := range order {
				wider = append(wider, high, id(n-2*len(order)+1+i))
			}
			order = wider
		}
		if got, want := count(t, order, id(1)), 2*n*(k+1); got != want {
			t.Errorf("n=%d: %d messages, the closed form gives %d", n, got, want)
		}
	}
}

// No order takes more: O(n log n) at worst, where Chang and Roberts' ring takes O(n²).
func TestAnyRing(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := 2; n <= 60; n++ {
		var order []election.ID
		for _, i := range random.Perm(n) {
			order = append(order, id(i+1))
		}
		if got, most := count(t, order, id(1+random.IntN(n))), 2*n*bits.Len(uint(n)); got > most {
			t.Errorf("ring %v: %d messages, and %d is the most", order, got, most)
		}
	}
}
