package bully_test

import (
	"fmt"

	"github.com/batuta-dev/batuta/bully"
	"github.com/batuta-dev/batuta/election"
)

func ExampleNew() {
	var a election.Algorithm = bully.New(bully.WithProbe(bully.All))
	fmt.Println(a.Name())
	// Output: bully
}
