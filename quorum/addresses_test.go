package quorum

import (
	"errors"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// A driver dials the last address that it was given. So once a claimed address has been dialed, and the claim is
// dropped, the next dial names the address of the log again.
func TestAClaimedAddressIsDroppedByTheDriverToo(t *testing.T) {
	const listed, claimed = "host-2:7400", "host-9:7400"
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	c, now := n.cores["1"], n.now
	p := c.peer("2")
	at := listed // where the driver dials
	step := func(ev election.Event) {
		now = now.Add(time.Millisecond)
		for _, a := range c.Step(now, ev) {
			if a.Kind == election.Dial && a.To == "2" && a.Address != "" {
				at = a.Address
			}
		}
	}
	claim := func(address string) {
		step(election.Event{Kind: election.JoinAccepted, List: []election.Member{{Rank: election.Rank{ID: "2"}, Number: p.number, Disk: c.diskOf(p.number), Address: address}}})
	}
	step(election.Event{Kind: election.LinkDown, Peer: "2"})
	step(election.Event{Kind: election.DialFailed, Peer: "2"})
	claim(claimed)
	if at != claimed {
		t.Fatalf("the driver dials %s, want the claimed address", at)
	}
	claim(listed)
	step(election.Event{Kind: election.DialFailed, Peer: "2"})
	now = p.redial
	step(election.Event{Kind: election.Woke})
	if at != listed {
		t.Errorf("the driver dials %s, want %s: the claim is dropped", at, listed)
	}
}

// Where a member listened before it moved, its kernel refuses a connection though the member lives.
func TestARefusalProvesNoDeathOfAMemberThatMayHaveMoved(t *testing.T) {
	for _, moved := range []bool{false, true} {
		n := newNetwork(t, "1", "2", "3")
		n.run(3 * time.Second)
		c := n.cores["1"]
		c.algorithm.takeover = TakeoverRefused
		if moved {
			p := c.peer("3")
			p.link = false
			n.step("1", election.Event{Kind: election.JoinAccepted, List: []election.Member{{Rank: p.rank, Number: p.number, Address: "host-9:7400"}}})
		}
		n.lost = true
		n.step("1", election.Event{Kind: election.LinkDown, Peer: "3"})
		for range 2 { // where it listens now, and where the log has it
			n.step("1", election.Event{Kind: election.DialFailed, Peer: "3", Refused: true})
		}
		if waits := !c.patience.IsZero(); waits != moved {
			t.Errorf("moved %v: it waits for the lease: %v", moved, waits)
		}
	}
}

// A process that joins with the id of a member that is received is refused as its double, which
// ends it. Without a live process it is refused for its disk.
func TestAProcessThatJoinsWithTheIDOfALiveMemberIsItsDouble(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	c := n.cores["1"]
	p := c.peer("2")
	e := election.Member{Rank: election.Rank{ID: "2"}, Address: "host-9:7400", Disk: c.diskOf(p.number) + 1}
	if err := c.AdmitJoin(n.now, e, p.incarnation+1); err != election.ErrSameID {
		t.Errorf("%v; want %v", err, election.ErrSameID)
	}
	c.Step(n.now, election.Event{Kind: election.LinkDown, Peer: "2"})
	if err := c.AdmitJoin(n.now, e, p.incarnation+1); err == election.ErrSameID || !errors.Is(err, election.ErrSameID) {
		t.Errorf("%v; want that it has another disk", err)
	}
}
