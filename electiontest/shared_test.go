package electiontest

import (
	"testing"

	"github.com/batuta-dev/batuta/election"
)

type stateless struct{}

func (stateless) Name() string                          { return "stateless" }
func (stateless) Step(election.Event, election.Actions) {}

type byValue struct {
	stateless
	seen []int // makes it incomparable
}

type stateful struct {
	stateless
	votes int
}

// An algorithm without state may be given twice, one with state may not.
func TestWhatTwoMachinesMayNotShare(t *testing.T) {
	one := &stateful{votes: 1}
	for _, tt := range []struct {
		what string
		a, b election.Algorithm
		want bool
	}{
		{"a value without fields", stateless{}, stateless{}, false},
		{"a pointer to nothing", &stateless{}, &stateless{}, false},
		{"a value that cannot be compared", byValue{seen: []int{1}}, byValue{}, false},
		{"two", one, &stateful{}, false},
		{"one", one, one, true},
	} {
		if got := shared(tt.a, tt.b); got != tt.want {
			t.Errorf("%s: shared = %v", tt.what, got)
		}
	}
}
