package batuta

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/election/ring"
	"github.com/batuta-dev/batuta/internal/net/wire"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
	"github.com/batuta-dev/batuta/internal/testkit/stalltest"
)

// joins has a member know nothing but the addresses of others.
func joins(c *cluster, through ...ID) func(*Config) {
	return func(cfg *Config) {
		cfg.Peers, cfg.Bootstrap = nil, true
		for _, id := range through {
			i, _ := strconv.Atoi(string(id))
			cfg.Join = append(cfg.Join, c.members[i-1].Addr)
		}
	}
}

// lists waits until every living member lists exactly ids.
func (c *cluster) lists(ids ...ID) {
	c.t.Helper()
	for id, n := range c.nodes {
		for range n.eventsUntil(c.t) {
			if slices.Equal(membersOf(n), ids) {
				break
			}
		}
		if got := membersOf(n); !slices.Equal(got, ids) {
			c.t.Fatalf("member %s lists %v, want %v; trace:\n%s", id, got, ids, story(n))
		}
	}
}

// eventsUntil yields at every event, at once and at the end of the patience.
func (n *Node) eventsUntil(t *testing.T) func(func() bool) {
	return func(yield func() bool) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for range n.Events(ctx) {
			if !yield() {
				return
			}
		}
	}
}

func membersOf(n *Node) (ids []ID) {
	for _, m := range statusOf(n).Members {
		ids = append(ids, m.ID)
	}
	slices.SortFunc(ids, ID.Compare)
	return ids
}

func TestANewcomerJoinsWithOneAddress(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 3)
		c.start("1", joins(c))
		c.agree("1")
		c.start("2", joins(c, "1"))
		c.agree("2")
		c.start("3", joins(c, "1"))
		c.agree("3")
		c.lists("1", "2", "3")
		c.kill("3")
		c.agree("2")
	})
}

func TestAllJoinEachOtherAtOnce(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 5)
		c.startAll(joins(c, "1", "2", "3", "4", "5"))
		c.lists("1", "2", "3", "4", "5")
		c.agree("5")
	})
}

func TestANewcomerNeverLeadsBeforeItKnowsTheLeader(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 2)
		c.start("2", joins(c))
		c.agree("2")
		n := c.start("1", joins(c, "2"))
		c.agree("2")
		hasNotClaimed(t, n)
	})
}

func hasNotClaimed(t *testing.T, n *Node) {
	t.Helper()
	for _, r := range n.Trace() {
		if r.What == "claims" {
			t.Errorf("it claimed: %s", story(n))
		}
	}
}

func TestARemovedMemberIsToldAndRefused(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 3)
		c.startAll()
		c.agree("3")
		if err := c.nodes["1"].RemoveMember(t.Context(), "3"); err != nil {
			t.Fatal(err)
		}
		gone := c.nodes["3"]
		wait(t, "the removed member ends", gone.Done())
		if err := gone.Err(); !errors.Is(err, ErrRemoved) || errors.Is(err, ErrConfig) {
			t.Fatalf("it ends with %v, want %v", err, ErrRemoved)
		}
		delete(c.nodes, "3")
		c.agree("2")
		c.lists("1", "2")

		c.rebind("3")
		again := c.start("3")
		wait(t, "it is refused", again.Done())
		if !errors.Is(again.Err(), ErrRemoved) {
			t.Fatalf("it ends with %v, want %v", again.Err(), ErrRemoved)
		}
		delete(c.nodes, "3")

		if err := c.nodes["2"].AddMember(t.Context(), c.members[2]); err != nil {
			t.Fatal(err)
		}
		c.rebind("3")
		c.start("3")
		c.agree("3")
		c.lists("1", "2", "3")
	})
}

// Of two members that remove each other the lower ends, and comes back when it is added.
func TestOfTwoThatRemoveEachOtherOneIsLeft(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 2)
		c.startAll()
		c.agree("2")
		c.removeEachOther()
		c.oneIsLeft()

		if err := c.nodes["2"].AddMember(t.Context(), c.members[0]); err != nil {
			t.Fatal(err)
		}
		c.rebind("1")
		c.start("1")
		c.agree("2")
		c.lists("1", "2")
	})
}

// Each has removed the other while they could not talk, and has nobody else to ask.
func TestOfTwoThatHaveRemovedEachOtherApartOneIsLeft(t *testing.T) {
	c := newCluster(t, 2)
	dirs := map[ID]string{"1": stalltest.Dir(t), "2": stalltest.Dir(t)}
	keeps := func(id ID) func(*Config) { return func(cfg *Config) { cfg.DataDir = dirs[id] } }
	for id, other := range map[ID]ID{"1": "2", "2": "1"} {
		n := c.start(id, keeps(id))
		c.agree(id)
		if err := n.RemoveMember(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
		delete(c.nodes, id)
		c.rebind(id)
	}
	c.start("1", keeps("1"))
	c.start("2", keeps("2"))
	c.oneIsLeft()
}

func (c *cluster) removeEachOther() {
	c.t.Helper()
	for id, other := range map[ID]ID{"1": "2", "2": "1"} {
		if err := c.nodes[id].RemoveMember(c.t.Context(), other); err != nil {
			c.t.Fatal(err)
		}
	}
}

// oneIsLeft waits until 1 has ended as removed, and 2 leads alone.
func (c *cluster) oneIsLeft() {
	c.t.Helper()
	gone := c.nodes["1"]
	wait(c.t, "one of the two ends", gone.Done())
	if err := gone.Err(); !errors.Is(err, ErrRemoved) {
		c.t.Fatalf("1 ends with %v, want %v", err, ErrRemoved)
	}
	delete(c.nodes, "1")
	c.agree("2")
	c.lists("2")
}

func TestWhoLeavesIsForgottenUntilItJoins(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 3)
		c.startAll()
		c.agree("3")
		if err := c.nodes["3"].Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		delete(c.nodes, "3")
		c.agree("2")
		c.lists("1", "2")
		c.rebind("3")
		c.start("3", joins(c, "1"))
		c.agree("3")
		c.lists("1", "2", "3")
	})
}

func TestAMemberThatWasAwayLearnsTheList(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 4)
		dirs := map[ID]string{}
		durable := func(cfg *Config) {
			id := ID(cfg.ID)
			if dirs[id] == "" {
				dirs[id] = stalltest.Dir(t)
			}
			cfg.DataDir = dirs[id]
			cfg.Peers = c.members[:3]
		}
		for _, id := range []ID{"1", "2", "3"} {
			c.start(id, durable)
		}
		c.agree("3")
		c.nodes["1"].Close()
		delete(c.nodes, "1")
		if err := c.nodes["2"].AddMember(t.Context(), c.members[3]); err != nil {
			t.Fatal(err)
		}
		c.rebind("1")
		c.start("1", durable)
		c.lists("1", "2", "3", "4")
		c.nodes["1"].Close()
		c.rebind("1")
		c.start("1", durable)
		if got := membersOf(c.nodes["1"]); len(got) != 4 {
			t.Errorf("after a restart it lists %v", got)
		}
	})
}

func TestJoinsThatCannotBe(t *testing.T) {
	c := newCluster(t, 2)
	c.start("1", joins(c))
	for name, change := range map[string]func(*Config){
		"another cluster":    func(cfg *Config) { cfg.Cluster = "other" },
		"another kind of id": func(cfg *Config) { cfg.ID = "host-b" },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{ID: "9", Listen: "127.0.0.1:0", Join: []string{c.members[0].Addr}, Algorithm: bully.New()}
			change(&cfg)
			n, err := Start(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			wait(t, "it gives up", n.Done())
			if !errors.Is(n.Err(), ErrConfig) {
				t.Errorf("it ends with %v, want a fault of the configuration", n.Err())
			}
		})
	}
	if got := membersOf(c.nodes["1"]); len(got) != 1 {
		t.Errorf("the cluster lists %v", got)
	}
}

func TestAnUnhealthyMemberMakesWay(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 2)
		verdict := make(chan error, 1)
		c.start("1")
		c.start("2", func(cfg *Config) {
			cfg.Health.Check = func(ctx context.Context) error {
				select {
				case err := <-verdict:
					return err
				default:
					return nil
				}
			}
		})
		c.agree("2")
		verdict <- errors.New("no database")
		c.agree("1")
	})
}

func TestWhoIsUnhealthyFromTheStartNeverLeads(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 2)
		sick := c.start("2", func(cfg *Config) {
			cfg.Health.Check = func(context.Context) error { return errors.New("no database") }
		})
		c.start("1")
		c.agree("1")
		hasNotClaimed(t, sick)
	})
}

// A check that hangs is a failing one: its member follows meanwhile.
func TestAMemberWhoseCheckHangsFollows(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 2)
		c.start("1")
		c.start("2", func(cfg *Config) {
			cfg.Health.Check = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		})
		c.agree("1")
	})
}

// crowded is a config for many members that share a few processors: what is slow
// is not dead.
func crowded(cfg *Config) {
	cfg.Heartbeat, cfg.TMax, cfg.TProcess = 500*time.Millisecond, time.Second, 3*time.Second
	cfg.Logger = nil
}

// last is the member that ranks last but back.
func (c *cluster) last(back int) ID { return c.members[len(c.members)-1-back].ID }

// TestManyMembers is a large cluster in one process; every member joins through
// the first.
func TestManyMembers(t *testing.T) {
	n := fulltest.Size(30, 100)
	c := newCluster(t, n)
	began := time.Now()
	c.startAll(joins(c, "1"), crowded)
	c.agree(c.last(0))
	var all []ID
	for _, m := range c.members {
		all = append(all, m.ID)
	}
	c.lists(all...)
	t.Logf("all joined and agreed after %v", time.Since(began))
	killed := time.Now()
	c.kill(c.last(0))
	c.agree(c.last(1))
	t.Logf("agreed again %v after the leader's crash", time.Since(killed))
	links := func() (ends int) {
		for _, node := range c.nodes {
			ends += statusOf(node).Links
		}
		return ends
	}
	for late := time.Now().Add(patience); links() > n*(n-1)/2; time.Sleep(50 * time.Millisecond) { // temporary links stand for T
		if time.Now().After(late) {
			t.Fatalf("%d ends of connections stand, want far fewer than all pairs, %d", links(), n*(n-1))
		}
	}
}

// wait waits for ch to be closed.
func wait(t *testing.T, what string, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(patience):
		t.Fatalf("waited in vain until %s", what)
	}
}

// Late news that it has left, and that all whom it knows have, leaves a member
// with nobody but those through whom it joined.
func TestWhoHearsThatAllHaveLeftJoinsAgain(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 2)
		c.start("1", joins(c))
		n := c.start("2", joins(c, "1"))
		c.agree("2")
		c.lists("1", "2")
		var late []election.Member
		for _, p := range c.members {
			m := p.member()
			m.Version, m.Departure = 9, election.Left
			late = append(late, m)
		}
		if err := n.call(t.Context(), func() {
			n.emit(election.Event{Kind: election.Received, Peer: "1",
				Message: &election.Message{Kind: election.Members, From: "1", Election: DefaultElection, List: late}})
		}); err != nil {
			t.Fatal(err)
		}
		c.lists("1", "2")
		c.agree("2")
		var e election.Member
		if err := n.call(t.Context(), func() { e, _ = n.machine.Entry("2") }); err != nil || e.Version != 10 {
			t.Errorf("its entry has version %d, want 10: one above the news (%v)", e.Version, err)
		}
	})
}

// A member that leaves before it has a connection to any other dials to report that.
func TestWhoLeavesAtOnceIsForgotten(t *testing.T) {
	for range 20 {
		c := newCluster(t, 2)
		c.start("1", joins(c))
		c.agree("1")
		n := c.start("2", joins(c, "1"))
		for late := time.Now().Add(patience); len(membersOf(n)) < 2; {
			if time.Now().After(late) {
				t.Fatal("2 was not let in")
			}
		}
		if err := n.Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		delete(c.nodes, "2")
		c.lists("1")
		c.nodes["1"].Close()
	}
}

// A newcomer's word on the version of its own entry is not believed beyond measure:
// entries of a later version than frames can carry would part the members.
func TestAnAbsurdVersionOfANewcomerPartsNobody(t *testing.T) {
	c := newCluster(t, 3)
	one := c.start("1", joins(c))
	c.start("2", joins(c, "1"))
	c.agree("2")
	conn := stranger(t, one)
	answer := say(t, conn, helloFrom("3", "", func(h *wire.Handshake) {
		h.Kind, h.To = wire.KindJoin, election.None
		h.List = []election.Member{{Rank: Rank{ID: "3"}, Address: "127.0.0.1:1", Version: 1 << 62}}
	}))
	if answer.Kind != wire.KindAdmitted {
		t.Fatalf("it is answered with %s (%s)", answer.Kind, answer.Reason)
	}
	c.lists("1", "2", "3")
	if err := one.RemoveMember(t.Context(), "3"); err != nil {
		t.Fatal(err)
	}
	c.lists("1", "2")
}

// One address of several to join through may belong to strangers that come up late.
func TestARefusalAfterItWasLetInDoesNotEndAMember(t *testing.T) {
	for name, two := range map[string]func(c *cluster) func(*Config){
		"let in": func(c *cluster) func(*Config) { return joins(c, "1", "3") },
		"known": func(c *cluster) func(*Config) {
			return func(cfg *Config) { cfg.Peers, cfg.Join = c.members[:2], []string{c.members[2].Addr} }
		},
	} {
		t.Run(name, func(t *testing.T) { virtually(t, func(t *testing.T) { lateRefusal(t, two) }) })
	}
}

func lateRefusal(t *testing.T, two func(c *cluster) func(*Config)) {
	c := newVirtualCluster(t, 3)
	c.start("1", func(cfg *Config) { cfg.Peers = c.members[:2] })
	n := c.start("2", two(c))
	c.agree("2")
	other := c.start("3", joins(c), func(cfg *Config) { cfg.Cluster = "other" })
	for late := time.Now().Add(patience); statusOf(other).Refused[string(wire.ReasonCluster)] == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("it was not asked")
		}
	}
	select {
	case <-n.Done():
		t.Fatalf("it ended: %v", n.Err())
	case <-time.After(time.Minute):
	}
	delete(c.nodes, "3")
	c.agree("2")
}

func TestAForgottenMemberAsksToReturn(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 3)
		dir := stalltest.Dir(t)
		durable := func(cfg *Config) { cfg.DataDir = dir }
		c.start("1", joins(c))
		c.start("2", joins(c, "1"))
		c.start("3", joins(c, "1"), durable)
		c.agree("3")
		c.lists("1", "2", "3")
		c.nodes["3"].Leave(t.Context())
		delete(c.nodes, "3")
		c.lists("1", "2")
		// It comes back with its old list, and with nobody to join through.
		c.rebind("3")
		c.start("3", joins(c), durable)
		c.agree("3")
		c.lists("1", "2", "3")
	})
}

// A member that is added again keeps the priority that its process reports, unless
// the call has another, which that process then has too.
func TestAddingAMemberAgainKeepsItsPriority(t *testing.T) {
	c := newCluster(t, 3)
	c.start("1", func(cfg *Config) { cfg.Priority = 10 })
	c.start("2")
	c.start("3")
	c.agree("1")
	again := Peer{ID: "1", Addr: c.members[0].Addr}
	if err := c.nodes["2"].AddMember(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	c.ranks("1", 10)
	if err := c.nodes["1"].Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.agree("3")
	if err := c.nodes["1"].Campaign(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.agree("1")
	again = Peer{ID: "2", Addr: c.members[1].Addr, Priority: 20}
	if err := c.nodes["3"].AddMember(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	c.agree("2")
	c.ranks("2", 20)
	if err := c.nodes["2"].SetPriority(t.Context(), "2", 0); err != nil { // its own
		t.Fatal(err)
	}
	c.agree("1")
	c.ranks("2", 0)
	if err := c.nodes["2"].SetPriority(t.Context(), "9", 1); !errors.Is(err, ErrNotMember) {
		t.Errorf("a priority for nobody: %v, want %v", err, ErrNotMember)
	}
}

// ranks waits until everyone lists a member with that priority.
func (c *cluster) ranks(id ID, priority int) {
	c.t.Helper()
	for at, n := range c.nodes {
		for late := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			if slices.ContainsFunc(statusOf(n).Members, func(m MemberStatus) bool { return m.ID == id && m.Priority == priority }) {
				break
			}
			if time.Now().After(late) {
				c.t.Fatalf("%s lists %+v, want %s with priority %d", at, statusOf(n).Members, id, priority)
			}
		}
	}
}

// Three joins by a stranger, each with an epoch far above the last, do not part the
// leader of a ring from the others, nor keep one that starts again from coming back.
func TestThreeJoinsDoNotPartARing(t *testing.T) {
	c := newCluster(t, 3)
	c.startAll(func(cfg *Config) { cfg.Algorithm, cfg.Join = ring.New(), []string{c.members[0].Addr} })
	c.agree("3")
	leader := c.nodes["3"]
	for i, id := range []ID{"7", "8", "9"} {
		answer := say(t, stranger(t, leader), helloFrom(id, "", func(h *wire.Handshake) {
			h.Kind, h.To = wire.KindJoin, election.None
			h.Token = Token{Epoch: uint64(i+1) << 32, Leader: Rank{ID: id}}
		}))
		if answer.Kind != wire.KindAdmitted {
			t.Fatalf("%s is answered with %s (%s)", id, answer.Kind, answer.Reason)
		}
	}
	var highest uint64
	if err := leader.call(t.Context(), func() { highest = leader.machine.Highest() }); err != nil || highest > 1<<20 {
		t.Errorf("the leader has taken over epoch %d (%v)", highest, err)
	}
	c.lists("1", "2", "3", "7", "8", "9")
	c.agree("3")
	c.kill("2")
	c.rebind("2")
	c.start("2", func(cfg *Config) { cfg.Algorithm = ring.New() })
	c.agree("3")
}

// A removed member that reports that its entry has a later version than its removal is
// refused all the same, until a member adds it.
func TestARemovedMemberDoesNotLetItselfIn(t *testing.T) {
	c := newCluster(t, 3)
	one := c.start("1")
	c.start("2")
	c.agree("2")
	if err := one.RemoveMember(t.Context(), "3"); err != nil {
		t.Fatal(err)
	}
	ask := func(version uint64) *wire.Handshake {
		return say(t, stranger(t, one), helloFrom("3", "", func(h *wire.Handshake) {
			h.Kind, h.To = wire.KindJoin, election.None
			h.List = []election.Member{{Rank: Rank{ID: "3"}, Address: "127.0.0.1:1", Version: version}}
		}))
	}
	var tombstone election.Member
	if answer := ask(0); answer.Reason != wire.ReasonRemoved || len(answer.List) != 1 {
		t.Fatalf("it is answered with %+v", answer)
	} else {
		tombstone = answer.List[0]
	}
	for _, version := range []uint64{tombstone.Version + 1, tombstone.Version + 1<<16, tombstone.Version + 1<<20} {
		if answer := ask(version); answer.Reason != wire.ReasonRemoved {
			t.Errorf("with version %d, and its removal has %d, it is answered with %s (%s)", version, tombstone.Version, answer.Kind, answer.Reason)
		}
	}
	c.lists("1", "2") // 2 has heard of the removal: to add a member that it has would change nothing
	if err := c.nodes["2"].AddMember(t.Context(), c.members[2]); err != nil {
		t.Fatal(err)
	}
	c.lists("1", "2", "3")
	if answer := ask(0); answer.Kind != wire.KindAdmitted {
		t.Errorf("added again, it is answered with %s (%s)", answer.Kind, answer.Reason)
	}
}

// A stranger's flood of joins is refused, counted, and bounded; an honest newcomer
// asks again until it is let in.
func TestAFloodOfJoinsIsRefused(t *testing.T) {
	virtually(t, func(t *testing.T) { // a slow flood is refused late, or never
		c := newVirtualCluster(t, 2)
		one := c.start("1", joins(c))
		c.agree("1")
		for i := 0; statusOf(one).Refused[string(wire.ReasonManyJoins)] == 0; i++ {
			if i > 2000 {
				t.Fatal("2000 joins, and none was refused")
			}
			say(t, stranger(t, one), helloFrom(ID(fmt.Sprint(1000+i)), "", func(h *wire.Handshake) { h.Kind, h.To = wire.KindJoin, election.None }))
		}
		c.start("2", joins(c, "1"))
		for late := time.Now().Add(patience); !slices.Contains(membersOf(one), "2"); time.Sleep(time.Millisecond) {
			if time.Now().After(late) {
				t.Fatal("an honest newcomer is not let in")
			}
		}
	})
}

// kept is a store in memory.
type kept struct{ state election.State }

func (k *kept) Load() (election.State, error)   { return k.state, nil }
func (k *kept) Save(state election.State) error { k.state = state; return nil }

// A member that was reaped is refused until its tombstone is forgotten, which happens once the list is
// three quarters full. Then it joins again, with its old state.
func TestAReapedMemberIsForgottenInTheEnd(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 4)
		stores := map[ID]*kept{"1": {}, "2": {}, "3": {}, "4": {state: election.State{ID: "4"}}}
		for i := range election.MaxMembers*3/4 - 4 {
			id := ID(strconv.Itoa(1000 + i))
			stores["4"].state.Members = append(stores["4"].state.Members, election.Member{Rank: Rank{ID: id}, Version: election.RemovalLead + 1, Departure: election.Removed, New: true})
		}
		start := func(id ID) {
			c.start(id, joins(c, "1", "2", "3", "4"), func(cfg *Config) { cfg.Store, cfg.ReapAfter = stores[id], 3*time.Second })
		}
		for _, id := range []ID{"4", "3", "2", "1"} {
			start(id)
		}
		c.agree("4")
		c.lists("1", "2", "3", "4")
		c.kill("1")
		c.lists("2", "3", "4")
		c.kill("4") // the next process has its tombstones in the order of the ids
		c.agree("3")
		c.rebind("4")
		start("4")
		c.agree("4")
		if err := c.nodes["4"].AddMember(t.Context(), Peer{ID: "5", Addr: "127.0.0.1:7405"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		c.rebind("1")
		start("1")
		c.agree("4")
		c.lists("1", "2", "3", "4")
	})
}

// An id in another of Unicode's forms is the same id, in each call.
func TestCallsTakeAnIDInAnyForm(t *testing.T) {
	const composed, decomposed = "jos\u00e9", "jose\u0301"
	n, err := Start(t.Context(), Config{ID: composed, Listen: "127.0.0.1:0", Algorithm: bully.New(), Logger: testLog(t, composed)})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	for v := range n.Watch(t.Context()) {
		if v.Defined() {
			break
		}
	}
	if err := n.SetPriority(t.Context(), decomposed, 3); err != nil {
		t.Error(err)
	}
	if err := n.SetPriority(t.Context(), "", 3); err == nil {
		t.Error("a priority of no member is set")
	}
	if err := n.Transfer(t.Context(), decomposed); err != nil {
		t.Error(err)
	}
	if err := n.Election(n.Leader().Election).StepDown(t.Context(), decomposed); err != nil {
		t.Error(err)
	}
}

// Two members with the same address are refused, as in a configuration. That of a removed member is free.
func TestAnAddedMemberHasAnAddressOfItsOwn(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 2)
		c.startAll()
		c.agree("2")
		n, other := c.nodes["2"], c.members[0].Addr
		for _, addr := range []string{other, strings.Replace(other, "127.0.0.1", "localhost", 1), strings.Replace(other, "127.0.0.1", "[::ffff:127.0.0.1]", 1)} {
			err := n.AddMember(t.Context(), Peer{ID: "3", Addr: addr})
			if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "members 1 and 3 would have one address") {
				t.Errorf("%s: got %v", addr, err)
			}
		}
		c.lists("1", "2")
		if err := n.RemoveMember(t.Context(), "1"); err != nil {
			t.Fatal(err)
		}
		if err := n.AddMember(t.Context(), Peer{ID: "3", Addr: other}); err != nil {
			t.Errorf("the address of a removed member: %v", err)
		}
		if err := n.AddMember(t.Context(), c.members[0]); !errors.Is(err, ErrConfig) {
			t.Errorf("a removed member returns to an address that is in use: %v", err)
		}
	})
}
