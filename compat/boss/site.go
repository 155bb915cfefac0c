package boss

import (
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/net/network"
)

// site is the node that the connections serve: its Machine's decisions, and the events for its
// Machine. It reaches no connection, and is used in a turn of the node.
type site struct {
	network.Site
	faults *faults
	digest uint32 // of this member's list, for messages in foreign members' names
}

func (s *site) leads() bool { return s.View().Leader.ID == s.Self }

func (s *site) follows(p *peer) bool { return s.View().Leader.ID == p.id }

// hear passes the Machine a message in a foreign member's name.
func (s *site) hear(p *peer, m election.Message) {
	m.From, m.To, m.Election, m.Digest = p.id, s.Self, s.Election, s.digest
	s.Emit(election.Event{Kind: election.Received, Peer: p.id, Message: &m})
}

// deliver passes the Machine the message of a batuta member.
func (s *site) deliver(p *peer, e *extra) {
	if e == nil || e.Message == nil {
		return
	}
	m := e.Message.inward()
	if err := s.Check(m); err != nil || m.From != p.id || m.To != election.None && m.To != s.Self {
		s.faults.drop(string(p.id), "message", "message dropped", "member", p.id, "from", m.From, "to", m.To, "error", err)
		return
	}
	s.Emit(election.Event{Kind: election.Received, Peer: p.id, Message: m})
}

// linkUp reports that a member can be reached.
func (s *site) linkUp(p *peer) {
	p.up = true
	s.Emit(election.Event{Kind: election.LinkUp, Peer: p.id, Rank: election.Rank{ID: p.id}, Incarnation: p.incarnation})
}

// linkDown reports that the link to a member has ended.
func (s *site) linkDown(p *peer) {
	if p.up {
		p.up = false
		s.Emit(election.Event{Kind: election.LinkDown, Peer: p.id, Incarnation: p.incarnation})
	}
}

// failed reports that a member could not be reached.
func (s *site) failed(p *peer, refused bool) {
	if refused && p.kind == legacy {
		p.gone = true
	}
	switch {
	case p.persistent != nil && p.up: // the persistent connection shows whether it lives
	case p.up:
		s.linkDown(p)
	default:
		s.Emit(election.Event{Kind: election.DialFailed, Peer: p.id, Refused: refused})
	}
}

// meet records that a member has sent a frame, and which process of the member. Its error is the
// reason to refuse that process.
func (s *site) meet(p *peer, f *frame) error {
	incarnation := p.incarnation
	switch {
	case f.Batuta != nil:
		if f.Batuta.Cluster != s.Cluster {
			return errCluster
		}
		incarnation = f.Batuta.Incarnation
	case p.kind != legacy || p.gone:
		incarnation++
	}
	if err := s.meetProcess(p, incarnation); err != nil {
		s.faults.drop(string(p.id), "process", "frame dropped", "member", p.id, "error", err)
		return err
	}
	p.kind, p.gone, p.heard = legacy, false, time.Now()
	if f.Batuta != nil {
		p.kind = native
	}
	return nil
}

func (s *site) meetProcess(p *peer, incarnation uint64) error {
	if incarnation == p.incarnation && p.up {
		return nil
	}
	if incarnation > p.incarnation && p.up && p.persistent == nil {
		s.linkDown(p) // frames of the earlier process prove nothing now
	} else if err := s.Admit(election.Rank{ID: p.id}, incarnation); err != nil && !p.fresh {
		return err
	}
	p.fresh = false
	if incarnation != p.incarnation {
		p.endPersistent()
		p.incarnation = incarnation
	}
	s.linkUp(p)
	return nil
}

// claimed reports that a foreign member leads, as the member announces.
func (s *site) claimed(p *peer) {
	s.hear(p, election.Message{Kind: election.Coordinator, Token: s.term(p)})
}

// identified handles a member's identification.
func (s *site) identified(p *peer, f *frame) {
	switch {
	case p.kind != legacy:
	case f.boss():
		s.claimed(p)
	default:
		s.deposed(p)
	}
}

// deposed reports that a foreign member does not lead, or leads no longer.
func (s *site) deposed(p *peer) {
	if view := s.View(); view.Leader.ID == p.id {
		s.hear(p, election.Message{Kind: election.Resign, Token: view})
	}
}

// term returns the token of a foreign member's leadership: the token that it is followed under,
// or the next above all that were seen.
func (s *site) term(p *peer) election.Token {
	view := s.View()
	switch {
	case view.Leader.ID == p.id:
		p.token = view // a batuta member may have numbered it higher
	case !p.token.Above(s.Held()):
		p.token = election.Token{Epoch: max(s.Highest(), p.token.Epoch) + 1, Leader: election.Rank{ID: p.id}}
	}
	return p.token
}

// answerFor acknowledges a heartbeat in the name of a foreign member that can be reached.
func (s *site) answerFor(p *peer, m *election.Message) {
	if m.Kind != election.Beat || p.persistent == nil && time.Since(p.heard) > s.Timing.T() {
		return
	}
	s.hear(p, election.Message{Kind: election.Ack, Token: m.Token, Stamp: m.Stamp, Version: m.Version})
}
