package quorum

import (
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// checkEntry refuses an entry that could not be applied.
func checkEntry(e *pb.Entry) error {
	switch e.GetType() {
	case pb.EntryNormal:
		return nil
	case pb.EntryConfChangeV2:
		var change pb.ConfChangeV2
		if err := proto.Unmarshal(e.GetData(), &change); err != nil {
			return err
		}
		return checkChange(&change)
	}
	return errUnsound
}

// checkChange refuses a change that raft or the roster could not take up.
func checkChange(change *pb.ConfChangeV2) error {
	if len(change.GetChanges()) > 2 {
		return errUnsound
	}
	return nil
}

// changed takes a change of the configuration into the roster.
func (c *Core) changed(change *pb.ConfChangeV2, conf *pb.ConfState) {
	c.roster.conf = conf
	c.seatPeers()
}
