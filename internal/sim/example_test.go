package sim_test

import (
	"fmt"

	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
	"github.com/batuta-dev/batuta/internal/sim/trace"
)

// A script is played, and what happened is told line by line.
func Example() {
	s, err := scenario.Parse("example", `
members 1 2 3
latency 1ms
fsync 1ms
run 1s
crash 3
run 1s
expect leader 2
`)
	if err != nil {
		fmt.Println(err)
		return
	}
	log := trace.Log{}
	_, err = sim.Play(s, maker, log.Add)
	for _, line := range log.Lines[len(log.Lines)-3:] {
		fmt.Println(line)
	}
	fmt.Println(err)
	// Output:
	// [1.004s] 2 leads epoch=2
	// [1.007s] 1 adopts 2 epoch=2 (it announced itself)
	// [1.008s] 1 follows 2 epoch=2
	// <nil>
}

// The messages of one contest of nine, of which the highest has crashed.
func ExampleCount() {
	r, err := sim.Count(maker, sim.CountConfig{Algorithm: "bully", Option: "all", Nodes: 9, Crashed: ids(9)})
	fmt.Println(r.Leader, r.Messages, err)
	// Output: 8 map[answer:28 coordinator:8 election:36] <nil>
}
