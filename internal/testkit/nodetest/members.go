package nodetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutatest"
)

func url(value string) map[string]string { return map[string]string{"url": value} }

// Meta checks that each member knows what the leader publishes, its changes, and what the next leader
// publishes.
func Meta(t *testing.T, algorithm Maker) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 3, func(cfg *batuta.Config) {
			cfg.Meta, cfg.Algorithm = url("http://"+string(cfg.ID)), algorithm()
		})
		c.StartAll()
		token := c.Agree("3")
		for _, id := range []batuta.ID{"1", "2", "3"} {
			watched(t, c.Node(id), func(v batuta.View) bool { return v.Token == token && v.Meta["url"] == "http://3" })
		}
		if err := c.Node("3").SetMeta(t.Context(), map[string]string{"url": "http://new", "zone": "b"}); err != nil {
			t.Fatal(err)
		}
		for _, id := range []batuta.ID{"1", "2", "3"} {
			v := watched(t, c.Node(id), func(v batuta.View) bool { return v.Meta["url"] == "http://new" })
			if v.Token != token || v.Meta["zone"] != "b" {
				t.Errorf("member %s has %+v", id, v)
			}
		}
		within(t, "what a follower publishes is known too", func() bool {
			for _, m := range status(t, c.Node("1")).Members {
				if m.ID == "2" {
					return maps.Equal(m.Meta, url("http://2"))
				}
			}
			return false
		})
		c.Kill("3")
		c.Agree("2")
		watched(t, c.Node("1"), func(v batuta.View) bool { return v.Token.Leader.ID == "2" && v.Meta["url"] == "http://2" })
	})
}

// ShortFreeze checks that a freeze that is shorter than T changes nothing: what was sent meanwhile waits on
// open connections.
func ShortFreeze(t *testing.T, algorithm Maker) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 3, func(cfg *batuta.Config) { cfg.Algorithm = algorithm() })
		c.StartAll()
		time.Sleep(5 * time.Second)
		id := c.Node("1").Leader().Token.Leader.ID
		token := c.Agree(id)
		for _, frozen := range []batuta.ID{"1", "2", "3"} {
			events := c.Node(frozen).Events(t.Context())
			var seen []batuta.Event
			go func() {
				for e := range events {
					seen = append(seen, e)
				}
			}()
			c.Freeze(frozen)
			time.Sleep(150 * time.Millisecond) // a quarter of T
			c.Thaw(frozen)
			time.Sleep(5 * time.Second)
			if now := c.Agree(id); now != token {
				t.Errorf("a short freeze of %s changed %v to %v", frozen, token, now)
			}
			synctest.Wait()
			for _, e := range seen {
				if e.Kind == batuta.EventLost || e.State == batuta.StateDown {
					t.Errorf("%s: %+v", frozen, e)
				}
			}
		}
	})
}

// Views checks that each member is asked over the links of members. A member that is cut off answers nothing,
// with and without a majority rule.
func Views(t *testing.T, algorithm Maker) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 5, func(cfg *batuta.Config) { cfg.Algorithm = algorithm() })
		c.StartAll()
		led := c.Agree("5")
		ask := func(id batuta.ID) map[batuta.ID]batuta.MemberView {
			views, err := c.Node(id).AskMembers(t.Context())
			if err != nil || len(views) != 4 {
				t.Fatalf("member %s: %v, %v", id, views, err)
			}
			by := map[batuta.ID]batuta.MemberView{}
			for i, v := range views {
				if by[v.ID] = v; i > 0 && views[i-1].ID > v.ID {
					t.Errorf("the list is %v", views)
				}
			}
			return by
		}
		for id, v := range ask("2") {
			if v.Err != nil || v.Token != led || v.Address == "" {
				t.Errorf("member %s answers %+v", id, v)
			}
		}
		c.Isolate("1")
		c.Kill("4")
		time.Sleep(10 * time.Second)
		views := ask("2")
		for _, id := range []batuta.ID{"1", "4"} {
			if views[id].Err == nil || views[id].Token.Defined() {
				t.Errorf("member %s is not there, and answers %+v", id, views[id])
			}
		}
		if led = c.Node("5").Leader().Token; views["3"].Token != led || views["5"].Token != led {
			t.Errorf("3 and 5 follow %v, and answer %+v", led, views)
		}
		for id, v := range ask("1") {
			if v.Err == nil {
				t.Errorf("to 1, which is cut off, member %s answers %+v", id, v)
			}
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if _, err := c.Node("2").AskMembers(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("when its context has ended: %v", err)
		}
		closed := c.Node("2")
		c.Stop("2")
		if _, err := closed.AskMembers(t.Context()); !errors.Is(err, batuta.ErrClosed) {
			t.Errorf("of a closed member: %v", err)
		}
	})
}

// movers keep their disks and can change their addresses.
type movers struct {
	*batutatest.Cluster
	t       *testing.T
	members []batuta.Peer        // at their present addresses
	change  func(*batuta.Config) // of a member that has moved
}

// Move checks that members move with their disks. Each starts at its new address as docs/members.md
// has it: with Join, or with a list of the new addresses. Where lists are an operator's own, a list of
// some members' new addresses is no way: each has to change.
func Move(t *testing.T, algorithm Maker, ownLists bool) {
	for name, test := range map[string]struct {
		moves []batuta.ID
		joins []int // through the members of these indices; nil: by the list
	}{
		"one joins":                   {[]batuta.ID{"2"}, []int{0}},
		"one joins, by several":       {[]batuta.ID{"2"}, []int{0, 2}},
		"the leader joins":            {[]batuta.ID{"3"}, []int{0}},
		"one has the list":            {[]batuta.ID{"2"}, nil},
		"all join the first of them":  {[]batuta.ID{"1", "2", "3"}, []int{0}},
		"all join all":                {[]batuta.ID{"1", "2", "3"}, []int{0, 1, 2}},
		"all have the list":           {[]batuta.ID{"1", "2", "3"}, nil},
		"two of three have the list":  {[]batuta.ID{"1", "2"}, nil},
		"two of three join the third": {[]batuta.ID{"1", "2"}, []int{2}},
	} {
		if ownLists && slices.Contains([]string{"one has the list", "two of three have the list"}, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMovers(t, algorithm)
				for _, id := range test.moves {
					m.move(id)
				}
				m.change = func(cfg *batuta.Config) {
					if test.joins == nil {
						return
					}
					cfg.Peers = nil
					for _, i := range test.joins {
						if addr := m.members[i].Addr; addr != cfg.Listen {
							cfg.Join = append(cfg.Join, addr)
						}
					}
				}
				for _, id := range test.moves {
					m.Start(id)
				}
				m.settled("3")
			})
		})
	}
}

func newMovers(t *testing.T, algorithm Maker) *movers {
	m := &movers{t: t, change: func(*batuta.Config) {}}
	for i := range 3 {
		m.members = append(m.members, batuta.Peer{ID: batuta.ID(fmt.Sprint(i + 1)), Addr: fmt.Sprintf("10.0.0.%d:7400", i+1)})
	}
	disk := t.TempDir()
	m.Cluster = batutatest.New(t, 3, func(cfg *batuta.Config) {
		cfg.Algorithm, cfg.DataDir, cfg.Store = algorithm(), filepath.Join(disk, string(cfg.ID)), nil
		cfg.Peers = slices.Clone(m.members)
		cfg.Listen = m.members[slices.IndexFunc(m.members, func(p batuta.Peer) bool { return p.ID == cfg.ID })].Addr
		m.change(cfg)
	})
	m.StartAll()
	m.Agree("3")
	return m
}

// move ends a member, and gives it a new address.
func (m *movers) move(id batuta.ID) {
	m.Stop(id)
	for i := range m.members {
		if m.members[i].ID == id {
			m.members[i].Addr = fmt.Sprintf("10.0.1.%d:7400", i+1)
		}
	}
}

// settled waits until all follow the leader and each has all at their addresses.
func (m *movers) settled(leader batuta.ID) {
	m.t.Helper()
	within(m.t, "all have the new addresses", func() bool {
		for _, p := range m.members {
			n := m.Node(p.ID)
			list := status(m.t, n).Members
			if n.Leader().Token.Leader.ID != leader || len(list) != len(m.members) {
				return false
			}
			for _, p := range m.members {
				if !slices.ContainsFunc(list, func(s batuta.MemberStatus) bool { return s.ID == p.ID && s.Address == p.Addr && s.State != "" }) {
					return false
				}
			}
		}
		return true
	})
}
