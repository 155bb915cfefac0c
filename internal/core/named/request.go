package named

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// What a user may ask of the coordinator, through any member.
const (
	DoTransfer = "transfer"  // hand Name over to Member
	DoDrain    = "drain"     // move everything away from Member, and keep it away; Force: also what has no further candidate
	DoUndrain  = "undrain"   // end that
	DoResign   = "resign"    // step down as the leader of the cluster
	DoPause    = "pause"     // have the lead stay where it is for Length; 0: end that
	DoHandOver = "hand-over" // hand the cluster's own election over to Member
)

// Request is something that a user asks of the coordinator.
type Request struct {
	Do     string        `cbor:"1,keyasint"`
	Name   string        `cbor:"2,keyasint,omitempty"`
	Member election.ID   `cbor:"3,keyasint,omitempty"`
	Force  bool          `cbor:"4,keyasint,omitempty"`
	Length time.Duration `cbor:"6,keyasint,omitempty"` // of a pause
	Until  int64         `cbor:"5,keyasint,omitempty"` // refused after that, in the coordinator's own time; 0: whenever it arrives

	Within time.Duration `cbor:"-"` // sets Until to so long from now; 0: leaves it
}

// Refusal is the class of what is wrong with a request.
type Refusal uint8

// Refusals.
const (
	RefusedOther      Refusal = iota // the text has the reason
	RefusedNotMember                 // there is no such member
	RefusedNotLeading                // the member asked lost leadership, or the request has come too late
	RefusedUnfit                     // that member cannot become the leader
	Unanswered                       // the coordinator's time has ended without an answer: it may have been done
)

func (r Request) check() error {
	if r.Name != "" {
		if _, err := Name(r.Name); err != nil {
			return err
		}
	}
	if len(r.Do) > 64 || !election.Printable(r.Do, 64) {
		return errors.New("a request that does not print")
	}
	if r.Length < 0 || r.Length > election.MaxPause {
		return fmt.Errorf("a pause of %v, at most %v", r.Length, election.MaxPause)
	}
	return election.CheckIDs(r.Member)
}

// Reply is what has come of a request: nothing wrong if Error is empty.
type Reply struct {
	Number uint64
	Error  string
	Why    Refusal
}

// verdict is what a coordinator makes of a request.
type verdict struct {
	Reply
	act election.Event // for the member's own core, behind the reply; the zero Event: nothing
}

// refused is a verdict.
func refused(why Refusal, format string, args ...any) verdict {
	return verdict{Reply: Reply{Error: fmt.Sprintf(format, args...), Why: why}}
}

// asked is the last request of a member's process that a coordinator has taken in.
type asked struct{ incarnation, number uint64 }

// repeats reports whether a request was taken in before, and notes it otherwise. A process numbers what it asks upwards.
// An earlier version names no process: only what does no harm twice is taken in from it.
func (a *asked) repeats(f *frame) bool {
	now := asked{f.Incarnation, f.Number}
	if now.incarnation == 0 {
		return f.Request.Do == DoResign || f.Request.Do == DoHandOver
	}
	if now.incarnation < a.incarnation || now.incarnation == a.incarnation && now.number <= a.number {
		return true
	}
	*a = now
	return false
}

// beatClock is the leader's own time, by the stamps of its heartbeats.
type beatClock struct {
	stamp int64
	at    time.Time // when this member sent that, or received it; zero: there was no beat
	of    election.Token
}

// ticks takes note of a beat.
func (b *beatClock) ticks(m *election.Message, now time.Time) { *b = beatClock{m.Stamp, now, m.Token} }

// read is the time now under a leadership. A follower's is behind the leader's by what the beat took.
func (b *beatClock) read(of election.Token, now time.Time) (stamp int64, ok bool) {
	return b.stamp + int64(now.Sub(b.at)), same(b.of, of)
}

// Forget gives up waiting for a reply.
func (m *member) Forget(number uint64) { delete(m.requests, number) }

// answer does what a user asks, or schedules the reply, or returns why not.
func (o *office) answer(r Request) verdict {
	why := ""
	switch r.Do {
	case DoTransfer:
		why = o.transfer(r.Name, r.Member)
	case DoDrain:
		why = o.drain(r.Member, r.Force)
	case DoUndrain:
		o.undrain(r.Member)
	case DoResign:
		return makeWay(o, r.Member, election.Event{Kind: election.Resigned})
	case DoPause:
		return verdict{act: election.Event{Kind: election.Pausing, Age: r.Length}} // while it hands over, too
	case DoHandOver:
		if err := o.AdmitTransfer(r.Member); err != nil {
			return refused(refusalOf(err), "%v", err)
		}
		return makeWay(o, election.None, election.Event{Kind: election.Transfer, Peer: r.Member})
	default:
		why = fmt.Sprintf("the coordinator, %s, does not know how to %s: it runs an earlier version", o.self, r.Do)
	}
	return verdict{Reply: Reply{Error: why}}
}

// makeWay has this member step down by an event, if it leads; leader is to be this member, or none.
func makeWay(o *office, leader election.ID, by election.Event) verdict {
	if v := o.View(); !same(v, o.token) || leader != election.None && leader != o.self {
		return refused(RefusedNotLeading, "member %s: %v", o.self, election.ErrNotLeading)
	}
	return verdict{act: by}
}

// refusalOf is the class of an error of AdmitTransfer.
func refusalOf(err error) Refusal {
	switch {
	case errors.Is(err, election.ErrNotMember):
		return RefusedNotMember
	case errors.Is(err, election.ErrNotLeading):
		return RefusedNotLeading
	case errors.Is(err, election.ErrUnfit):
		return RefusedUnfit
	}
	return RefusedOther
}

// transfer hands a name over to a member.
func (o *office) transfer(name string, to election.ID) string {
	k := o.contests.byName[name]
	switch {
	case k == nil:
		return fmt.Sprintf("no election %q", name)
	case !o.Knows(to):
		return fmt.Sprintf("%s is no member of this cluster", to)
	case k.candidate(o.who(to)) == nil || !k.candidate(o.who(to)).stands:
		return fmt.Sprintf("member %s is not a candidate for election %q", to, name)
	case o.isDrained(to):
		return fmt.Sprintf("member %s is drained: end that first", to)
	case !o.fit(to):
		return fmt.Sprintf("member %s cannot lead now", to)
	}
	k.seat(max(k.want, 1) - 1) // all are there
	s := k.worstFirst(o.isDrained)[0]
	if i := slices.IndexFunc(k.seats, func(s *seat) bool { return s.index < k.want && s.leader == to || k.next(s) == to }); i >= 0 {
		s = k.seats[i]
	}
	if s.leader == to && s.asked.IsZero() {
		return ""
	}
	s.to, s.pin = to, true
	o.release(k, s, "it is transferred to "+string(to))
	o.lookAt(k)
	return ""
}

// drain keeps a member from leading anything.
func (o *office) drain(id election.ID, force bool) string {
	if !o.Knows(id) {
		return fmt.Sprintf("%s is no member of this cluster", id)
	}
	if alone := o.aloneIn(id); len(alone) > 0 && !force {
		more := ""
		if len(alone) > 1 {
			more = fmt.Sprintf(" and %d more elections", len(alone)-1)
		}
		return fmt.Sprintf("only member %s could lead %s%s: start another candidate for the same, or force the drain: then no member leads that", id, alone[0], more)
	}
	if forced, drained := o.drained[id]; !drained || force && !forced {
		list := o.forcedList()
		if force {
			list = append(list, id)
		}
		o.table.drain(append(o.Drained(), id), list)
		o.drains = true
	}
	o.uneven = true
	o.flushSoon()
	return ""
}

// aloneIn returns, in order, the elections that would have fewer leaders, or none, without that candidate.
func (o *office) aloneIn(id election.ID) (names []string) {
	o.refit()
	for _, k := range o.contests.ordered() {
		if o.contests.needs(k, o.who(id), o.isDrained) {
			names = append(names, k.name)
		}
	}
	return names
}

func (o *office) undrain(id election.ID) {
	if !o.isDrained(id) {
		return
	}
	others := func(list []election.ID) []election.ID {
		return slices.DeleteFunc(list, func(m election.ID) bool { return m == id })
	}
	o.table.drain(others(o.Drained()), others(o.forcedList()))
	o.drains, o.uneven = true, true
	if p := o.who(id); p != nil {
		o.reconsider(p)
	}
	o.flushSoon()
}
