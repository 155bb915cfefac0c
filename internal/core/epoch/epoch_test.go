package epoch

import (
	"errors"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
)

var (
	errFull = errors.New("no space left")
	self    = election.Rank{ID: "2"}
	start   = time.Unix(1000, 0)
)

func token(epoch uint64, id election.ID) election.Token {
	return election.Token{Epoch: epoch, Leader: election.Rank{ID: id}}
}

func TestNext(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(s *Seen, d *Disk)
		want uint64
	}{
		{"a first start", func(*Seen, *Disk) {}, 1},
		{"another holds an epoch", func(s *Seen, _ *Disk) { s.Receive(7, 7) }, 8},
		{"another has seen a higher claim", func(s *Seen, _ *Disk) { s.Receive(7, 9) }, 10},
		{"a lower epoch", func(s *Seen, _ *Disk) { s.See(9); s.See(4); s.Receive(3, 3) }, 10},
		{"a claim hangs", func(s *Seen, d *Disk) { hang(s, d, 5) }, 6},
		{"a claim that hung reaches the disk", func(s *Seen, d *Disk) { hang(s, d, 5); d.Saved(nil) }, 5},
		{"a claim that hung is refused", func(s *Seen, d *Disk) { hang(s, d, 5); d.Saved(errFull) }, 6},
		{"another claim was made meanwhile", func(s *Seen, d *Disk) { hang(s, d, 5); d.Saved(nil); s.Receive(4, 6) }, 5},
		{"another holds that epoch meanwhile", func(s *Seen, d *Disk) { hang(s, d, 5); d.Saved(nil); s.Receive(5, 5) }, 6},
		{"a higher leadership is on disk", func(s *Seen, d *Disk) {
			hang(s, d, 5)
			d.Saved(nil)
			s.See(6)
			d.Write(token(6, "3"), token(0, ""))
			d.Saved(nil)
		}, 7},
	} {
		s, d := NewSeen(token(0, "")), NewDisk(token(0, ""))
		c.do(&s, &d)
		if got := s.Next(self, token(0, ""), &d); got.Epoch != c.want || got.Leader != self {
			t.Errorf("%s: the next claim is %v, want epoch %d", c.name, got, c.want)
		}
	}
}

// hang has the write of a claim hang, and the claim be dropped.
func hang(s *Seen, d *Disk, epoch uint64) {
	claim := token(epoch, self.ID)
	s.See(epoch)
	d.Write(token(0, ""), claim)
	d.Hang()
	d.Drop(claim)
}

func TestContested(t *testing.T) {
	s := NewSeen(token(3, "1"))
	s.Ask()
	if s.Receive(2, 3); s.Contested() || s.Asked() != 3 {
		t.Error("a known epoch counts as another claim")
	}
	if s.Receive(0, 4); !s.Contested() || s.Asked() != 3 || s.Highest() != 4 {
		t.Error("a higher epoch does not count as another claim")
	}
	if s.Ask(); s.Contested() {
		t.Error("what was seen before all were asked counts as another claim")
	}
	if s.UsedUp() {
		t.Error("the epochs are used up after 4")
	}
	if s.See(election.MaxEpoch); !s.UsedUp() {
		t.Error("there is an epoch above the highest")
	}
}

func TestLimit(t *testing.T) {
	s := NewSeen(token(5, "1"))
	want := uint64(5 + maxLeap)
	if got := s.Limit(start); got != want {
		t.Errorf("the limit is %d, want %d", got, want)
	}
	s.See(want)
	if got := s.Limit(start.Add(leapEvery - 1)); got != want {
		t.Errorf("the limit is %d within the hour, want %d", got, want)
	}
	if got := s.Limit(start.Add(leapEvery)); got != want+maxLeap {
		t.Errorf("the limit is %d in the next hour, want %d", got, want+maxLeap)
	}
	if s.See(election.MaxEpoch); s.Limit(start.Add(2*leapEvery)) != election.MaxEpoch {
		t.Error("the limit is above the highest epoch")
	}
}

func TestHealth(t *testing.T) {
	for _, c := range []struct {
		name                  string
		do                    func(h *Health)
		busy, unusable, unfit bool
	}{
		{"no write", func(*Health) {}, false, false, false},
		{"a write", func(h *Health) { h.Begin() }, true, false, false},
		{"a write hangs", func(h *Health) { h.Begin(); h.Hang() }, true, true, true},
		{"a write is refused", func(h *Health) { h.Begin(); h.End(errFull) }, false, true, true},
		{"a refused disk is tried", func(h *Health) { h.Begin(); h.End(errFull); h.Begin() }, true, true, true},
		{"it works again", func(h *Health) { h.Begin(); h.End(errFull); h.Begin(); h.End(nil); h.Work(false) }, false, false, false},
		{"a write was slow", func(h *Health) { h.Begin(); h.Hang(); h.Work(h.End(nil)) }, false, false, true},
		{"the next is not", func(h *Health) { h.Work(true); h.Begin(); h.Work(h.End(nil)) }, false, false, false},
		{"no member has led", func(h *Health) { h.Work(true); h.Forgive() }, false, false, false},
	} {
		var h Health
		c.do(&h)
		if h.Busy() != c.busy || h.Unusable() != c.unusable || h.Unfit() != c.unfit {
			t.Errorf("%s: busy %v, unusable %v, unfit %v; want %v, %v, %v", c.name, h.Busy(), h.Unusable(), h.Unfit(), c.busy, c.unusable, c.unfit)
		}
	}
}

// Every order of writes, their ends and claims, beside an honest disk: what the record says
// is on disk never falls, and is no more than the disk has; and no claim has an epoch that
// any claim sent before had.
func TestEveryOrder(t *testing.T) {
	type model struct {
		seen   Seen
		disk   Disk
		has    election.Token // of the disk itself
		sent   uint64         // the highest epoch that this member has sent as its own
		view   election.Token // the leadership that it has known last
		next   election.Token // its claim that is being written
		length int
	}
	states := 0
	var walk func(m model, path string)
	do := map[byte]func(m *model){
		'c': func(m *model) { // it claims
			if m.next.Defined() {
				return
			}
			m.next = m.seen.Next(self, m.view, &m.disk)
			if m.next.Epoch <= m.sent {
				panic("an epoch is claimed twice")
			}
			m.seen.See(m.next.Epoch)
		},
		'w': func(m *model) { // it writes
			if !m.disk.Busy() {
				m.disk.Write(m.view, m.next)
			}
		},
		'h': func(m *model) { // the write hangs, and the claim is dropped
			if m.disk.Busy() && m.next.Defined() {
				m.disk.Hang()
				m.disk.Drop(m.next)
				m.next = election.Token{}
			}
		},
		'o': func(m *model) { // the write succeeds
			if m.disk.Busy() {
				m.has = m.disk.Writing()
				m.disk.Work(m.disk.Saved(nil))
			}
		},
		'f': func(m *model) { // it fails, and may have reached the disk
			if m.disk.Busy() {
				m.disk.Saved(errFull)
				m.next = election.Token{}
			}
		},
		't': func(m *model) { // it leads by its claim, which is on disk
			if m.next.Defined() && m.disk.Has(m.next) && !m.disk.Busy() {
				m.sent, m.view, m.next = m.next.Epoch, m.next, election.Token{}
			}
		},
		'r': func(m *model) { // it follows another
			e := m.seen.Highest() + 1
			m.seen.Receive(e, e)
			m.view, m.next = token(e, "3"), election.Token{}
		},
	}
	walk = func(m model, path string) {
		states++
		if m.disk.OnDisk() != m.has {
			t.Fatalf("%s: the record has %v on disk, the disk has %v", path, m.disk.OnDisk(), m.has)
		}
		if m.sent > 0 && m.has.Epoch < m.sent {
			t.Fatalf("%s: epoch %d was sent before it was on disk", path, m.sent)
		}
		if m.length == 7 {
			return
		}
		for _, name := range []byte("cwhoftr") {
			next := m
			next.length++
			func() {
				defer func() {
					if r := recover(); r != nil {
						t.Fatalf("%s%c: %v", path, name, r)
					}
				}()
				do[name](&next)
			}()
			if next.has.Epoch < m.has.Epoch {
				t.Fatalf("%s%c: what is on disk falls from %v to %v", path, name, m.has, next.has)
			}
			if next != (model{seen: m.seen, disk: m.disk, has: m.has, sent: m.sent, view: m.view, next: m.next, length: next.length}) {
				walk(next, path+string(name))
			}
		}
	}
	walk(model{seen: NewSeen(election.Token{}), disk: NewDisk(election.Token{})}, "")
	if states < 1000 {
		t.Errorf("%d states, want more than 1000", states)
	}
	t.Log(states, "states")
}
