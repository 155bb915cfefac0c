package transport

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

// This file is the handshake: who may connect, and what is answered to whom.

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
	if hello.Kind == wire.KindJoin {
		t.handleJoin(c, hello)
		return
	}
	if why, detail := t.judge(c, hello); why != "" {
		t.refuse(c, hello, why, detail)
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
	case why == wire.ReasonItself: // its own address is among those to join through: no fault
	case hello.Check: // a person's question, not a member's attempt
		t.site.Counters.Refused(string(why))
	case why == wire.ReasonReceiver:
		t.misdialed(hello, c.remote())
	default:
		t.refused(hello.From.ID, c.remote(), why, detail)
	}
	answer := t.answer(wire.KindRefused)
	if why == wire.ReasonCluster { // a stranger is not to learn the name by guessing
		detail = fmt.Sprintf("member %s is of another cluster than %.64q: give all the same", t.self.From.ID, hello.Cluster)
	}
	answer.Reason, answer.Detail = why, clamped(detail)
	switch e, ok := t.site.Entry(hello.From.ID); {
	case !ok:
	case why == wire.ReasonRemoved, why == wire.ReasonSameID, why == wire.ReasonOldIncarnation, why == wire.ReasonCheck:
		answer.List = []election.Member{e} // so that it can tell whether it was added since, or who has its place
	}
	if why == wire.ReasonCheck {
		answer.Clock = time.Now().UnixNano()
	}
	t.say(c, &answer)
	c.finish(t.trip)
}

// refused counts a connection that came to nothing because one end refused it,
// logs it unless that is known of a member, and keeps the words for its status.
func (t *Transport) refused(id election.ID, at string, why wire.Reason, detail string) {
	t.site.Counters.Refused(string(why.Known()))
	p := t.peers[id]
	if p == nil || p.refusal != why {
		t.refusals.Warn(t.site.Log, hostIn(at), string(why.Known()), "connection refused", "peer", id, "at", at, "reason", string(why.Known()), "detail", election.Shown(detail))
	}
	if p != nil {
		p.refusal, p.words = why, fmt.Sprintf("%s: %s", why.Known(), election.Shown(detail))
	}
}

// misdialed notes that another dials this member for one that is elsewhere. That one
// keeps it in its status; here it is said once.
func (t *Transport) misdialed(hello *wire.Handshake, at string) {
	t.site.Counters.Refused(string(wire.ReasonReceiver))
	if p := t.peers[hello.From.ID]; p != nil && !p.misdials {
		p.misdials = true
		t.refusals.Warn(t.site.Log, hostIn(at), string(wire.ReasonReceiver), "a member dials this one for another: the address it has of that one is wrong", "peer", p.id, "at", at, "for", hello.To)
	}
}

// elsewhere reports that a member's address has a different process.
func (t *Transport) elsewhere(p *peer, found election.ID) string {
	who := "to member " + string(found)
	if found == t.self.From.ID {
		who = "back to this member, " + string(found)
	}
	return fmt.Sprintf("address %s of member %s leads %s: correct the address that it advertises, or the member list", p.addr, p.id, who)
}

// clamped cuts a detail so that it fits a handshake.
func clamped(detail string) string {
	for len(detail) > wire.MaxText {
		_, size := utf8.DecodeLastRuneInString(detail)
		detail = detail[:len(detail)-size]
	}
	return detail
}

func (t *Transport) say(c *conn, h *wire.Handshake) {
	frame, err := new(wire.Encoder).Handshake(h)
	if err != nil {
		t.site.Log.Error("handshake not sent", "error", err)
		return
	}
	c.send(frame)
}

// judge gives the reason why a hello is refused, or none.
func (t *Transport) judge(c *conn, hello *wire.Handshake) (why wire.Reason, detail string) {
	if why, detail := t.unproven(c, hello.From.ID); why != "" {
		return why, detail
	}
	switch {
	case hello.Kind != wire.KindHello && hello.Kind != wire.KindJoin:
		return wire.ReasonEarly, "the first frame must be a hello"
	case hello.Version != wire.ProtocolVersion: // whatever else it says may mean something else
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

// differs names what the other end has otherwise than this one, though all members
// must have it alike: an election goes wrong between two algorithms or two ideas of
// how long to wait. Heartbeats may differ: each is below the one T.
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
		return wire.ReasonSameID, err.Error() // no process, but what one has left
	case errors.Is(err, election.ErrOldIncarnation):
		return wire.ReasonOldIncarnation, err.Error()
	case errors.Is(err, election.ErrRemoved):
		return wire.ReasonRemoved, err.Error()
	}
	return wire.ReasonNotMember, err.Error()
}

// holder returns where the process is that has an id.
func (t *Transport) holder(id election.ID) string {
	if p := t.peers[id]; p != nil && p.active != nil {
		return p.active.address
	}
	return t.address
}

// ownEntry is the entry that another has of this member, as it says when it refuses it.
func (t *Transport) ownEntry(answer *wire.Handshake) (e election.Member) {
	if len(answer.List) == 1 && answer.List[0].ID == t.self.From.ID {
		e = answer.List[0]
	}
	return e
}

// answeredElsewhere hears who is where the list has this member. It is for the Machine to
// judge, and to say.
func (t *Transport) answeredElsewhere(c *conn, p *peer, answer *wire.Handshake) {
	c.close()
	t.unreached(p, election.Event{Err: answer.Reason.Err(), Incarnation: answer.Incarnation, Member: t.ownEntry(answer)})
}

// handleAnswer receives the answer to this member's hello.
func (t *Transport) handleAnswer(c *conn, answer *wire.Handshake) {
	p := t.peers[c.to]
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
	var entry election.Member // by which it refuses us
	switch {
	case answer.Kind == wire.KindRefused:
		if here, words := t.differs(answer); here == why {
			detail = words // in full, and this member first
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
		c.established()
		t.activate(c, answer)
		return
	}
	c.close()
	t.refused(p.id, p.addr, why, detail)
	t.unreached(p, election.Event{Err: why.Err(), Member: entry})
}
