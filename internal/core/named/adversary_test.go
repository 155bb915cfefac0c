package named

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
)

var seeds, first = flag.Int("seeds", 12, "how many runs of random faults"), flag.Uint64("first", 1, "the first seed of those")

// adversary does at random what a cluster must withstand.
type adversary struct {
	*cluster
	*rand.Rand
	leased  bool
	epoch   uint64
	leader  election.ID // none: no member coordinates
	all     []election.ID
	names   []string
	kept    []*election.Message       // that arrive late
	loss    float64                   // of messages
	delay   float64                   // of messages
	lagging map[election.ID]time.Time // members with messages that arrive late, and until when
	tops    map[key]uint64
	used    map[string]map[uint64]bool
	log     []string
}

func newAdversary(t testing.TB, seed uint64, leased bool) *adversary {
	a := &adversary{cluster: newCluster(t, 5), Rand: rand.New(rand.NewPCG(seed, 7)), leased: leased, names: []string{"a", "b", "c", "d"}, tops: map[key]uint64{}, used: map[string]map[uint64]bool{}}
	a.all = slices.Clone(a.ids)
	a.begins = a.began
	for _, m := range a.members {
		a.prepare(m)
	}
	a.loses = a.carry
	for _, id := range a.all {
		for _, name := range a.names {
			a.stands(a.members[id], name)
		}
	}
	a.elect("5")
	return a
}

func (a *adversary) prepare(m *tester) {
	m.c.partBytes = 100
	if a.leased {
		m.c.leased, m.c.hold = true, m.c.wait*99/100
	}
	m.c.trace = func(r election.Record) {
		a.log = append(a.log, fmt.Sprintf("%v %s: %s %s %s %v (%s)", r.At.Sub(time.Unix(0, 0)), m.id, r.What, r.Election, r.Peer, r.Token, r.Why))
	}
}

func (a *adversary) note(format string, args ...any) {
	a.log = append(a.log, fmt.Sprintf("%v ", a.now.Sub(time.Unix(0, 0)))+fmt.Sprintf(format, args...))
}

// began checks a leadership that begins.
func (a *adversary) began(m *tester, ch Change) {
	a.note("%s begins %s %d %v", m.id, ch.Name, ch.Seat, ch.Token)
	if !a.leased {
		return
	}
	k := key{ch.Name, ch.Seat}
	if ch.Token.Epoch <= a.tops[k] {
		a.t.Errorf("%v: %s leads %v as %v after %d", a.now.Sub(time.Unix(0, 0)), m.id, k, ch.Token, a.tops[k])
	}
	a.tops[k] = ch.Token.Epoch
	if a.used[ch.Name] == nil {
		a.used[ch.Name] = map[uint64]bool{}
	}
	if a.used[ch.Name][ch.Token.Epoch] {
		a.t.Errorf("%s leads %v as %v twice", m.id, k, ch.Token)
	}
	a.used[ch.Name][ch.Token.Epoch] = true
	for id, other := range a.members {
		h := other.c.holds[ch.Name]
		if id == m.id || other.dead || h == nil || h.lapsed || h.seat != ch.Seat || !a.now.Before(other.c.Until()) {
			continue
		}
		a.t.Errorf("%v: %s leads %v as %v and %s holds it under %d (over %v, works %v) for %v", a.now.Sub(time.Unix(0, 0)), m.id, k, ch.Token, id, h.epoch, h.over, h.working, other.c.Until().Sub(a.now))
	}
}

func (a *adversary) some() *tester { return a.members[a.all[a.IntN(len(a.all))]] }

func (a *adversary) carry(m *election.Message) (lost bool) {
	switch {
	case a.Float64() < a.loss:
		return true
	case a.now.Before(a.lagging[m.From]):
		a.kept = append(a.kept, m)
		return true
	case a.Float64() < a.delay:
		a.kept = append(a.kept, m)
		return true
	case a.Float64() < a.delay/4: // twice
		a.kept = append(a.kept, m)
	}
	return false
}

// release has late messages arrive.
func (a *adversary) release() {
	n := len(a.kept)
	for _, m := range a.kept[:n] {
		a.arrivesAt(m, a.now.Add(time.Millisecond))
	}
	a.kept = a.kept[n:]
}

// depose ends the present coordinator's time.
func (a *adversary) depose() {
	if a.leader == election.None {
		return
	}
	m := a.members[a.leader]
	a.note("deposes %s", a.leader)
	switch {
	case m.dead:
	case a.IntN(2) == 0:
		m.step(election.Event{Kind: election.Resigned})
	default:
		m.view, m.nextBeat = election.Token{}, time.Time{}
		m.step(election.Event{Kind: election.Woke})
	}
	a.leader = election.None
}

// elect has a member coordinate; some members follow it later.
func (a *adversary) elect(id election.ID) {
	a.depose()
	a.epoch += 1 + uint64(a.IntN(5)/4)
	a.leader = id
	var now []election.ID
	for _, other := range a.ids {
		if other != id && !a.members[other].dead && a.IntN(4) > 0 {
			now = append(now, other)
		}
	}
	a.note("elects %s, epoch %d, followed by %v", id, a.epoch, now)
	a.lead(a.epoch, id, now...)
}

// follow has all follow the coordinator.
func (a *adversary) follow() {
	if a.leader == election.None {
		return
	}
	t := a.members[a.leader].view
	for _, id := range a.ids {
		if m := a.members[id]; !m.dead && m.view != t {
			m.view = t
			m.step(election.Event{Kind: election.Woke})
		}
	}
}

func (a *adversary) restart(id election.ID) {
	a.note("restarts %s", id)
	if a.leader == id {
		a.leader = election.None
	}
	old := a.members[id]
	old.dead = true
	m := a.cluster.start(id)
	a.prepare(m)
	m.standing = old.standing
	for _, other := range a.ids {
		if o := a.members[other]; !o.dead && other != id {
			o.step(election.Event{Kind: election.LinkUp, Peer: id, Incarnation: m.life})
		}
	}
	if a.IntN(2) == 0 { // else the others do not see that it was down
		for _, other := range a.ids {
			if o := a.members[other]; !o.dead && other != id {
				o.step(election.Event{Kind: election.PeerDown, Peer: id})
				o.step(election.Event{Kind: election.PeerUp, Peer: id})
			}
		}
	}
	for _, name := range a.names {
		if a.IntN(3) > 0 {
			a.stands(m, name)
		}
	}
}

func (a *adversary) stands(m *tester, name string) {
	if m.dead {
		return
	}
	how := Candidacy{Weight: 1 + a.IntN(3), Prefer: a.IntN(6) == 0, Seats: 1}
	if name == "c" || name == "d" {
		how.Seats = 1 + a.IntN(3)
	}
	a.note("%s stands for %s %+v", m.id, name, how)
	m.do(m.c.Campaign(a.now, Stand{name, how}))
}

func (a *adversary) stopAll(m *tester) {
	for _, name := range slices.Sorted(maps.Keys(m.working)) {
		if _, leads := m.leads[name]; !leads {
			m.stops(name)
		}
	}
}

// fault has something fail, or ends that.
func (a *adversary) fault() {
	m, other := a.some(), a.some()
	switch a.IntN(22) {
	case 0, 1, 2:
		if !m.dead && a.knows(m.id) {
			a.elect(m.id)
		}
	case 3:
		a.depose()
	case 4:
		a.follow()
	case 5:
		a.kill(m)
	case 6:
		a.restart(m.id)
	case 7:
		a.note("cuts %s %s", m.id, other.id)
		a.cut[[2]election.ID{m.id, other.id}] = true
		if a.IntN(2) == 0 {
			a.cut[[2]election.ID{other.id, m.id}] = true
		}
	case 8:
		clear(a.cut)
	case 9:
		a.release()
	case 10:
		a.list(m)
	case 11:
		a.loss, a.delay = float64(a.IntN(3))*0.1, float64(a.IntN(3))*0.05
	case 12:
		a.electTwice(m, other)
	case 13:
		a.reconnect(m, other)
	case 14:
		a.transferAndLose(m, other)
	case 15:
		a.stall(m)
	case 16:
		a.acknowledgeLate(m)
	case 17:
		a.drainWhile(m, other)
	case 18:
		a.handOverAndStall(m, other)
	case 19:
		a.loseAndChange(m)
	case 20:
		a.drainByForce(m)
	case 21:
		a.thereAndBack(m, other)
	}
}

// drainWhile has the coordinator drained while a seat is transferred to it, or away from it.
func (a *adversary) drainWhile(m, other *tester) {
	if a.leader == election.None || m.dead {
		return
	}
	a.request(m, Request{Do: DoTransfer, Name: a.names[a.IntN(len(a.names))], Member: []election.ID{a.leader, other.id}[a.IntN(2)]})
	a.run(time.Duration(a.Int64N(int64(5 * time.Millisecond))))
	a.request(m, Request{Do: DoDrain, Member: a.leader, Force: a.IntN(2) == 0})
	a.run(time.Duration(a.Int64N(int64(5 * time.Millisecond))))
	if a.IntN(2) == 0 {
		a.elect(a.some().id)
	}
}

// handOverAndStall has a seat handed over while its leader, its next leader or the coordinator is stopped for longer than T.
func (a *adversary) handOverAndStall(m, to *tester) {
	if m.dead {
		return
	}
	name := a.names[a.IntN(len(a.names))]
	a.request(m, Request{Do: DoTransfer, Name: name, Member: to.id})
	a.run(time.Duration(a.Int64N(int64(5 * time.Millisecond))))
	stopped := []*tester{to}
	if a.leader != election.None && a.IntN(2) == 0 {
		stopped = append(stopped, a.members[a.leader])
	}
	for _, id := range a.all {
		if _, leads := a.members[id].leads[name]; leads && a.IntN(2) == 0 {
			stopped = append(stopped, a.members[id])
		}
	}
	for _, s := range stopped {
		s.stalledUntil = a.now.Add(s.c.timing.T() + time.Duration(a.Int64N(int64(2*time.Second))))
		a.note("%s stalls until %v", s.id, s.stalledUntil.Sub(time.Unix(0, 0)))
	}
}

// loseAndChange has members begin and end candidacies while none coordinates.
func (a *adversary) loseAndChange(next *tester) {
	if a.leader != election.None {
		if lost := a.members[a.leader]; a.IntN(2) == 0 {
			a.kill(lost)
		} else {
			a.depose()
		}
	}
	for range 1 + a.IntN(6) {
		m, name := a.some(), a.names[a.IntN(len(a.names))]
		switch {
		case m.dead:
		case a.IntN(2) == 0:
			a.stands(m, name)
		default:
			a.note("%s withdraws %s", m.id, name)
			m.do(m.c.Withdraw(a.now, name))
		}
		a.run(time.Duration(a.Int64N(int64(100 * time.Millisecond))))
	}
	if !next.dead && a.knows(next.id) {
		a.elect(next.id)
	}
}

// drainByForce has a member drained first without, then by force; a different member coordinates at once.
func (a *adversary) drainByForce(m *tester) {
	if a.leader == election.None {
		return
	}
	by := a.members[a.leader]
	for _, force := range []bool{false, true} {
		a.request(by, Request{Do: DoDrain, Member: m.id, Force: force})
		a.run(time.Duration(a.Int64N(int64(200 * time.Millisecond))))
	}
}

// thereAndBack has a different member coordinate for less than T, and the same as before after it.
func (a *adversary) thereAndBack(m, other *tester) {
	before := a.leader
	for _, id := range []election.ID{m.id, other.id, before} {
		if id != election.None && !a.members[id].dead && a.knows(id) {
			a.elect(id)
			a.run(time.Duration(a.Int64N(int64(m.c.timing.T() / 3))))
			if a.IntN(2) == 0 {
				a.follow()
			}
		}
	}
}

// electTwice has two members coordinate within a heartbeat.
func (a *adversary) electTwice(m, other *tester) {
	for _, next := range []*tester{m, other} {
		if !next.dead && a.knows(next.id) {
			a.elect(next.id)
			a.run(time.Duration(a.Int64N(int64(beatTime))))
		}
	}
	a.follow()
}

// reconnect has a connection end and begin; the processes are the same.
func (a *adversary) reconnect(m, other *tester) {
	if m == other || m.dead || other.dead {
		return
	}
	a.note("reconnects %s and %s", m.id, other.id)
	m.step(election.Event{Kind: election.LinkUp, Peer: other.id, Incarnation: other.life})
	other.step(election.Event{Kind: election.LinkUp, Peer: m.id, Incarnation: m.life})
}

// transferAndLose has a seat transferred to a member that leaves, dies or starts again at once.
func (a *adversary) transferAndLose(m, to *tester) {
	if m.dead || to.dead {
		return
	}
	a.request(m, Request{Do: DoTransfer, Name: a.names[a.IntN(len(a.names))], Member: to.id})
	a.run(time.Duration(a.Int64N(int64(5 * time.Millisecond))))
	switch a.IntN(4) {
	case 0:
		if a.knows(to.id) {
			a.list(to)
		}
	case 1:
		a.kill(to)
	case 2:
		a.restart(to.id)
	case 3:
		a.note("%s withdraws all", to.id)
		to.do(to.c.Withdraw(a.now, a.names...))
	}
}

// stall has a process stop for a while. What is sent to it meanwhile waits; its clock may be set ahead, too.
func (a *adversary) stall(m *tester) {
	if m.dead {
		return
	}
	most := []time.Duration{200 * time.Millisecond, time.Second, 4 * time.Second}[a.IntN(3)]
	m.stalledUntil = a.now.Add(time.Duration(a.Int64N(int64(most))))
	a.note("%s stalls until %v", m.id, m.stalledUntil.Sub(time.Unix(0, 0)))
}

// acknowledgeLate keeps what a member sends to the coordinator for a while.
func (a *adversary) acknowledgeLate(m *tester) {
	if a.leader == election.None || m.id == a.leader {
		return
	}
	a.note("%s acknowledges late", m.id)
	a.lagging = map[election.ID]time.Time{m.id: a.now.Add(time.Duration(a.Int64N(int64(2 * time.Second))))}
}

// kill ends a process; most of the others detect it.
func (a *adversary) kill(m *tester) {
	a.note("kills %s", m.id)
	if a.leader == m.id {
		a.leader = election.None
	}
	m.dead = true
	for _, id := range a.ids {
		if o := a.members[id]; !o.dead && a.IntN(3) > 0 {
			o.step(election.Event{Kind: election.PeerDown, Peer: m.id})
		}
	}
}

// list removes a member from the list, or adds it again.
func (a *adversary) list(m *tester) {
	switch {
	case m.id == a.leader:
	case !a.knows(m.id):
		a.note("adds %s", m.id)
		a.ids = slices.Sorted(slices.Values(append(slices.Clone(a.ids), m.id)))
		m.view = election.Token{}
		if a.IntN(2) == 0 {
			a.restart(m.id)
		}
	case len(a.ids) > 2:
		a.note("removes %s", m.id)
		a.ids = slices.DeleteFunc(slices.Clone(a.ids), func(id election.ID) bool { return id == m.id })
	}
}

// act has a member, or its user, do something.
func (a *adversary) act() {
	m, other := a.some(), a.some()
	name := a.names[a.IntN(len(a.names))]
	if m.dead {
		return
	}
	switch a.IntN(8) {
	case 0:
		a.stands(m, name)
	case 1:
		a.note("%s withdraws %s", m.id, name)
		m.do(m.c.Withdraw(a.now, name))
	case 2:
		a.note("%s resigns %s", m.id, name)
		m.do(m.c.Resign(a.now, name))
	case 3, 4:
		a.request(m, Request{Do: DoTransfer, Name: name, Member: other.id})
	case 5:
		a.request(m, Request{Do: []string{DoDrain, DoUndrain}[a.IntN(2)], Member: other.id, Force: a.IntN(2) == 0})
	case 6:
		m.works[name] = !m.works[name]
		a.stopAll(m)
	case 7:
		m.standing = []election.Eligibility{election.Eligible, election.IneligibleUnhealthy}[a.IntN(2)]
		m.step(election.Event{Kind: election.Woke})
	}
}

func (a *adversary) knows(id election.ID) bool { return slices.Contains(a.ids, id) }

func (a *adversary) request(m *tester, r Request) {
	a.note("%s asks %+v", m.id, r)
	_, actions := m.c.Request(a.now, r)
	m.do(actions)
}

// settle ends all faults, and checks what has to hold then.
func (a *adversary) settle() {
	a.note("settles")
	a.loss, a.delay, a.loses, a.lagging = 0, 0, nil, nil
	clear(a.cut)
	a.release()
	a.ids = slices.Clone(a.all)
	for _, id := range a.all {
		m := a.members[id]
		m.standing = election.Eligible
		if m.dead {
			a.restart(id)
			m = a.members[id]
		}
		m.down, m.stalledUntil = map[election.ID]bool{}, time.Time{}
		m.works = map[string]bool{}
	}
	for _, id := range a.all {
		m := a.members[id]
		for _, other := range a.all {
			if other != id {
				m.step(election.Event{Kind: election.PeerUp, Peer: other})
			}
		}
		a.stopAll(m)
	}
	if a.leader == election.None {
		a.elect(a.some().id)
	}
	a.follow()
	a.run(30 * time.Second)
	a.check()
	a.rests()
}

// rests checks that nothing is to be moved: each change was looked at.
func (a *adversary) rests() {
	for _, m := range a.members {
		m.moves = 0
	}
	o := a.members[a.leader].c.office
	o.uneven = true
	for _, k := range o.contests.byName {
		o.lookAt(k)
	}
	a.run(5 * time.Second)
	if n := a.moved(); n > 0 {
		a.t.Errorf("%d leaderships begin when all is looked at again", n)
	}
}

// check checks that as many members lead each name as can, and that all members have that alike.
func (a *adversary) check() {
	seen := 0
	for _, name := range a.names {
		seen += a.checkName(name)
	}
	for _, id := range a.all {
		m := a.members[id]
		n := 0
		for _, t := range m.seen {
			if t.Defined() {
				n++
			}
		}
		if n != seen {
			a.t.Errorf("%s sees %d seats led, and %d are", id, n, seen)
		}
		if len(m.c.dirty) > 0 || m.c.leading != len(m.c.holds) || !m.c.retryAt.IsZero() {
			a.t.Errorf("%s: to be reported %v, it leads %d of %d, and reports again at %v", id, m.c.dirty, m.c.leading, len(m.c.holds), m.c.retryAt)
		}
	}
	a.checkBooks()
}

func (a *adversary) checkName(name string) (led int) {
	drained, want := a.members[a.leader].c.Drained(), 0
	var can, leads []election.ID
	for _, id := range a.all {
		m := a.members[id]
		if how, stands := m.c.campaigns[name]; stands {
			if want = max(want, how.Seats); !slices.Contains(drained, id) {
				can = append(can, id)
			}
		}
		if _, is := m.leads[name]; is {
			leads = append(leads, id)
		}
	}
	if least := min(want, len(can)); len(leads) < least || len(leads) > want {
		a.t.Errorf("%s is led by %v, and has %d seats and candidates %v; drained: %v", name, leads, want, can, drained)
	}
	for _, id := range leads {
		l, seat := a.members[id].leads[name], a.members[id].c.holds[name].seat
		for _, other := range a.all {
			if sees := a.members[other].seen[key{name, seat}]; sees != l {
				a.t.Errorf("%s sees %v lead seat %d of %s, and %v does", other, sees, seat, name, l)
			}
		}
	}
	return len(leads)
}

// checkBooks checks the coordinator's counts.
func (a *adversary) checkBooks() {
	o := a.members[a.leader].c.office
	leads, load, names, moving := map[*peer]int{}, map[*peer]int{}, map[*peer]int{}, 0
	for _, k := range o.contests.byName {
		for _, s := range k.seats {
			if s.leader != election.None {
				leads[o.who(s.leader)]++
			}
			if s.charged != nil {
				load[s.charged] += k.weight
			}
			if !s.asked.IsZero() {
				moving++
			}
			if s.expected {
				a.t.Errorf("%s %d of %s is expected", k.name, s.index, s.leader)
			}
		}
		for _, can := range k.candidates {
			if can.stands {
				names[can.of]++
			}
		}
	}
	if moving != o.moving {
		a.t.Errorf("moving %d, counted %d", moving, o.moving)
	}
	for _, p := range append(slices.Collect(maps.Values(o.peers)), o.me) {
		if p.leads != leads[p] || p.load != load[p] || p.names != names[p] {
			a.t.Errorf("books of %s: leads %d load %d names %d; counted %d %d %d", p.id, p.leads, p.load, p.names, leads[p], load[p], names[p])
		}
	}
	if !o.settled {
		a.t.Error("not settled")
	}
	for id, m := range a.members {
		if !maps.Equal(m.c.drained, o.drained) {
			a.t.Errorf("%s has %v drained, coordinator %v", id, m.c.drained, o.drained)
		}
		if m.c.digest != o.digest || m.c.version != o.version {
			a.t.Errorf("%s has version %d, coordinator %d", id, m.c.version, o.version)
		}
	}
}

// Random faults and requests: frames are lost, late and doubled, processes and coordinators end, and the list of members
// changes. Under a lease no member leads a seat that another may still hold. When the faults have ended every name is
// led, and the coordinator's counts are right.
func TestRandomFaults(t *testing.T) {
	for seed := range uint64(*seeds) {
		for _, leased := range []bool{true, false} {
			t.Run(fmt.Sprintf("seed %d, leased %v", *first+seed, leased), func(t *testing.T) {
				a := newAdversary(t, *first+seed, leased)
				for range 60 {
					most := []time.Duration{time.Millisecond, 20 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second}[a.IntN(4)]
					a.run(time.Duration(a.Int64N(int64(most))))
					if a.IntN(2) == 0 {
						a.act()
					} else {
						a.fault()
					}
				}
				a.settle()
				if t.Failed() && testing.Verbose() {
					t.Log(strings.Join(a.log, "\n"))
				}
			})
		}
	}
}
