package ring_test

import (
	"fmt"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/ring"
)

func ExampleNew() {
	var a election.Algorithm = ring.New()
	fmt.Println(a.Name())
	// Output: ring
}

func ExampleNewChangRoberts() {
	var a election.Algorithm = ring.NewChangRoberts()
	fmt.Println(a.Name())
	// Output: chang-roberts
}
