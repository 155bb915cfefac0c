package batuta

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/batuta-dev/batuta/election"
)

// This file is the handshake: who may connect, and what is answered to whom.

// greeted answers a hello.
func (l *links) greeted(c *conn, hello *handshake) {
	l.door.leave(c)
	if hello.Kind == kindJoin {
		l.joining(c, hello)
		return
	}
	if why, detail := l.judge(hello); why != "" {
		l.refuse(c, hello, why, detail)
		return
	}
	answer := l.answer(kindWelcome)
	l.say(c, &answer)
	l.stand(c, hello)
}

// answer begins an answer to a hello.
func (l *links) answer(kind handshakeKind) handshake {
	h := l.self
	h.From = l.rank()
	h.Kind, h.Cluster = kind, ""
	return h
}

func (l *links) refuse(c *conn, hello *handshake, why reason, detail string) {
	l.refused(hello.From.ID, c.remote(), why, detail)
	answer := l.answer(kindRefused)
	answer.Reason, answer.Detail = why, clamped(detail)
	if e, ok := l.entry(hello.From.ID); ok && why == reasonRemoved {
		answer.List = []election.Member{e} // so that it can tell whether it was added since
	}
	l.say(c, &answer)
	c.finish(l.dialTime)
}

// refused counts a connection that came to nothing because one end refused it,
// logs it unless that is known of a member, and keeps the words for its status.
func (l *links) refused(id ID, at string, why reason, detail string) {
	l.tally.refused(why.known())
	p := l.peers[id]
	if p == nil || p.refusal != why {
		l.log.Warn("connection refused", "id", id, "at", at, "reason", string(why.known()), "detail", shown(detail))
	}
	if p != nil {
		p.refusal, p.words = why, fmt.Sprintf("%s: %s", why.known(), shown(detail))
	}
}

// clamped cuts a detail so that it fits a handshake.
func clamped(detail string) string {
	for len(detail) > maxText {
		_, size := utf8.DecodeLastRuneInString(detail)
		detail = detail[:len(detail)-size]
	}
	return detail
}

func (l *links) say(c *conn, h *handshake) {
	frame, err := new(encoder).handshake(h)
	if err != nil {
		l.log.Error("handshake not sent", "error", err)
		return
	}
	c.send(frame)
}

// judge gives the reason why a hello is refused, or none.
func (l *links) judge(hello *handshake) (why reason, detail string) {
	switch {
	case hello.Kind != kindHello && hello.Kind != kindJoin:
		return reasonEarly, "the first frame must be a hello"
	case hello.Version != protocolVersion:
		return reasonVersion, fmt.Sprintf("protocol version %d, and this is %d", hello.Version, protocolVersion)
	case hello.Cluster != l.self.Cluster:
		return reasonCluster, fmt.Sprintf("this is cluster %.64q", l.self.Cluster)
	case hello.Kind == kindHello && hello.To != l.self.From.ID:
		return reasonReceiver, fmt.Sprintf("this is member %s", l.self.From.ID)
	}
	if why, detail := l.differs(hello); why != "" {
		return why, detail
	}
	if hello.Kind == kindJoin {
		return l.mayJoin(hello)
	}
	return l.admission(hello.From, l.admit(hello.From, hello.Incarnation))
}

// differs names what the other end has otherwise than this one, though all members
// must have it alike: an election goes wrong between two algorithms or two ideas of
// how long to wait. Heartbeats may differ: each is below the one T.
func (l *links) differs(other *handshake) (why reason, detail string) {
	a, b := &l.self, other
	if b.Address != "" && election.CheckListen(b.Address) != nil {
		return reasonAddress, fmt.Sprintf("member %s listens on %q, which is not HOST:PORT: give it another --advertise", b.From.ID, b.Address)
	}
	if b.Algorithm != "" && a.Algorithm != b.Algorithm {
		return reasonAlgorithm, fmt.Sprintf("member %s has algorithm %.64q, member %s has %.64q: give all the same", a.From.ID, a.Algorithm, b.From.ID, b.Algorithm)
	}
	if b.Election != "" && a.Election != b.Election {
		return reasonElection, fmt.Sprintf("member %s has election %.64q, member %s has %.64q: give all the same, or another cluster", a.From.ID, a.Election, b.From.ID, b.Election)
	}
	if b.TMax != 0 && (a.TMax != b.TMax || a.TProcess != b.TProcess) {
		return reasonTimes, fmt.Sprintf("member %s has t_max %v and t_process %v, member %s has %v and %v: give all the same",
			a.From.ID, a.TMax, a.TProcess, b.From.ID, b.TMax, b.TProcess)
	}
	return "", ""
}

// admission says why the Machine refuses a member, if it does.
func (l *links) admission(from Rank, err error) (why reason, detail string) {
	switch {
	case err == nil:
		return "", ""
	case errors.Is(err, election.ErrSameID):
		return reasonSameID, l.holder(from.ID)
	case errors.Is(err, election.ErrOldIncarnation):
		return reasonOldIncarnation, err.Error()
	case errors.Is(err, election.ErrRemoved):
		return reasonRemoved, err.Error()
	}
	return reasonNotMember, err.Error()
}

// holder says where the process is that has an id.
func (l *links) holder(id ID) string {
	if p := l.peers[id]; p != nil && p.active != nil {
		return p.active.address
	}
	return l.self.Address
}

// answered hears the answer to a hello of ours.
func (l *links) answered(c *conn, answer *handshake) {
	p := l.peers[c.to]
	if p == nil || p.dialing != c {
		c.close()
		return
	}
	p.dialing = nil
	why, detail := answer.Reason, answer.Detail
	var entry election.Member // by which it refuses us
	switch {
	case answer.Kind == kindRefused:
		if here, words := l.differs(answer); here == why {
			detail = words // in full, and this member first
		}
		switch {
		case why == reasonSameID:
			l.sameID(answer)
		case len(answer.List) == 1 && answer.List[0].ID == l.self.From.ID:
			entry = answer.List[0]
		}
	case answer.Kind != kindWelcome || answer.Version != protocolVersion || answer.From.ID != p.id:
		why, detail = reasonReceiver, fmt.Sprintf("member %s answers", answer.From.ID)
	default:
		if why, detail = l.differs(answer); why == "" {
			why, detail = l.admission(answer.From, l.admitAnswer(answer.From, answer.Incarnation))
		}
	}
	if why == "" {
		c.established()
		l.stand(c, answer)
		return
	}
	c.close()
	l.refused(p.id, p.addr, why, detail)
	l.unreached(p, election.Event{Err: why.err(), Member: entry})
}
