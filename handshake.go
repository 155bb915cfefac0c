package batuta

import (
	"errors"
	"fmt"

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
	h.Kind, h.Cluster = kind, ""
	return h
}

func (l *links) refuse(c *conn, hello *handshake, why reason, detail string) {
	l.tally.refused(why)
	l.log.Warn("connection refused", "id", hello.From.ID, "from", c.remote(), "reason", string(why), "detail", detail)
	answer := l.answer(kindRefused)
	answer.Reason, answer.Detail = why, detail
	if e, ok := l.entry(hello.From.ID); ok && why == reasonRemoved {
		answer.List = []Member{e} // so that it can tell whether it was added since
	}
	l.say(c, &answer)
	c.finish(l.dialTime)
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
	if hello.Kind == kindJoin {
		return l.mayJoin(hello)
	}
	return l.admission(hello.From, l.admit(hello.From, hello.Incarnation))
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
	var entry Member // by which it refuses us
	switch {
	case answer.Kind == kindRefused:
		switch {
		case why == reasonSameID:
			l.sameID(answer)
		case len(answer.List) == 1 && answer.List[0].ID == l.self.From.ID:
			entry = answer.List[0]
		}
	case answer.Kind != kindWelcome || answer.Version != protocolVersion || answer.From.ID != p.id:
		why, detail = reasonReceiver, fmt.Sprintf("member %s answers", answer.From.ID)
	default:
		why, detail = l.admission(answer.From, l.admitAnswer(answer.From, answer.Incarnation))
	}
	if why == "" {
		p.refusal = ""
		c.established()
		l.stand(c, answer)
		return
	}
	c.close()
	if why != p.refusal {
		p.refusal = why
		l.log.Warn("member refuses the connection, or is not the one meant", "member", p.id, "address", p.addr, "reason", string(why), "detail", detail)
	}
	l.unreached(p, election.Event{Err: why.err(), Member: entry})
}
