package transport

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

// This file is the handshake: which processes may connect, and the answers to them.

// handleHello answers a hello.
func (t *Transport) handleHello(c *conn, hello *wire.Handshake) {
	t.acceptor.leave(c)
	if hello.Kind == wire.KindAttest {
		if t.site.Attest == nil || !t.site.Attest(hello.Secret) {
			t.refused(election.None, c.remote(), wire.ReasonAttest, fmt.Sprintf("it attests the end of %s, epoch %d, and ends no leadership that this member follows", election.Shown(string(hello.From.ID)), hello.Token.Epoch))
		}
		c.finish(t.trip)
		return
	}
	if why, detail := t.judge(c, hello); why != "" {
		t.refuse(c, hello, why, detail)
		return
	}
	if hello.Kind == wire.KindJoin {
		t.admitJoin(c, hello)
		return
	}
	answer := t.answer(wire.KindWelcome)
	t.say(c, &answer)
	t.activate(c, hello)
}

// answer begins an answer to a hello.
func (t *Transport) answer(kind wire.HandshakeKind) wire.Handshake {
	h := t.self
	h.From, h.Address = t.site.Rank(), t.address
	h.Kind, h.Cluster = kind, ""
	return h
}

func (t *Transport) refuse(c *conn, hello *wire.Handshake, why wire.Reason, detail string) {
	switch {
	case why == wire.ReasonItself: // its own address is in its list of addresses to join: no fault
	case hello.Check: // a person's question, not a member's attempt
		t.counters.Refused(string(why))
	case why == wire.ReasonReceiver:
		t.misdialed(hello, c.remote())
	default:
		t.refused(hello.From.ID, c.remote(), why, detail)
	}
	answer := t.answer(wire.KindRefused)
	if why == wire.ReasonCluster { // a refused process must not learn the cluster's name by guessing
		detail = fmt.Sprintf("member %s is of another cluster than %.64q: give all the same", t.self.From.ID, hello.Cluster)
	}
	answer.Reason, answer.Detail = why, clamped(detail)
	switch e, ok := t.site.Entry(hello.From.ID); {
	case !ok:
	case why == wire.ReasonRemoved, why == wire.ReasonSameID, why == wire.ReasonOldIncarnation, why == wire.ReasonCheck:
		answer.List = []election.Member{e} // shows whether it was added since, or which process has its id
	}
	if why == wire.ReasonCheck {
		answer.Clock, answer.Token = time.Now().UnixNano(), t.site.View()
	}
	t.say(c, &answer)
	c.finish(t.trip)
}

// refused counts a connection that one end refused, logs it unless that is already known of the
// member, and keeps the reason for its status.
func (t *Transport) refused(id election.ID, at string, why wire.Reason, detail string) {
	t.counters.Refused(string(why.Known()))
	p := t.byID[id]
	if p == nil || p.refusal != why {
		t.refusals.Warn(t.log, hostIn(at), string(why.Known()), "connection refused", "peer", id, "at", at, "reason", string(why.Known()), "detail", election.Shown(detail))
	}
	if p != nil {
		p.refusal, p.words = why, fmt.Sprintf("%s: %s", why.Known(), election.Shown(detail))
	}
}

// misdialed records that a peer dialed this process in place of a different member. The peer shows
// it in its status; here it is logged once.
func (t *Transport) misdialed(hello *wire.Handshake, at string) {
	t.counters.Refused(string(wire.ReasonReceiver))
	if p := t.byID[hello.From.ID]; p != nil && !p.misdials {
		p.misdials = true
		t.refusals.Warn(t.log, hostIn(at), string(wire.ReasonReceiver), "a member dials this one for another: the address it has of that one is wrong", "peer", p.id, "at", at, "for", hello.To)
	}
}

// elsewhere describes that a member's address belongs to a different process.
func (t *Transport) elsewhere(p *peer, found election.ID) string {
	who := "to member " + string(found)
	if found == t.self.From.ID {
		who = "back to this member, " + string(found)
	}
	return fmt.Sprintf("address %s of member %s leads %s: correct the address that it advertises, or the member list", p.addr, p.id, who)
}

// clamped shortens a detail to fit a handshake.
func clamped(detail string) string {
	for len(detail) > wire.MaxText {
		_, size := utf8.DecodeLastRuneInString(detail)
		detail = detail[:len(detail)-size]
	}
	return detail
}

// judge returns why a hello is refused, or none.
func (t *Transport) judge(c *conn, hello *wire.Handshake) (why wire.Reason, detail string) {
	if err := t.proves(c, hello.From.ID); err != nil {
		return wire.ReasonSecurity, err.Error()
	}
	switch {
	case hello.Kind != wire.KindHello && hello.Kind != wire.KindJoin:
		return wire.ReasonEarly, "the first frame must be a hello"
	case hello.Version != wire.ProtocolVersion: // its remaining fields may have a different meaning
		return t.differs(hello)
	case hello.Cluster != t.self.Cluster:
		return wire.ReasonCluster, fmt.Sprintf("member %s is of cluster %.64q, member %s of %.64q", t.self.From.ID, t.self.Cluster, hello.From.ID, hello.Cluster)
	case hello.Kind == wire.KindHello && hello.Check:
		return wire.ReasonCheck, "the settings of this member are in this answer"
	case hello.Kind == wire.KindHello && hello.To != t.self.From.ID:
		return wire.ReasonReceiver, fmt.Sprintf("this is member %s", t.self.From.ID)
	}
	if why, detail := t.differs(hello); why != "" {
		return why, detail
	}
	if hello.Kind == wire.KindJoin {
		return t.mayJoin(hello)
	}
	return t.admission(hello.From, t.site.Admit(hello.From, hello.Incarnation))
}

// differs returns the setting of the peer that differs, though all members need the same. An
// election fails between two algorithms or two values of the timeouts. Heartbeats may differ: each
// is below T, which is the same.
func (t *Transport) differs(other *wire.Handshake) (why wire.Reason, detail string) {
	a, b := &t.self, other
	if a.Version != b.Version {
		return wire.ReasonVersion, fmt.Sprintf("member %s speaks protocol version %d, member %s version %d: bring both to one release of batuta", a.From.ID, a.Version, b.From.ID, b.Version)
	}
	if b.Address != "" && election.CheckListen(b.Address) != nil {
		return wire.ReasonAddress, fmt.Sprintf("member %s listens on %q, which is not HOST:PORT: have it advertise another", b.From.ID, b.Address)
	}
	if b.Algorithm != "" && a.Algorithm != b.Algorithm {
		return wire.ReasonAlgorithm, fmt.Sprintf("member %s has algorithm %.64q, member %s has %.64q: give all the same", a.From.ID, a.Algorithm, b.From.ID, b.Algorithm)
	}
	if b.Election != "" && a.Election != b.Election {
		return wire.ReasonElection, fmt.Sprintf("member %s has election %.64q, member %s has %.64q: give all the same, or another cluster", a.From.ID, a.Election, b.From.ID, b.Election)
	}
	if b.TMax != 0 && (a.TMax != b.TMax || a.TProcess != b.TProcess) {
		return wire.ReasonTimes, fmt.Sprintf("member %s has t_max %v and t_process %v, member %s has %v and %v: give all the same",
			a.From.ID, a.TMax, a.TProcess, b.From.ID, b.TMax, b.TProcess)
	}
	return "", ""
}

// admission returns why the Machine refuses a member, if it does.
func (t *Transport) admission(from election.Rank, err error) (why wire.Reason, detail string) {
	switch {
	case err == nil:
		return "", ""
	case err == election.ErrSameID:
		return wire.ReasonSameID, t.holder(from.ID)
	case errors.Is(err, election.ErrSameID):
		return wire.ReasonSameID, err.Error() // no process, but the disk of an earlier process
	case errors.Is(err, election.ErrOldIncarnation):
		return wire.ReasonOldIncarnation, err.Error()
	case errors.Is(err, election.ErrRemoved):
		return wire.ReasonRemoved, err.Error()
	case errors.Is(err, election.ErrJoining):
		return wire.ReasonJoining, err.Error()
	}
	return wire.ReasonNotMember, err.Error()
}

// holder returns the address of the process that has an id.
func (t *Transport) holder(id election.ID) string {
	if p := t.byID[id]; p != nil && p.active != nil {
		return p.active.address
	}
	return t.address
}

// ownEntry returns the entry that a peer has of this member, from its refusal.
func (t *Transport) ownEntry(answer *wire.Handshake) (e election.Member) {
	if len(answer.List) == 1 && answer.List[0].ID == t.self.From.ID {
		e = answer.List[0]
	}
	return e
}

// answeredElsewhere handles the answer from the address that the list has of this member. The
// Machine judges and reports it.
func (t *Transport) answeredElsewhere(c *conn, p *peer, answer *wire.Handshake) {
	c.close()
	t.unreached(p, election.Event{Err: answer.Reason.Err(), Incarnation: answer.Incarnation, Member: t.ownEntry(answer)})
}

// handleAnswer receives the answer to this member's hello.
func (t *Transport) handleAnswer(c *conn, answer *wire.Handshake) {
	p := t.byID[c.to]
	if p == nil || p.dialing != c {
		c.close()
		return
	}
	p.dialing, p.unresolved = nil, ""
	if p.id == t.self.From.ID {
		t.answeredElsewhere(c, p, answer)
		return
	}
	why, detail := answer.Reason, answer.Detail
	var entry election.Member // the reason for the refusal
	switch {
	case answer.Kind == wire.KindRefused:
		if here, words := t.differs(answer); here == why {
			detail = words // complete, with this member first
		}
		switch {
		case why == wire.ReasonReceiver:
			detail = t.elsewhere(p, answer.From.ID)
		case why == wire.ReasonSameID:
			t.site.SameID(answer.Detail, answer.From.ID)
		default:
			entry = t.ownEntry(answer)
			if why == wire.ReasonOldIncarnation && t.Links() == 0 {
				t.site.SameID("", answer.From.ID)
			}
		}
	case answer.Kind != wire.KindWelcome || answer.From.ID != p.id:
		why, detail = wire.ReasonReceiver, t.elsewhere(p, answer.From.ID)
	default:
		if why, detail = t.differs(answer); why == "" {
			why, detail = t.admission(answer.From, t.site.AdmitAnswer(answer.From, answer.Incarnation))
		}
	}
	if why == "" {
		c.await(time.Time{})
		t.activate(c, answer)
		return
	}
	c.close()
	t.refused(p.id, p.addr, why, detail)
	t.unreached(p, election.Event{Err: why.Err(), Member: entry})
}

// activate takes a connection into use.
func (t *Transport) activate(c *conn, h *wire.Handshake) {
	t.enter(c, h)
	t.site.Emit(election.Event{Kind: election.LinkUp, Peer: h.From.ID, Rank: h.From, Incarnation: h.Incarnation})
}

// unreached reports that a dial has failed: no process listens there, the peer refused with a
// reason, or it did not answer.
func (t *Transport) unreached(p *peer, ev election.Event) {
	ev.Kind, ev.Peer = election.DialFailed, p.id
	t.site.Emit(ev)
}

// admitJoin puts a newcomer on the list.
func (t *Transport) admitJoin(c *conn, hello *wire.Handshake) {
	answer := t.answer(wire.KindAdmitted)
	entry := t.site.Enter(newcomer(hello), hello.Token)
	answer.List, answer.Token, answer.Age = entry.List, entry.Token, entry.Age
	if len(answer.List) > maxJoinList {
		answer.List = answer.List[:maxJoinList] // the rest follows in messages
	}
	t.say(c, &answer)
	c.finish(t.trip)
}

// maxJoinList is how many entries an admission carries, so that it fits a frame.
const maxJoinList = 1024

func newcomer(hello *wire.Handshake) election.Member {
	e := election.Member{Rank: hello.From, Address: hello.Address, Observer: hello.Observer}
	if len(hello.List) == 1 && hello.List[0].ID == e.ID {
		own := &hello.List[0]
		e.Version, e.Number, e.Disk = own.Version, own.Number, own.Disk
	}
	return e
}

// mayJoin returns why a newcomer may not be put on the list, if it may not.
func (t *Transport) mayJoin(hello *wire.Handshake) (why wire.Reason, detail string) {
	switch err := t.site.AdmitJoin(newcomer(hello), hello.Incarnation); {
	case hello.From.ID == t.self.From.ID && hello.Incarnation == t.self.Incarnation:
		return wire.ReasonItself, "this is the same process"
	case errors.Is(err, election.ErrTooManyJoins):
		return wire.ReasonManyJoins, err.Error()
	case errors.Is(err, election.ErrMixedKind), errors.Is(err, election.ErrFull), errors.Is(err, election.ErrWornOut):
		return wire.ReasonJoin, err.Error()
	case election.CheckAddress(hello.Address) != nil:
		return wire.ReasonJoin, fmt.Sprintf("address %q: the others must be able to reach the newcomer there", hello.Address)
	default:
		return t.admission(hello.From, err)
	}
}

// Reassess ends the connections to members that are no longer trusted.
func (t *Transport) Reassess() {
	for _, p := range t.byID {
		for _, c := range p.conns {
			if err := t.proves(c, p.id); err != nil {
				t.refused(p.id, c.remote(), wire.ReasonSecurity, err.Error())
				c.close() // the reader reports its end
			}
		}
	}
}
