package machine

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// actions is what the Algorithm sees of its Machine; see [election.Actions].
type actions struct{ m *Machine }

func (a actions) Self() election.Rank { return a.m.cfg.Self }

func (a actions) Members() []election.Rank { return a.m.ranks }

func (a actions) Rank(id election.ID) election.Rank {
	if i, ok := a.m.index[id]; ok {
		return a.m.ranks[i]
	}
	return election.Rank{}
}

func (a actions) Eligible(id election.ID) bool {
	i, ok := a.m.index[id]
	switch {
	case !ok:
		return false
	case i == a.m.me:
		return a.m.eligibility() == election.Eligible
	}
	return a.m.eligible(&a.m.members[i])
}

func (a actions) Down(id election.ID) bool {
	i, ok := a.m.index[id]
	return !ok || a.m.members[i].down
}

func (a actions) Leader() election.Token { return a.m.View() }

func (a actions) Highest() uint64 { return a.m.seen.Highest() }

func (a actions) Timing() election.Timing { return a.m.cfg.Timing }

func (a actions) Send(to election.ID, msg election.Message) {
	if i, ok := a.m.index[to]; ok && i != a.m.me {
		a.m.send(i, msg)
	}
}

func (a actions) SetTimer(name string, d time.Duration) { a.m.alarms.Set(name, a.m.now.Add(d)) }

func (a actions) CancelTimer(name string) { a.m.alarms.Cancel(name) }

func (a actions) Claim() { a.m.claim("it won the contest") }

func (a actions) Accept(t election.Token, from election.ID) {
	if i, ok := a.m.index[from]; ok && i != a.m.me {
		a.m.accept(t, i)
	}
}

func (a actions) Vouch(to election.ID) {
	if !a.m.cfg.NoDetector && a.m.tenure.Live() {
		a.m.replyToProbe(to)
	}
}

func (a actions) Discover() {
	if !a.m.tenure.Mine(a.m.tenure.Next()) { // else it has claimed meanwhile
		a.m.discover("the contest has come to nothing")
	}
}

func (a actions) Watch(id election.ID) { a.m.watchToo(id) }

func (a actions) Note(what string, peer election.ID, why string) {
	a.m.note(what, peer, election.Token{}, why)
}

func (a actions) AnswerTime(id election.ID) time.Duration {
	i, ok := a.m.index[id]
	if !ok || i == a.m.me {
		return 0
	}
	return a.m.answerTime(i, a.m.now)
}
