package sim_test

import (
	"strconv"
	"testing"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
)

// The closed forms of the sources, for sizes from 4 to 200: every one in full.
func TestClosedForms(t *testing.T) {
	first := func(int) int { return 1 }
	stride := fulltest.Size(14, 1)
	cases := []struct {
		name, probe                   string
		starts                        func(n int) int
		election, answer, coordinator func(n int) int
	}{
		{"all, 1 starts", "all", first,
			func(n int) int { return n * (n - 1) / 2 },
			func(n int) int { return (n - 1) * (n - 2) / 2 },
			func(n int) int { return n - 1 }},
		{"all, n-1 starts", "all", func(n int) int { return n - 1 },
			func(int) int { return 1 }, func(int) int { return 0 }, func(n int) int { return n - 1 }},
		{"descending, 1 starts", "descending", first,
			func(int) int { return 3 }, func(int) int { return 1 }, func(n int) int { return n - 1 }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for n := 4; n <= 200; n += stride {
				r, err := sim.Count(maker, sim.CountConfig{Algorithm: "bully", Option: c.probe, Nodes: n,
					Start: ids(c.starts(n)), Crashed: ids(n)})
				if err != nil {
					t.Fatalf("n=%d: %v", n, err)
				}
				want := map[election.MessageKind]int{election.Election: c.election(n), election.Answer: c.answer(n), election.Coordinator: c.coordinator(n)}
				for kind, count := range want {
					if r.Messages[kind] != count {
						t.Errorf("n=%d: %d %s messages, the closed form gives %d", n, r.Messages[kind], kind, count)
					}
				}
				if leader := election.ID(strconv.Itoa(n - 1)); r.Leader != leader {
					t.Errorf("n=%d: %s leads, not %s", n, r.Leader, leader)
				}
				if len(r.Messages) > 3 {
					t.Errorf("n=%d: messages of other kinds: %v", n, r.Messages)
				}
			}
		})
	}
}

func ids(numbers ...int) (list []election.ID) {
	for _, n := range numbers {
		list = append(list, election.ID(strconv.Itoa(n)))
	}
	return list
}

func TestCountRefuses(t *testing.T) {
	for name, c := range map[string]sim.CountConfig{
		"nobody":          {Algorithm: "bully"},
		"a stranger":      {Algorithm: "bully", Nodes: 3, Start: ids(4)},
		"a dead starter":  {Algorithm: "bully", Nodes: 3, Start: ids(3), Crashed: ids(3)},
		"all crashed":     {Algorithm: "bully", Nodes: 2, Crashed: ids(1, 2)},
		"no such one":     {Algorithm: "tombola", Nodes: 3},
		"no such probing": {Algorithm: "bully", Option: "sideways", Nodes: 3},
	} {
		if _, err := sim.Count(maker, c); err == nil {
			t.Errorf("%s: counted, want an error", name)
		}
	}
}
