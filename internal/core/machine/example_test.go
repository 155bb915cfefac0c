package machine_test

import (
	"fmt"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/core/machine"
)

// A driver steps the Machine with what happens and does what it decides, in
// order. This one has a disk that always works and no peer.
func ExampleMachine() {
	m, err := machine.New(machine.Config{Self: election.Rank{ID: "1"}, Algorithm: bully.New()})
	if err != nil {
		fmt.Println(err)
		return
	}
	todo := []election.Event{{Kind: election.Started}}
	for len(todo) > 0 {
		ev := todo[0]
		todo = todo[1:]
		for _, a := range m.Step(time.Now(), ev) {
			switch a.Kind {
			case election.Save:
				fmt.Println("save", a.State.Token)
				todo = append(todo, election.Event{Kind: election.Saved})
			case election.NotifyElected:
				fmt.Println("elected", a.Token)
			}
		}
	}
	// Output:
	// save 1:1
	// elected 1:1
}

func ExampleID_Compare() {
	fmt.Println(election.ID("172.18.0.10").Compare("172.18.0.9") > 0)
	fmt.Println(election.ID("10").Compare("9") > 0)
	// Output:
	// true
	// true
}
