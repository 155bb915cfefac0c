package quorum

import (
	"errors"
	"fmt"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/batuta-dev/batuta/election"
)

// This file is the only access to raft: what it receives, and what is refused before.

// stepRaft steps raft and reports whether raft accepted the message without an error or a panic.
func (c *Core) stepRaft(m *pb.Message) (ok bool) {
	defer c.caught()
	if err := c.node.Step(m); err != nil {
		return false
	}
	c.turned()
	return true
}

// caught is deferred where raft receives input from outside. The input has been checked; should
// raft panic nevertheless, only this member ends.
func (c *Core) caught() {
	if r := recover(); r != nil {
		c.halt(fmt.Errorf("raft cannot go on with its log: %v: remove this member, and add it again with an empty data directory", r))
	}
}

func (c *Core) status() raft.BasicStatus { return c.node.BasicStatus() }

// lastIndex returns the index of the last entry on disk. Later entries were neither sent to a
// member nor acknowledged.
func (c *Core) lastIndex() uint64 {
	last, _ := c.storage.LastIndex() // a MemoryStorage always has it
	return last
}

// errUnsound is for a message that no honest member would send.
var errUnsound = errors.New("no member of this cluster would send that")

// check refuses a message on which raft would panic.
func (c *Core) check(m *pb.Message) error {
	if m.GetTerm() == 0 || m.GetTerm() > election.MaxEpoch || m.GetIndex() > election.MaxEpoch || m.GetCommit() > election.MaxEpoch || len(m.GetResponses()) > 0 {
		return errUnsound
	}
	switch m.GetType() {
	case pb.MsgApp:
		return checkEntries(m)
	case pb.MsgAppResp:
		if !m.GetReject() && m.GetTerm() == c.status().GetTerm() && m.GetIndex() > c.lastIndex() || m.GetRejectHint() > election.MaxEpoch {
			return errUnsound
		}
	case pb.MsgSnap:
		meta := m.GetSnapshot().GetMetadata()
		if meta.GetIndex() == 0 || meta.GetIndex() > election.MaxEpoch || meta.GetTerm() == 0 || meta.GetTerm() > m.GetTerm() {
			return errUnsound
		}
		_, err := decodeRoster(m.GetSnapshot().GetData(), meta.GetConfState())
		return err
	default:
		if len(m.GetEntries()) > 0 || m.GetSnapshot() != nil {
			return errUnsound
		}
	}
	return nil
}

// checkEntries requires consecutive entries, with terms that do not decrease.
func checkEntries(m *pb.Message) error {
	index, term := m.GetIndex(), m.GetLogTerm()
	if (index == 0) != (term == 0) || term > m.GetTerm() {
		return errUnsound
	}
	for _, e := range m.GetEntries() {
		index++
		if e.GetIndex() != index || e.GetTerm() < term || e.GetTerm() == 0 || e.GetTerm() > m.GetTerm() || checkEntry(e) != nil {
			return errUnsound
		}
		term = e.GetTerm()
	}
	return nil
}
