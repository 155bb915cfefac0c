package named

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
)

// cluster is members whose own cores are told who leads; what they send arrives after
// 1 ms, in order.
type cluster struct {
	t       testing.TB
	now     time.Time
	members map[election.ID]*tester
	ids     []election.ID
	mail    []*election.Message
	due     []time.Time
	cut     map[[2]election.ID]bool
	loses   func(*election.Message) bool // nil: no message
	bytes   int
	led     map[key]election.Token // the last token that a member has led each seat under
	begins  func(*tester, Change)  // nil: tokens are to rise
}

// tester is one member.
type tester struct {
	machine.Core
	*cluster
	id       election.ID
	c        *Core
	view     election.Token
	nextBeat time.Time
	standing election.Eligibility
	down     map[election.ID]bool
	dead     bool
	life     uint64
	works    map[string]bool // names whose work does not stop when it is told to
	leads    map[string]election.Token
	working  map[string]bool
	seen     map[key]election.Token
	moves    int
	most     int // that have begun in a step
	replies  []Reply

	stepsDown    int       // how often it was asked to
	stalledUntil time.Time // it does nothing until then

	received election.ID // the sender of the last frame, as its core receives that
}

const beatTime = 100 * time.Millisecond

func newCluster(t testing.TB, n int) *cluster {
	c := &cluster{t: t, now: time.Unix(0, 0), members: map[election.ID]*tester{}, cut: map[[2]election.ID]bool{}, led: map[key]election.Token{}}
	for i := range n {
		c.ids = append(c.ids, election.ID(fmt.Sprint(i+1)))
	}
	for _, id := range c.ids {
		c.start(id)
	}
	return c
}

// newLedCluster is one of n in which coordinator leads epoch 1, and all have stood for some names for a second.
func newLedCluster(t testing.TB, n int, coordinator election.ID, names int) *cluster {
	c := newCluster(t, n)
	c.leadAll(1, coordinator)
	c.names(names)
	c.run(time.Second)
	return c
}

func (c *cluster) start(id election.ID) *tester {
	life := uint64(1)
	if old := c.members[id]; old != nil {
		life = old.life + 1
	}
	m := &tester{cluster: c, id: id, life: life, down: map[election.ID]bool{}, works: map[string]bool{}, leads: map[string]election.Token{}, working: map[string]bool{}, seen: map[key]election.Token{}}
	m.c = New(m, machine.Config{Incarnation: life}, PartBytes)
	c.members[id] = m
	m.step(election.Event{Kind: election.Started})
	return m
}

func (m *tester) Self() election.Rank            { return election.Rank{ID: m.id} }
func (m *tester) Standing() election.Eligibility { return m.standing }
func (m *tester) View() election.Token           { return m.view }
func (m *tester) Highest() uint64                { return m.view.Epoch }
func (m *tester) Knows(id election.ID) bool {
	return slices.Contains(m.ids, id)
}
func (m *tester) Members() (list []machine.MemberView) {
	for _, id := range m.ids {
		v := machine.MemberView{State: election.StateUp}
		v.ID = id
		if m.down[id] {
			v.State = election.StateDown
		}
		list = append(list, v)
	}
	return list
}
func (m *tester) AdmitTransfer(to election.ID) error {
	switch {
	case !m.Knows(to):
		return election.ErrNotMember
	case m.view.Leader.ID != m.id:
		return election.ErrNotLeading
	case m.down[to]:
		return fmt.Errorf("member %s %w", to, election.ErrUnfit)
	}
	return nil
}
func (m *tester) Deadline() (time.Time, bool) { return m.nextBeat, !m.nextBeat.IsZero() }

// Step is that of the member's own core.
func (m *tester) Step(now time.Time, ev election.Event) (out []election.Action) {
	switch {
	case ev.Kind == election.Woke && ev.Peer != election.None:
		m.received = ev.Peer
	case ev.Kind == election.Resigned, ev.Kind == election.Transfer:
		m.stepsDown++
		for _, id := range m.ids {
			if id != m.id {
				out = append(out, election.Action{Kind: election.Send, To: id, Message: &election.Message{Kind: election.Resign, Election: "default", From: m.id, To: id, Token: m.view}})
			}
		}
		m.view, m.nextBeat = election.Token{}, time.Time{}
	case ev.Kind == election.PeerDown:
		m.down[ev.Peer] = true
		out = append(out, election.Action{Kind: election.Notify, Member: ev.Peer, Status: election.StateDown})
	case ev.Kind == election.PeerUp:
		delete(m.down, ev.Peer)
		out = append(out, election.Action{Kind: election.Notify, Member: ev.Peer, Status: election.StateUp})
	case ev.Kind == election.Received && ev.Message.Kind == election.Beat && ev.Message.Token == m.view:
		out = append(out, election.Action{Kind: election.Send, To: ev.Message.From, Message: &election.Message{Kind: election.Ack, From: m.id, To: ev.Message.From, Token: m.view}})
	}
	if m.view.Leader.ID == m.id && !now.Before(m.nextBeat) {
		m.nextBeat = now.Add(beatTime)
		for _, id := range m.ids {
			if id != m.id {
				out = append(out, election.Action{Kind: election.Send, To: id, Message: &election.Message{Kind: election.Beat, From: m.id, To: id, Token: m.view, Stamp: int64(now.Sub(time.Unix(0, 0)))}})
			}
		}
	}
	return out
}

func (m *tester) step(ev election.Event) { m.do(m.c.Step(m.now, ev)) }

// do does what a step asks for, and what a user's work does then.
func (m *tester) do(actions []election.Action) {
	changes := slices.Clone(m.c.Changes())
	m.replies = append(m.replies, m.c.Replies()...)
	for _, a := range actions {
		if a.Kind == election.Send && !m.dead {
			m.bytes += len(a.Message.Data)
			if !m.cut[[2]election.ID{m.id, a.To}] && (m.loses == nil || !m.loses(a.Message)) {
				m.arrivesAt(a.Message, m.now.Add(time.Millisecond))
				if a.Message.To != a.To {
					m.t.Fatalf("%s sends to %s what is for %s", m.id, a.To, a.Message.To)
				}
			}
		}
	}
	begun := 0
	for _, ch := range changes {
		if !ch.Lost && ch.Token.Leader.ID == m.id {
			begun++
		}
		m.change(ch)
	}
	m.most = max(m.most, begun)
}

func (m *tester) change(ch Change) {
	k := key{ch.Name, ch.Seat}
	if ch.Gone && !ch.Lost && !m.seen[k].Defined() {
		return
	}
	if ch.Lost != m.seen[k].Defined() || ch.Lost && ch.Token != m.seen[k] {
		m.t.Fatalf("%s is told %+v after %v", m.id, ch, m.seen[k])
	}
	m.seen[k] = ch.Token
	if ch.Lost {
		m.seen[k] = election.Token{}
	}
	if ch.Token.Leader.ID != m.id {
		return
	}
	if ch.Lost {
		delete(m.leads, ch.Name)
		if m.working[ch.Name] && !m.works[ch.Name] {
			m.stops(ch.Name)
		}
		return
	}
	m.moves++
	if m.begins != nil {
		m.begins(m, ch)
	} else if !ch.Token.Above(m.led[k]) && ch.Seat == 0 && len(m.c.campaigns) > 0 && m.c.campaigns[ch.Name].Seats == 1 {
		m.t.Errorf("%s leads %s as %v after %v", m.id, ch.Name, ch.Token, m.led[k])
	}
	m.led[k] = ch.Token
	m.leads[ch.Name] = ch.Token
	m.working[ch.Name] = true
	m.do(m.c.Begin(m.now, []string{ch.Name}))
}

func (m *tester) stops(name string) {
	delete(m.working, name)
	m.do(m.c.Stopped(m.now, []string{name}))
}

// lead has members follow one, as a leader elected under that epoch.
func (c *cluster) lead(epoch uint64, leader election.ID, followers ...election.ID) {
	for _, id := range append([]election.ID{leader}, followers...) {
		m := c.members[id]
		m.view = election.Token{Epoch: epoch, Leader: election.Rank{ID: leader}}
		m.nextBeat = time.Time{}
		if id == leader {
			m.nextBeat = c.now
		}
		if !m.dead {
			m.step(election.Event{Kind: election.Woke})
		}
	}
}

// leadAll has all the living follow the leader.
func (c *cluster) leadAll(epoch uint64, leader election.ID) {
	var others []election.ID
	for _, id := range c.ids {
		if id != leader && !c.members[id].dead {
			others = append(others, id)
		}
	}
	c.lead(epoch, leader, others...)
}

// crash ends a member; those who live see it at once.
func (c *cluster) crash(id election.ID) {
	c.members[id].dead = true
	for _, other := range c.ids {
		if m := c.members[other]; !m.dead {
			m.step(election.Event{Kind: election.PeerDown, Peer: id})
		}
	}
}

func (c *cluster) campaign(name string, how Candidacy, ids ...election.ID) {
	how, err := how.Check()
	if err != nil {
		c.t.Fatal(err)
	}
	for _, id := range ids {
		m := c.members[id]
		m.do(m.c.Campaign(c.now, Stand{name, how}))
	}
}

// run lets time pass.
func (c *cluster) run(d time.Duration) {
	end := c.now.Add(d)
	for woken := 0; ; woken++ {
		at := end
		var next *tester
		for _, id := range c.ids {
			m := c.members[id]
			due, ok := m.c.Deadline()
			if due.Before(m.stalledUntil) {
				due = m.stalledUntil
			}
			if ok && !m.dead && due.Before(at) {
				at, next = due, m
			}
		}
		arrives := len(c.due) > 0 && !c.due[0].After(at)
		switch {
		case arrives:
			c.now, woken = c.due[0], 0
			msg := c.mail[0]
			c.mail, c.due = c.mail[1:], c.due[1:]
			if until := c.members[msg.To].stalledUntil; c.now.Before(until) {
				c.arrivesAt(msg, until)
				continue
			}
			if m := c.members[msg.To]; !m.dead {
				m.step(election.Event{Kind: election.Received, Message: msg})
			}
		case next == nil:
			c.now = end
			return
		default:
			if at.After(c.now) {
				c.now, woken = at, 0
			}
			if woken > 10_000 {
				c.t.Fatal("a member wakes again and again at one moment")
			}
			next.step(election.Event{Kind: election.Woke})
		}
	}
}

// arrivesAt has a message arrive then, after those that are due before.
func (c *cluster) arrivesAt(msg *election.Message, at time.Time) {
	i := len(c.due)
	for ; i > 0 && c.due[i-1].After(at); i-- {
	}
	c.mail, c.due = slices.Insert(c.mail, i, msg), slices.Insert(c.due, i, at)
}

// names makes so many, and makes all members candidates of them.
func (c *cluster) names(n int) {
	for i := range n {
		c.campaign(fmt.Sprintf("shard-%d", i), Candidacy{}, c.ids...)
	}
}

// shares is how many names each of the living leads; every name is led once, as every
// member sees it.
func (c *cluster) shares(names int) map[election.ID]int {
	c.t.Helper()
	shares, leaders := map[election.ID]int{}, map[string]election.Token{}
	for _, id := range c.ids {
		m := c.members[id]
		if m.dead {
			continue
		}
		shares[id] = len(m.leads)
		for name, t := range m.leads {
			if other, twice := leaders[name]; twice {
				c.t.Errorf("%s is led as %v and %v", name, other, t)
			}
			leaders[name] = t
		}
	}
	if len(leaders) != names {
		c.t.Errorf("%d of %d names are led", len(leaders), names)
	}
	for _, id := range c.ids {
		m := c.members[id]
		for name, t := range leaders {
			if !m.dead && m.seen[key{name, 0}] != t {
				c.t.Errorf("%s sees %v lead %s, and %v does", id, m.seen[key{name, 0}], name, t)
			}
		}
	}
	return shares
}

// even reports whether no share is more than one above another.
func even(shares map[election.ID]int) bool {
	low, high := 1<<30, 0
	for _, n := range shares {
		low, high = min(low, n), max(high, n)
	}
	return high-low <= 1
}

// moves counts how many leads have begun, and begins the count anew.
func (c *cluster) moved() (n int) {
	for _, m := range c.members {
		n, m.moves = n+m.moves, 0
	}
	return n
}
