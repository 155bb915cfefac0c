package electiontest_test

import (
	"fmt"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/electiontest"
)

// In a test of your own algorithm, one line does it:
//
//	func TestMine(t *testing.T) {
//		electiontest.Run(t, func() election.Algorithm { return mine.New() })
//	}
//
// What that plays can also be played step by step, to look on.
func Example() {
	maker := func(string, string) (func() election.Algorithm, error) {
		return func() election.Algorithm { return &patient{} }, nil
	}
	s, err := electiontest.Parse("patient", "members 1 2 3\nagree\ncrash 3\nagree\nexpect leader 2")
	if err != nil {
		fmt.Println(err)
		return
	}
	outcome, err := electiontest.Play(maker, s)
	fmt.Println(outcome.Leader, err)
	// Output: 2 <nil>
}
