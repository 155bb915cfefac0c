package bully_test

import (
	"fmt"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
)

func ExampleNew() {
	var a election.Algorithm = bully.New(bully.WithProbe(bully.All))
	fmt.Println(a.Name())
	// Output: bully
}
