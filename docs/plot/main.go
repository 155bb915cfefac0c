// Command plot measures in the simulator what a crash of the leader costs each
// algorithm, prints the figures as a table, and draws them:
//
//	go run ./docs/plot docs/algorithms.svg
//
// Every message takes 1 ms, disks take no time, and everybody notices the crash.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/election/ring"
	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
	"github.com/batuta-dev/batuta/internal/sim/trace"
)

// subject is an algorithm to measure.
type subject struct {
	name, colour string
	dashes       string // of its line, if two lines coincide
	fresh        func() election.Algorithm
}

func subjects() []subject {
	return []subject{
		{"Bully, probe=all", "#c0392b", "none", func() election.Algorithm { return bully.New(bully.WithProbe(bully.All)) }},
		{"Bully, probe=descending", "#e67e22", "6 6", func() election.Algorithm { return bully.New() }},
		{"ring (list)", "#2471a3", "none", func() election.Algorithm { return ring.New() }},
		{"Chang-Roberts", "#1e8449", "6 6", func() election.Algorithm { return ring.NewChangRoberts() }},
	}
}

// cost is what a crash took.
type cost struct {
	messages int           // of the contest, from the crash until all agree
	time     time.Duration // from the crash until all agree
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./docs/plot FILE.svg")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(file string) error {
	sizes := []int{4, 8, 16, 32, 64, 128}
	costs := map[string][]cost{}
	for _, s := range subjects() {
		for _, n := range sizes {
			c, err := measure(s, n)
			if err != nil {
				return fmt.Errorf("%s with %d members: %w", s.name, n, err)
			}
			costs[s.name] = append(costs[s.name], c)
		}
	}
	table(sizes, costs)
	return os.WriteFile(file, draw(sizes, costs), 0o644)
}

// measure crashes the highest of n members and watches the rest agree.
func measure(s subject, n int) (cost, error) {
	script := fmt.Sprintf("members 1..%d\nlatency 1ms\nfsync none\nrun 5s\ncrash %d\nrun 5s\nexpect leader %d\n", n, n, n-1)
	sc, err := scenario.Parse(s.name, script)
	if err != nil {
		return cost{}, err
	}
	var c cost
	var crash time.Duration
	_, err = sim.Play(sc, func(string, string) (func() election.Algorithm, error) { return s.fresh, nil }, func(e trace.Entry) {
		switch {
		case e.Fault && e.What == "crashes":
			crash, c = e.At, cost{}
		case e.What == "sends" && ofContest(e.Message.Kind):
			c.messages++
		case e.What == "follows":
			c.time = e.At - crash
		}
	})
	return c, err
}

func ofContest(k election.MessageKind) bool {
	return k == election.Election || k == election.Answer || k == election.Coordinator || k == election.Elected
}

func table(sizes []int, costs map[string][]cost) {
	fmt.Print("| members |")
	for _, s := range subjects() {
		fmt.Printf(" %s |", s.name)
	}
	fmt.Print("\n| --- |")
	for range subjects() {
		fmt.Print(" --- |")
	}
	fmt.Println()
	for i, n := range sizes {
		fmt.Printf("| %d |", n)
		for _, s := range subjects() {
			c := costs[s.name][i]
			fmt.Printf(" %d in %d ms |", c.messages, c.time.Milliseconds())
		}
		fmt.Println()
	}
}
