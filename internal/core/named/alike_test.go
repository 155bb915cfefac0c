package named

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// What members send to a new coordinator of names that both have alike does not grow with their number.
func TestANewCoordinatorIsToldInFewWords(t *testing.T) {
	c := newLedCluster(t, 5, "5", 1000)
	c.shares(1000)
	c.moved()
	c.bytes = 0
	c.leadAll(2, "4")
	c.run(time.Second)
	c.shares(1000)
	if n := c.moved(); n != 0 {
		t.Errorf("%d leads have begun for another coordinator", n)
	}
	if c.bytes > 1000 {
		t.Errorf("%d bytes of 1000 names that all know alike", c.bytes)
	}
}

// told is what a coordinator has been told by a member, by name.
func (o *office) told(id election.ID) map[string]string {
	all := map[string]string{}
	for name, k := range o.contests.byName {
		if can := k.candidate(o.who(id)); can != nil {
			all[name] = fmt.Sprint(can.held, can.weight, can.seats, can.stands, can.prefer)
		}
		for _, s := range k.seats {
			all[name] += fmt.Sprintf(" of %d: %s %d expected=%v", k.want, s.leader, s.epoch, s.expected)
		}
		all[name] += fmt.Sprintf(" up to %d", k.last)
	}
	return all
}

// A report in few words, of assignments that the coordinator does not have, is not taken; it has
// all told instead.
func TestFewWordsOfOtherAssignmentsAreNotTaken(t *testing.T) {
	c := newLedCluster(t, 3, "3", 6)
	m := c.members["1"]
	for name, h := range m.c.holds { // as if the coordinator's news of it were lost
		c.frame("3", "1", &frame{Op: opAssign, Base: m.c.version, Version: m.c.version + 1, Seats: []Seat{{Name: name, Leader: "2", Epoch: h.epoch + 9}}})
		break
	}
	c.lead(2, "2")
	c.lead(2, "2", "1")
	f, err := decode(c.mail[len(c.mail)-1].Data)
	if err != nil || f.Op != opAlike {
		t.Fatal(f, err)
	}
	o := c.members["2"].c.office
	if o.receive("1", f); o.peers["1"].reported {
		t.Error("it is taken")
	}
	c.lead(2, "2", "3")
	c.run(time.Second)
	c.shares(6)
}

// upset is a cluster of three of which some have done this and that, and 2 has just begun to
// coordinate; 1's report to it is on its way.
func upset(t *testing.T, seed uint64) *cluster {
	r := rand.New(rand.NewPCG(seed, 1))
	c := newLedCluster(t, 3, "3", 12)
	for range 12 {
		m, name := c.members[c.ids[r.IntN(3)]], fmt.Sprintf("shard-%d", r.IntN(14))
		switch r.IntN(8) {
		case 0:
			m.do(m.c.Withdraw(c.now, name))
		case 1:
			m.do(m.c.Resign(c.now, name))
		case 2:
			c.campaign(name, Candidacy{Weight: 1 + r.IntN(2), Seats: 1 + r.IntN(2), Prefer: r.IntN(2) == 0}, m.id)
		case 3:
			m.works[name] = true // its work does not stop
		case 4:
			if h := m.c.holds[name]; h != nil {
				m.c.at(key{name, h.seat}).top += uint64(r.IntN(2)) // it has seen more
			}
		}
		c.run(time.Duration(r.IntN(40)) * time.Millisecond)
	}
	c.lead(2, "2")
	c.lead(2, "2", "1")
	return c
}

// A short report has what one in full has.
func TestFewWordsSayTheSame(t *testing.T) {
	few, shorter := 0, 0
	for seed := range uint64(300) {
		c := upset(t, seed)
		f, err := decode(c.mail[len(c.mail)-1].Data)
		if err != nil {
			t.Fatal(err)
		}
		o := c.members["2"].c.office
		if f.Op != opAlike || f.Digest != o.digest {
			continue
		}
		o.receive("1", f)
		inFewWords := o.told("1")

		c = upset(t, seed)
		m := c.members["1"]
		for _, cl := range f.Claims { // a report clears what it reports as resigned
			m.c.dirty[cl.Name] = cl.Resigned
		}
		m.c.reported--
		m.c.reportAll()
		full, err := decode(m.c.out[len(m.c.out)-1].Message.Data)
		if err != nil || full.Op != opReport {
			t.Fatal(full, err)
		}
		o = c.members["2"].c.office
		o.receive("1", full)
		inFull := o.told("1")
		if few++; len(f.Claims) < len(full.Claims) {
			shorter++
		}
		if len(inFull) != len(inFewWords) {
			t.Errorf("seed %d: %d names, and in few words %d", seed, len(inFull), len(inFewWords))
		}
		for name, is := range inFull {
			if inFewWords[name] != is {
				t.Errorf("seed %d: %s in few words:\n%s\nin full:\n%s", seed, name, inFewWords[name], is)
			}
		}
	}
	if few < 100 || shorter < 100 {
		t.Errorf("of 300 members %d told in few words, %d of which were fewer", few, shorter)
	}
}
