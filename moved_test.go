package batuta

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/quorum"
)

// movers keep their disks and can change their addresses.
type movers struct {
	*cluster
	disk      string
	algorithm func() Algorithm
}

func newMovers(t *testing.T, algorithm func() Algorithm) *movers {
	m := &movers{cluster: newVirtualCluster(t, 3), disk: t.TempDir(), algorithm: algorithm}
	for _, p := range m.members {
		m.boot(p.ID, func(*Config) {})
	}
	m.agree("3")
	return m
}

func (m *movers) boot(id ID, change func(*Config)) {
	m.t.Helper()
	m.start(id, func(cfg *Config) {
		cfg.Algorithm, cfg.DataDir = m.algorithm(), filepath.Join(m.disk, string(id))
		change(cfg)
	})
}

// move ends members, and gives each another address.
func (m *movers) move(ids ...ID) {
	for _, id := range ids {
		m.nodes[id].Close()
		m.kill(id)
		m.rebind(id)
		for i := range m.members {
			if m.members[i].ID == id {
				m.members[i].Addr = fmt.Sprintf("127.0.0.1:%d", 8401+i)
			}
		}
	}
}

// settled waits until all follow the leader and each has all at their addresses.
func (m *movers) settled(leader ID) {
	m.t.Helper()
	within(m.t, "all have the new addresses", func() bool {
		for _, n := range m.nodes {
			if n.Leader().Token.Leader.ID != leader || len(statusOf(n).Members) != len(m.members) {
				return false
			}
			for _, p := range m.members {
				if !m.has(n, p) {
					return false
				}
			}
		}
		return true
	})
}

func (m *movers) has(n *Node, p Peer) (there bool) {
	err := n.call(m.t.Context(), func() {
		for _, v := range n.machine.Members() {
			there = there || v.ID == p.ID && v.Address == p.Addr && v.State != ""
		}
	})
	return err == nil && there
}

// Members move with their disks. Each starts at its new address as docs/members.md
// has it: with --join, or with a list of the new addresses.
func TestMembersMoveWithTheirDisks(t *testing.T) {
	joins := func(at ...int) func(*movers) func(*Config) {
		return func(m *movers) func(*Config) {
			return func(cfg *Config) {
				cfg.Peers = nil
				for _, i := range at {
					if addr := m.members[i].Addr; addr != cfg.Listen {
						cfg.Join = append(cfg.Join, addr)
					}
				}
			}
		}
	}
	lists := func(m *movers) func(*Config) { return func(*Config) {} }
	for name, test := range map[string]struct {
		moves []ID
		how   func(*movers) func(*Config)
	}{
		"one joins":                   {[]ID{"2"}, joins(0)},
		"one joins, by several":       {[]ID{"2"}, joins(0, 2)},
		"the leader joins":            {[]ID{"3"}, joins(0)},
		"one has the list":            {[]ID{"2"}, lists},
		"all join the first of them":  {[]ID{"1", "2", "3"}, joins(0)},
		"all join all":                {[]ID{"1", "2", "3"}, joins(0, 1, 2)},
		"all have the list":           {[]ID{"1", "2", "3"}, lists},
		"two of three have the list":  {[]ID{"1", "2"}, lists},
		"two of three join the third": {[]ID{"1", "2"}, joins(2)},
	} {
		for core, algorithm := range map[string]func() Algorithm{"quorum": func() Algorithm { return quorum.New() }, "bully": func() Algorithm { return bully.New() }} {
			if core == "bully" && slices.Contains([]string{"one has the list", "two of three have the list"}, name) {
				continue // each operator's list holds there: it has to change at all
			}
			t.Run(core+"/"+name, func(t *testing.T) {
				virtually(t, func(t *testing.T) {
					m := newMovers(t, algorithm)
					m.move(test.moves...)
					for _, id := range test.moves {
						m.boot(id, test.how(m))
					}
					m.settled("3")
				})
			})
		}
	}
}
