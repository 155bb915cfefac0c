package quorum

import (
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// network is some members whose messages arrive, and whose writes are over, at once.
type network struct {
	t      testing.TB
	now    time.Time
	cores  map[election.ID]*Core
	ids    []election.ID
	disks  map[election.ID][][]byte
	queue  []arrival
	halted map[election.ID]error
	cause  election.Cause         // of the last end of a leadership
	warned map[election.ID]error  // the last
	held   election.Token         // what each has on disk of another algorithm
	heard  func(election.Message) // told of all that is sent; may be nil
	lost   bool                   // nothing that is sent arrives
	hangs  election.ID            // whose disk ends no write
	full   election.ID            // its disk has room only for what is appended
}

type arrival struct {
	at election.ID
	ev election.Event
}

func newNetwork(t testing.TB, ids ...election.ID) *network {
	n := &network{t: t, now: begin, cores: map[election.ID]*Core{}, ids: ids, disks: map[election.ID][][]byte{}, halted: map[election.ID]error{}, warned: map[election.ID]error{}}
	for _, id := range ids {
		n.start(id, ids...)
	}
	n.settle()
	return n
}

func configured(self election.ID, ids []election.ID, records [][]byte) machine.Config {
	var list []election.Member
	for _, id := range ids {
		list = append(list, election.Member{Rank: election.Rank{ID: id}, Address: "host-" + string(id) + ":7400"})
	}
	return machine.Config{Self: election.Rank{ID: self}, Address: "host-" + string(self) + ":7400", Members: list, Algorithm: New(), Incarnation: 1, Seed: 7, Records: records}
}

func (n *network) start(id election.ID, list ...election.ID) {
	config := configured(id, list, n.disks[id])
	config.State.Token = n.held
	core, err := New().NewCore(config)
	if err != nil {
		n.t.Fatal(err)
	}
	n.cores[id] = core.(*Core)
	n.step(id, election.Event{Kind: election.Started})
}

func (n *network) step(id election.ID, ev election.Event) {
	for _, a := range n.cores[id].Step(n.now, ev) {
		switch a.Kind {
		case election.Dial:
			if n.cores[a.To] != nil {
				n.queue = append(n.queue, arrival{id, election.Event{Kind: election.LinkUp, Rank: election.Rank{ID: a.To}, Incarnation: 1}},
					arrival{a.To, election.Event{Kind: election.LinkUp, Rank: election.Rank{ID: id}, Incarnation: 1}})
			}
		case election.Notify:
			if a.Status == election.StateRemoved && n.cores[a.Member] != nil { // a driver ends the link to who is no member
				n.queue = append(n.queue, arrival{a.Member, election.Event{Kind: election.LinkDown, Peer: id}})
			}
		case election.Send:
			if n.heard != nil {
				n.heard(*a.Message)
			}
			if !n.lost && n.cores[a.To] != nil {
				n.queue = append(n.queue, arrival{a.To, election.Event{Kind: election.Received, Message: a.Message}})
			}
		case election.Append:
			if id == n.hangs {
				break
			}
			if a.Replace && id == n.full {
				n.queue = append(n.queue, arrival{id, election.Event{Kind: election.Saved, Err: syscall.ENOSPC}})
				break
			}
			if a.Replace {
				n.disks[id] = nil
			}
			n.disks[id] = append(n.disks[id], a.Records...)
			n.queue = append(n.queue, arrival{id, election.Event{Kind: election.Saved}})
		case election.NotifyLost:
			n.cause = a.Cause
		case election.Halt:
			n.halted[id] = a.Err
		case election.Warn:
			n.warned[id] = a.Err
		}
	}
}

// settle lets everything arrive that is under way.
func (n *network) settle() {
	for turns := 0; len(n.queue) > 0; turns++ {
		next := n.queue[0]
		n.queue = n.queue[1:]
		n.step(next.at, next.ev)
		if turns > 10000 {
			n.t.Fatal("they never cease to talk")
		}
	}
}

// run lets time pass.
func (n *network) run(d time.Duration) {
	for end := n.now.Add(d); ; {
		next := end
		for _, id := range n.ids {
			if at, ok := n.cores[id].Deadline(); ok && at.Before(next) {
				next = at
			}
		}
		if !next.Before(end) {
			n.now = end
			return
		}
		n.now = next.Add(time.Microsecond)
		for _, id := range n.ids {
			if at, ok := n.cores[id].Deadline(); ok && !n.now.Before(at) {
				n.step(id, election.Event{Kind: election.Woke})
			}
		}
		n.settle()
	}
}

// leader is the leader, as all report that take part.
func (n *network) leader() election.ID {
	n.t.Helper()
	var t election.Token
	for _, id := range n.ids {
		if v := n.cores[id].View(); n.halted[id] == nil {
			if t.Defined() && t != v || !v.Defined() {
				n.t.Fatalf("member %s has %v for its leader, and another %v", id, v, t)
			}
			t = v
		}
	}
	return t.Leader.ID
}
