package ballot_test

import (
	"slices"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/ballot"
)

const T = time.Second

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) time.Time { return noon.Add(d) }

func rank(id election.ID) election.Rank { return election.Rank{ID: id} }

func token(epoch uint64, id election.ID) election.Token {
	return election.Token{Epoch: epoch, Leader: rank(id)}
}

func candidate(id election.ID) ballot.Situation {
	return ballot.Situation{Rank: rank(id), Listed: true, Stands: true, ByRank: true}
}

func peers(ids ...election.ID) (list []ballot.Peer) {
	for _, id := range ids {
		list = append(list, ballot.Peer{ID: id, Wait: T})
	}
	return list
}

// opened is the ballot of member 2 about 2 in epoch 5, asked of 1 and 3, with 5 on disk.
func opened(t *testing.T) (ballot.Ballot, ballot.Question) {
	t.Helper()
	b := ballot.New("2", T)
	q, own := b.Open(noon, candidate("2"), token(5, "2"), peers("1", "2", "3"), 1)
	if own.Reason != ballot.Granted || q.Token != token(5, "2") {
		t.Fatalf("Open: %+v, %+v", q, own)
	}
	b.Saved(5)
	return b, q
}

func outcome(t *testing.T, b *ballot.Ballot, at time.Time, want ballot.Outcome) ballot.Result {
	t.Helper()
	r := b.Result(at, candidate("2"))
	if r.Outcome != want {
		t.Fatalf("after %v: %+v, not outcome %d", at.Sub(noon), r, want)
	}
	return r
}

func grant(q ballot.Question) ballot.Answer { return ballot.Answer{Number: q.Number} }

func refusal(q ballot.Question, why ballot.Reason) ballot.Answer {
	return ballot.Answer{Number: q.Number, Reason: why}
}

func TestAMemberRefusesForTheStrongestReason(t *testing.T) {
	q := ballot.Question{Number: 1, Token: token(5, "2"), Hold: 3 * T}
	for _, c := range []struct {
		why    string
		change func(*ballot.Situation)
		query  bool
		want   ballot.Reason
		wait   time.Duration
	}{
		{why: "nothing against it", want: ballot.Granted},
		{why: "a query", query: true, want: ballot.Granted},
		{"not on the list", func(s *ballot.Situation) { s.Listed = false; s.Follows = token(4, "3") }, false, ballot.Unlisted, 0},
		{"a query of one that is not on the list", func(s *ballot.Situation) { s.Listed = false }, true, ballot.Unlisted, 0},
		{"a live leader", func(s *ballot.Situation) { s.Follows = token(4, "3"); s.Age = T / 4; s.Working = true }, false, ballot.Following, 3 * T / 4},
		{"a query with a live leader", func(s *ballot.Situation) { s.Follows = token(4, "3") }, true, ballot.Following, T},
		{"a leader silent for almost T", func(s *ballot.Situation) { s.Follows = token(4, "3"); s.Age = T - 1 }, false, ballot.Following, 1},
		{"a leader silent for T", func(s *ballot.Situation) { s.Follows = token(4, "3"); s.Age = T }, false, ballot.Granted, 0},
		{"the leader asks", func(s *ballot.Situation) { s.Follows = token(4, "2") }, false, ballot.Granted, 0},
		{"work that runs", func(s *ballot.Situation) { s.Working = true; s.Stands = true; s.Rank = rank("3") }, false, ballot.Working, 0},
		{"a query while work runs", func(s *ballot.Situation) { s.Working = true }, true, ballot.Working, 0},
		{"a candidate of higher rank", func(s *ballot.Situation) { s.Stands = true; s.Rank = rank("3"); s.Highest = 9 }, false, ballot.Outranked, T},
		{"a query of a candidate's", func(s *ballot.Situation) { s.Stands = true; s.Rank = rank("3"); s.Highest = 9 }, true, ballot.Granted, 0},
		{"a candidate of higher priority", func(s *ballot.Situation) { s.Stands = true; s.Rank.Priority = 1 }, false, ballot.Outranked, T},
		{"a candidate of lower rank", func(s *ballot.Situation) { s.Stands = true }, false, ballot.Granted, 0},
		{"a higher rank without candidacy", func(s *ballot.Situation) { s.Rank = rank("3") }, false, ballot.Granted, 0},
		{"rank does not count", func(s *ballot.Situation) { s.Stands = true; s.ByRank = false; s.Rank = rank("3") }, false, ballot.Granted, 0},
		{"that epoch has been", func(s *ballot.Situation) { s.Highest = 5 }, false, ballot.Behind, 0},
		{"the epoch before has been", func(s *ballot.Situation) { s.Highest = 4 }, false, ballot.Granted, 0},
	} {
		b, s, asked := ballot.New("1", T), ballot.Situation{Rank: rank("1"), Listed: true, ByRank: true}, q
		if c.change != nil {
			c.change(&s)
		}
		if c.query {
			asked.Token = election.Token{}
		}
		replies, _, _ := b.Asked(noon, s, "2", asked)
		if len(replies) != 1 || replies[0].To != "2" || replies[0].Number != 1 {
			t.Fatalf("%s: %+v", c.why, replies)
		}
		a := replies[0]
		if a.Reason != c.want || a.Wait != c.wait {
			t.Errorf("%s: %s for %v, not %s for %v", c.why, a.Reason, a.Wait, c.want, c.wait)
		}
		if a.Highest != s.Highest || a.Follows != s.Follows || a.Age != s.Age || a.Rank != s.Rank || a.Stands != s.Stands {
			t.Errorf("%s: %+v lacks what the member has detected", c.why, a)
		}
		if _, promised := b.Promised(noon); promised != (c.want == ballot.Granted && !c.query) {
			t.Errorf("%s: promised: %v", c.why, promised)
		}
	}
}

func TestNobodyLeadsWithoutAllAnswersAndTheDisk(t *testing.T) {
	b := ballot.New("2", T)
	q, _ := b.Open(noon, candidate("2"), token(5, "2"), peers("1", "3"), 1)
	outcome(t, &b, noon, ballot.Open)
	b.Receive("1", grant(q))
	outcome(t, &b, noon, ballot.Open)
	b.Receive("3", ballot.Answer{Number: q.Number + 1})
	b.Receive("4", grant(q)) // was not asked
	outcome(t, &b, noon, ballot.Open)
	b.Receive("3", grant(q))
	b.Saved(4)
	outcome(t, &b, noon, ballot.Open)
	b.Saved(5)
	outcome(t, &b, noon, ballot.Won)
	b.Receive("3", refusal(q, ballot.Outranked)) // began to be a candidate meanwhile
	if r := outcome(t, &b, noon, ballot.Refused); r.By != "3" || r.Answer.Reason != ballot.Outranked {
		t.Errorf("%+v", r)
	}
	var none ballot.Ballot
	outcome(t, &none, noon, ballot.Open)
}

func TestTheFirstRefusalEndsACandidacyAndTheStrongestCounts(t *testing.T) {
	b, q := opened(t)
	b.Receive("1", refusal(q, ballot.Behind))
	outcome(t, &b, noon, ballot.Refused)
	b.Receive("3", refusal(q, ballot.Unlisted))
	if r := outcome(t, &b, noon, ballot.Refused); r.By != "3" {
		t.Errorf("%+v", r)
	}
	if _, to := b.Withdraw(); len(to) != 0 {
		t.Errorf("withdrawn from %v, which refused", to)
	}
	b, q = opened(t)
	b.Receive("1", grant(q))
	if w, to := b.Withdraw(); w != q || !slices.Equal(to, []election.ID{"1", "3"}) { // 3's promise may be on its way
		t.Errorf("withdrawn %+v from %v", w, to)
	}
	if _, open := b.Running(); open {
		t.Error("is open after it was withdrawn")
	}
}

func TestAQueryAwaitsAllAnswers(t *testing.T) {
	b := ballot.New("2", T)
	s := candidate("2")
	s.Stands, s.Working = false, true // asking needs nothing
	q, own := b.Open(noon, s, election.Token{}, peers("1", "3"), 1)
	if own.Reason != ballot.Granted {
		t.Fatal(own)
	}
	b.Receive("1", ballot.Answer{Number: q.Number, Reason: ballot.Following, Follows: token(4, "1")})
	if r := b.Result(noon, s); r.Outcome != ballot.Open {
		t.Fatal(r)
	}
	b.Receive("3", ballot.Answer{Number: q.Number, Reason: ballot.Following, Follows: token(6, "3")})
	if r := b.Result(noon, s); r.Outcome != ballot.Refused || r.By != "3" {
		t.Errorf("of two leaderships the lower was found: %+v", r)
	}
	if all := b.Answers(); len(all) != 2 || all["1"].Follows != token(4, "1") {
		t.Errorf("%+v", all)
	}
	b.Receive("1", grant(q))
	b.Receive("3", grant(q))
	if r := b.Result(noon, s); r.Outcome != ballot.Won {
		t.Error(r)
	}
}

func TestSilenceAndTheEndOfAProcessAreNoRefusal(t *testing.T) {
	b, q := opened(t)
	b.Gone("1")
	if at, ok := b.Deadline(); !ok || at != after(T) {
		t.Errorf("deadline %v %v", at.Sub(noon), ok)
	}
	outcome(t, &b, after(T-1), ballot.Open)
	outcome(t, &b, after(T), ballot.Won)
	b.Receive("3", refusal(q, ballot.Working)) // late, and still in time
	outcome(t, &b, after(T), ballot.Refused)
	b.Drop("3")
	outcome(t, &b, after(T), ballot.Won)
}

func TestABallotEndsBeforeItsPromisesDo(t *testing.T) {
	b, q := opened(t)
	b.Receive("1", grant(q))
	b.Receive("3", grant(q))
	voter := ballot.New("1", T)
	voter.Asked(noon, ballot.Situation{Rank: rank("1"), Listed: true}, "2", q)
	at, _ := b.Deadline()
	outcome(t, &b, at.Add(-1), ballot.Won)
	outcome(t, &b, at, ballot.TimedOut)
	if _, holds := voter.Promised(at.Add(T/2 - 1)); !holds {
		t.Error("the promise ended before the outcome could arrive")
	}
	if _, holds := voter.Promised(after(q.Hold)); holds {
		t.Error("the promise did not end")
	}
	q.Hold = 1 << 62
	voter.Asked(noon, ballot.Situation{Rank: rank("1"), Listed: true}, "2", q)
	if _, holds := voter.Promised(after(4 * T)); holds {
		t.Error("a candidate bound a member for as long as it liked")
	}
	far := ballot.New("2", T)
	q, _ = far.Open(noon, candidate("2"), token(5, "2"), []ballot.Peer{{ID: "1", Wait: time.Hour}}, 1)
	if q.Hold > 4*T {
		t.Errorf("asks for a promise of %v, which no member gives", q.Hold)
	}
}

func TestABrokenLinkMeansToAskAgain(t *testing.T) {
	b, q := opened(t)
	b.Receive("1", grant(q))
	b.Receive("3", grant(q))
	outcome(t, &b, noon, ballot.Won)
	again, ok := b.Up(after(T/2), ballot.Peer{ID: "3", Wait: T})
	if !ok || again != q {
		t.Fatalf("%+v, %v", again, ok)
	}
	outcome(t, &b, after(T), ballot.Open) // its time began again
	for i := range 20 {                   // the link breaks again and again: its time is over
		b.Up(after(T/2+time.Duration(i)*T/20), ballot.Peer{ID: "3", Wait: T})
	}
	outcome(t, &b, after(3*T/2-1), ballot.Open)
	outcome(t, &b, after(3*T/2), ballot.Won)

	b, q = opened(t)
	b.Gone("1")
	b.Receive("3", grant(q))
	outcome(t, &b, noon, ballot.Won)
	b.Up(noon, ballot.Peer{ID: "1", Wait: T}) // another process
	b.Up(noon, ballot.Peer{ID: "4", Wait: T}) // has joined
	outcome(t, &b, noon, ballot.Open)
	b.Receive("1", grant(q))
	outcome(t, &b, noon, ballot.Open)
	b.Receive("4", refusal(q, ballot.Following))
	outcome(t, &b, noon, ballot.Refused)

	var none ballot.Ballot
	if _, ok := none.Up(noon, ballot.Peer{ID: "1"}); ok {
		t.Error("asks without a ballot")
	}
	if _, ok := none.Deadline(); ok {
		t.Error("has a deadline without a ballot")
	}
}

func TestEachBallotNeedsAnswersAndADiskOfItsOwn(t *testing.T) {
	b, q := opened(t)
	next, own := b.Open(noon, candidate("2"), token(6, "2"), peers("1", "3"), 1)
	if own.Reason != ballot.Granted || next.Number == q.Number {
		t.Fatalf("%+v, %+v", next, own)
	}
	b.Saved(5)
	b.Receive("1", grant(next))
	b.Receive("3", grant(next))
	outcome(t, &b, noon, ballot.Open)
	b.Saved(6)
	outcome(t, &b, noon, ballot.Won)
	b.Receive("3", refusal(next, ballot.Behind))
	b.Receive("3", grant(q)) // late
	outcome(t, &b, noon, ballot.Refused)
}

func TestAnEndedProcessIsNotAwaited(t *testing.T) {
	b := ballot.New("2", T)
	list := peers("1", "3")
	list[0].Gone, list[1].Gone = true, true
	b.Open(noon, candidate("2"), token(5, "2"), list, 1)
	b.Saved(5)
	outcome(t, &b, noon, ballot.Won)
	if _, to := b.Withdraw(); len(to) != 0 {
		t.Errorf("withdrawn from %v, which have ended", to)
	}
}

func TestALeadershipEndsTheBallotsNotAboveIt(t *testing.T) {
	for _, c := range []struct {
		leadership election.Token
		open       bool
	}{{token(4, "3"), true}, {token(5, "1"), true}, {token(5, "2"), false}, {token(5, "3"), false}, {token(6, "1"), false}} {
		b, _ := opened(t)
		b.Decided(c.leadership)
		if _, open := b.Running(); open != c.open {
			t.Errorf("%v began: open is %v", c.leadership, open)
		}
	}
}

func TestAFoundingNeedsItsAnswers(t *testing.T) {
	b := ballot.New("2", T)
	q, _ := b.Open(noon, candidate("2"), token(1, "2"), peers("1", "3"), 3)
	b.Saved(1)
	b.Receive("1", grant(q))
	outcome(t, &b, noon, ballot.Open)
	outcome(t, &b, after(T), ballot.TimedOut)
	b.Receive("3", grant(q))
	outcome(t, &b, after(T), ballot.Won)
}

func TestAMemberAsksItselfFirst(t *testing.T) {
	for _, c := range []struct {
		why    string
		change func(*ballot.Situation)
		want   ballot.Reason
	}{
		{"no candidate", func(s *ballot.Situation) { s.Stands = false }, ballot.Resting},
		{"follows a live leader", func(s *ballot.Situation) { s.Follows = token(4, "3") }, ballot.Following},
		{"its work runs", func(s *ballot.Situation) { s.Working = true }, ballot.Working},
		{"has seen that epoch", func(s *ballot.Situation) { s.Highest = 5 }, ballot.Behind},
	} {
		b, s := ballot.New("2", T), candidate("2")
		c.change(&s)
		if q, own := b.Open(noon, s, token(5, "2"), peers("1"), 1); own.Reason != c.want || q.Number != 0 {
			t.Errorf("%s: %+v %+v", c.why, q, own)
		}
		if _, open := b.Running(); open {
			t.Errorf("%s: a ballot is open", c.why)
		}
		b, q := opened(t)
		b.Receive("1", grant(q))
		b.Receive("3", grant(q))
		if r := b.Result(noon, s); r.Outcome != ballot.Refused || r.By != "2" || r.Answer.Reason != c.want {
			t.Errorf("%s since the ballot was opened: %+v", c.why, r)
		}
	}
}

func TestAPromiseForbidsABallotOfOnesOwn(t *testing.T) {
	q := ballot.Question{Number: 7, Token: token(5, "3"), Hold: 2 * T}
	for _, c := range []struct {
		why string
		end func(*ballot.Ballot)
		at  time.Time
		may bool
	}{
		{"it holds", func(*ballot.Ballot) {}, after(2*T - 1), false},
		{"it has expired", func(*ballot.Ballot) {}, after(2 * T), true},
		{"withdrawn", func(b *ballot.Ballot) { b.Withdrawn("3", 7) }, noon, true},
		{"a former ballot was withdrawn", func(b *ballot.Ballot) { b.Withdrawn("3", 6) }, noon, false},
		{"another member's was withdrawn", func(b *ballot.Ballot) { b.Withdrawn("1", 7) }, noon, false},
		{"its candidate has ended", func(b *ballot.Ballot) { b.Gone("3") }, noon, true},
		{"its candidate has left", func(b *ballot.Ballot) { b.Drop("3") }, noon, true},
		{"it leads", func(b *ballot.Ballot) { b.Decided(token(5, "3")) }, noon, true},
		{"its candidate leads in a former epoch", func(b *ballot.Ballot) { b.Decided(token(4, "3")) }, noon, true},
		{"a higher leadership began", func(b *ballot.Ballot) { b.Decided(token(6, "1")) }, noon, true},
		{"a lower leadership began", func(b *ballot.Ballot) { b.Decided(token(4, "1")) }, noon, false},
	} {
		b := ballot.New("2", T)
		b.Asked(noon, candidate("2"), "3", q)
		c.end(&b)
		_, own := b.Open(c.at, candidate("2"), token(8, "2"), peers("1", "3"), 1)
		if may := own.Reason == ballot.Granted; may != c.may || !may && own.Reason != ballot.Promised {
			t.Errorf("%s: %+v", c.why, own)
		}
	}
}

func TestAPromiseEndsTheLowerBallotHere(t *testing.T) {
	b, q := opened(t)
	replies, yielded, to := b.Asked(noon, candidate("2"), "3", ballot.Question{Number: 1, Token: token(5, "3")})
	if replies[0].Reason != ballot.Granted || yielded != q || !slices.Equal(to, []election.ID{"1", "3"}) {
		t.Errorf("%+v, yields %+v to %v", replies, yielded, to)
	}
	if _, open := b.Running(); open {
		t.Error("a ballot and a promise at the same time")
	}
	b, _ = opened(t)
	s := candidate("2")
	s.ByRank = false
	replies, yielded, _ = b.Asked(noon, s, "1", ballot.Question{Number: 1, Token: token(5, "1")})
	if replies[0].Reason != ballot.Promised || replies[0].Highest != 5 || yielded.Number != 0 {
		t.Errorf("%+v, yields %+v", replies, yielded)
	}
	if replies, yielded, _ = b.Asked(noon, s, "1", ballot.Question{}); replies[0].Reason != ballot.Granted || yielded.Number != 0 {
		t.Errorf("a query: %+v, yields %+v", replies, yielded)
	}
}

func TestAHigherBallotTakesThePromiseOver(t *testing.T) {
	b, s := ballot.New("1", T), ballot.Situation{Rank: rank("1"), Listed: true}
	b.Asked(noon, s, "2", ballot.Question{Number: 1, Token: token(5, "2"), Hold: 2 * T})
	replies, _, _ := b.Asked(noon, s, "3", ballot.Question{Number: 4, Token: token(5, "3"), Hold: 2 * T})
	want := []ballot.Reply{
		{To: "3", Answer: ballot.Answer{Number: 4, Rank: rank("1"), Highest: 5}},
		{To: "2", Answer: ballot.Answer{Number: 1, Rank: rank("1"), Reason: ballot.Promised, Wait: T, Highest: 5}},
	}
	if !slices.Equal(replies, want) {
		t.Errorf("%+v", replies)
	}
	if replies, _, _ = b.Asked(noon, s, "2", ballot.Question{Number: 2, Token: token(5, "2")}); replies[0].Reason != ballot.Promised {
		t.Errorf("a lower ballot: %+v", replies)
	}
	if to, holds := b.Promised(noon); !holds || to != "3" {
		t.Errorf("promised to %s, %v", to, holds)
	}
}

func TestAMemberThatBeginsToBeACandidateAnswersAgain(t *testing.T) {
	b, s := ballot.New("3", T), ballot.Situation{Rank: rank("3"), Listed: true, ByRank: true}
	if _, changed := b.Reconsider(noon, s); changed {
		t.Error("answers without a question")
	}
	b.Asked(noon, s, "2", ballot.Question{Number: 9, Token: token(5, "2"), Hold: 2 * T})
	if _, changed := b.Reconsider(noon, s); changed {
		t.Error("answers again without a change")
	}
	s.Stands = true
	reply, changed := b.Reconsider(noon, s)
	if !changed || reply.To != "2" || reply.Number != 9 || reply.Reason != ballot.Outranked {
		t.Errorf("%+v, %v", reply, changed)
	}
	if _, holds := b.Promised(noon); holds {
		t.Error("refuses, and holds a promise")
	}
}

func TestWhatAPeerSendsIsBounded(t *testing.T) {
	b, q := opened(t)
	b.Receive("1", ballot.Answer{Number: q.Number, Reason: 200, Wait: -T, Age: -T})
	if r := outcome(t, &b, noon, ballot.Refused); r.Answer.Wait != 0 || r.Answer.Age != 0 || r.Answer.Reason.String() != "unknown" {
		t.Errorf("%+v", r)
	}
	b.Receive("1", ballot.Answer{Number: q.Number, Reason: ballot.Following, Wait: 1 << 62})
	if r := outcome(t, &b, noon, ballot.Refused); r.Answer.Wait > 4*T {
		t.Errorf("waits %v for a peer", r.Answer.Wait)
	}
}

func TestACloneIsIndependent(t *testing.T) {
	b, q := opened(t)
	c := b.Clone()
	c.Receive("1", grant(q))
	c.Receive("3", grant(q))
	outcome(t, &c, noon, ballot.Won)
	outcome(t, &b, noon, ballot.Open)
}
