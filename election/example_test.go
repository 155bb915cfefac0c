package election_test

import (
	"fmt"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/electiontest"
)

// Patient is an algorithm: whoever finds no leader waits the longer the lower it
// ranks, and the first whose wait ends leads.
type Patient struct{}

func (Patient) Name() string { return "patient" }

func (Patient) Step(ev election.Event, out election.Actions) {
	switch ev.Kind {
	case election.Started, election.LeaderLost, election.PeerDown:
		if !out.Leader().Defined() {
			out.SetTimer("wait", patience(out))
		}
	case election.TimerFired:
		if !out.Leader().Defined() {
			out.Claim()
			out.SetTimer("wait", out.Timing().T()) // once more, if the claim comes to nothing
		}
	case election.Received:
		if ev.Message.Kind == election.Coordinator {
			out.Accept(ev.Message.Token, ev.Message.From)
		}
	case election.LeaderElected:
		out.CancelTimer("wait")
		if ev.Token.Leader.ID != out.Self().ID {
			return
		}
		for _, r := range out.Members() {
			out.Send(r.ID, election.Message{Kind: election.Coordinator, Token: ev.Token})
		}
	}
}

// patience is, for each higher member that may lead, the time that its announcement
// can take.
func patience(out election.Actions) time.Duration {
	d := time.Millisecond
	for _, r := range out.Members() {
		if r.Above(out.Self()) && out.Eligible(r.ID) {
			d += out.Timing().DialTime() + 2*out.Timing().TMax
		}
	}
	return d
}

// An algorithm of one's own, in the lab: three members elect the highest of them, it
// dies, and the next leads.
func Example() {
	maker := func(string, string) (func() election.Algorithm, error) {
		return func() election.Algorithm { return Patient{} }, nil
	}
	s, err := electiontest.Parse("patient", "members 1 2 3\nagree\nexpect leader 3\ncrash 3\nagree\nexpect leader 2")
	if err != nil {
		fmt.Println(err)
		return
	}
	outcome, err := electiontest.Play(maker, s)
	fmt.Println(outcome.Leader, err)
	// Output: 2 <nil>
}
