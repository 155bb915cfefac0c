package electiontest_test

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// patient is an algorithm as a user might write it: whoever finds no leader
// waits the longer the lower it ranks, and the first whose wait ends leads.
type patient struct {
	waits int // times that a wait ran out; only tells
}

func (*patient) Name() string { return "patient" }

func (p *patient) Step(ev election.Event, out election.Actions) {
	switch ev.Kind {
	case election.Started, election.LeaderLost, election.PeerDown:
		if !out.Leader().Defined() {
			out.SetTimer("wait", wait(out))
		}
	case election.TimerFired:
		p.waits++
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
		if ev.Token.Leader.ID == out.Self().ID {
			announce(out)
		}
	}
}

// wait is, for each higher member that may lead, the time that its announcement can
// take: its link may have just ended, and is then dialed again. Before it claims, it may
// ask other members whether they are candidates by now, which takes as long and an answer.
func wait(out election.Actions) time.Duration {
	d := time.Millisecond
	for _, r := range out.Members() {
		if r.Above(out.Self()) && out.Eligible(r.ID) {
			d += 2*out.Timing().DialTime() + 6*out.Timing().TMax
		}
	}
	return d
}

func announce(out election.Actions) {
	for _, r := range out.Members() {
		if r != out.Self() && !out.Down(r.ID) {
			out.Send(r.ID, election.Message{Kind: election.Coordinator, Token: out.Leader()})
		}
	}
}
