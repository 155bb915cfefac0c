package quorum

import (
	"errors"
	"fmt"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/batuta-dev/batuta/election"
)

// This file is raft's door: what is handed to it, and what is refused before.

// stepRaft steps raft; it tells whether raft has taken the message, and still stands.
func (c *Core) stepRaft(m *pb.Message) (ok bool) {
	defer c.caught()
	if err := c.node.Step(m); err != nil {
		return false
	}
	c.turned()
	return true
}

// caught is deferred where raft takes in what comes from outside. That has been checked:
// should raft panic all the same, this member ends and nothing else.
func (c *Core) caught() {
	if r := recover(); r != nil {
		c.halt(fmt.Errorf("raft cannot go on with its log: %v: remove this member, and add it again with an empty data directory", r))
	}
}

func (c *Core) status() raft.BasicStatus { return c.node.BasicStatus() }

// lastIndex is of the last entry that is on disk. No other member has been told of one
// behind it, nor has this one acknowledged any.
func (c *Core) lastIndex() uint64 {
	last, _ := c.storage.LastIndex() // a MemoryStorage knows
	return last
}

// errUnsound says that no honest member would send that.
var errUnsound = errors.New("no member of this cluster would send that")

// check refuses what raft would founder on.
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

// checkEntries wants them in a row, and of terms that do not fall.
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
