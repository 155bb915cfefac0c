package superpeer_test

import (
	"fmt"

	"github.com/batuta-dev/batuta/internal/superpeer"
)

// A driver carries what a node does to the others and back.
func Example() {
	ring := superpeer.NewRing([]superpeer.Place{{Key: 7, Peer: 0}})
	cfg := superpeer.Config{Fraction: 0.1, Router: ring}.Defaults()
	node := superpeer.New(&cfg, 0, 7, 1)
	node.Charged(0, 0) // the ring makes it the registrar of the only token

	var out superpeer.Actions
	for round := superpeer.Round(0); round < 8; round++ {
		out.Reset()
		node.Wake(round, 1, &out)
		for i := 0; i < len(out.Send); i++ { // all to itself here
			m := out.Send[i]
			node.Receive(round, &m, &out)
		}
	}
	token, version, ok := node.Holding()
	fmt.Println(token, version, ok)
	// Output: 0 1 true
}

func ExampleRangeOf() {
	const n = 3
	for _, p := range []uint64{0, 1 << 62, 1<<64 - 1} {
		fmt.Println(superpeer.RangeOf(p, n))
	}
	// Output:
	// 0
	// 0
	// 2
}
