package superpeer

import (
	"bytes"
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	rules "github.com/batuta-dev/batuta/internal/superpeer"
	"github.com/batuta-dev/batuta/superpeer/superpeertest"
)

// logged is what a member logs. It is safe for concurrent use.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// village is a few members whose tokens do not move, in virtual time.
type village struct {
	net     *superpeertest.Network
	members []*Member
	logs    []*logged
}

func inVillage(t *testing.T, n int, fraction float64, f func(*testing.T, *village)) {
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute) // for memberlist to notice
		v := &village{net: superpeertest.NewNetwork(func(a, b int) time.Duration { return time.Duration(5+3*(a+b)%40) * time.Millisecond })}
		for i := range n {
			l := &logged{}
			c := Config{Transport: v.net.Transport(i), Seed: uint64(i) + 1, Fraction: fraction, Method: rules.Random, Logger: slog.New(slog.NewTextHandler(l, nil))}
			if i > 0 {
				c.Join = []string{superpeertest.Address(0)}
			}
			m, err := Join(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			v.members, v.logs = append(v.members, m), append(v.logs, l)
			defer m.Kill()
		}
		time.Sleep(30 * time.Second)
		f(t, v)
	})
}

func (v *village) cut(a, b []int) {
	v.net.Cut(func(x, y int) bool {
		return slices.Contains(a, x) && slices.Contains(b, y) || slices.Contains(a, y) && slices.Contains(b, x)
	})
}

func (v *village) supers() (list []int) {
	for i, m := range v.members {
		if m.IsSuperPeer() {
			list = append(list, i)
		}
	}
	return list
}

// registrar is which member keeps the record of token.
func (v *village) registrar(t *testing.T, token int32) (host int) {
	err := v.members[0].call(t.Context(), func(d *driver) {
		owner, _ := d.ring.Owner(d.cfg.TokenKey(token, d.size))
		host = slices.IndexFunc(v.members, func(m *Member) bool { return m.peers.self == d.m.peers.uidOf(owner) })
	})
	if err != nil || host < 0 {
		t.Fatalf("no registrar of token %d is found: %v", token, err)
	}
	return host
}

// TestASuperPeerTooManyIsReported keeps a super peer and its token's registrar apart, as a crowded machine does: the
// registrar grants the token to another node, and nothing ends the first. Nodes draw their numbers, so a village may
// have no such two nodes: then the next one is tried.
func TestASuperPeerTooManyIsReported(t *testing.T) {
	for found := false; !found && !t.Failed(); {
		inVillage(t, 12, 0.25, func(t *testing.T, v *village) {
			holder, registrar := v.holderAndRegistrar(t)
			if found = holder >= 0; found {
				v.reportsOneTooMany(t, holder, registrar)
			}
		})
	}
}

// holderAndRegistrar returns a super peer and another node, which is the registrar of its token, or -1, -1. If both
// are super peers, the first is not the registrar of the second.
func (v *village) holderAndRegistrar(t *testing.T) (holder, registrar int) {
	registrars := map[int]int{}
	for _, i := range v.supers() {
		registrars[i] = v.registrar(t, *v.members[i].Status().Token)
	}
	for i, r := range registrars {
		if other, is := registrars[r]; r != i && (!is || other != i) {
			return i, r
		}
	}
	return -1, -1
}

func (v *village) reportsOneTooMany(t *testing.T, holder, registrar int) {
	v.cut([]int{holder}, []int{registrar})
	if !v.within(5*time.Minute, func(m *Member) bool {
		s := m.Status()
		return s.Live == 4 && s.ShareWrong >= 30 && len(s.Warnings) == 1 && strings.Contains(s.Warnings[0], "4 super peers live, 3 are wanted")
	}) {
		t.Error("5 min after the cut not all nodes report it:", v.shares())
	}
	if n := len(v.supers()); n != 4 {
		t.Fatalf("%d super peers live, want one more than 3", n)
	}
	v.logsAgree(t, 1)
	v.net.Cut(nil)
	if !v.within(5*time.Minute, func(m *Member) bool {
		s := m.Status()
		return s.Live == 3 && s.ShareWrong == 0 && len(s.Warnings) == 0
	}) {
		t.Error("5 min after healing it is not over:", v.shares())
	}
	v.logsAgree(t, 0)
}

// within is whether all members do what is wanted at one time of those to come. Gossip draws its targets by chance,
// so how long that takes differs.
func (v *village) within(most time.Duration, wanted func(*Member) bool) bool {
	for range most / time.Second {
		time.Sleep(time.Second)
		if !slices.ContainsFunc(v.members, func(m *Member) bool { return !wanted(m) }) {
			return true
		}
	}
	return false
}

func (v *village) shares() (list []string) {
	for i, m := range v.members {
		s := m.Status()
		list = append(list, fmt.Sprintf("node %d: %d live, wrong for %v s, warnings %q", i, s.Live, s.ShareWrong, s.Warnings))
	}
	return list
}

// logsAgree requires that each node has logged a wrong number once for each time that it was right again, and open
// times more.
func (v *village) logsAgree(t *testing.T, open int) {
	for i, l := range v.logs {
		if begun, ended := l.count("the number of super peers is wrong"), l.count("is right again"); begun != ended+open || begun == 0 {
			t.Errorf("node %d has logged %d times that the number is wrong and %d times that it is right again, want %d more", i, begun, ended, open)
		}
	}
}

// TestASurplusSuperPeerThatIsItsOwnRegistrarGoes kills the registrar of the surplus token. Fewer super peers are needed
// then, and the holder of that token becomes its registrar. Nodes draw their numbers: villages are tried until one has
// such a node.
func TestASurplusSuperPeerThatIsItsOwnRegistrarGoes(t *testing.T) {
	for found := false; !found && !t.Failed(); {
		inVillage(t, 5, 0.25, func(t *testing.T, v *village) {
			behind := func(m *Member) uint64 { return uint64(m.peers.self) - new(rules.Config).TokenKey(1, 0) }
			slices.SortFunc(v.members, func(a, b *Member) int { return cmp.Compare(behind(a), behind(b)) })
			registrar, next := v.members[0], v.members[1].Status()
			if found = !registrar.IsSuperPeer() && next.Token != nil && *next.Token == 1; !found {
				return
			}
			registrar.Kill()
			v.members = v.members[1:]
			if !v.within(time.Minute, func(m *Member) bool {
				s := m.Status()
				return s.Wanted == 1 && s.Live == 1 && (s.SuperPeer || s.Home != nil)
			}) || len(v.supers()) != 1 {
				t.Errorf("%d super peers of four nodes, want 1: %v", len(v.supers()), v.shares())
			}
		})
	}
}

// TestANodeThatNobodyServesReportsIt keeps a node from all super peers.
func TestANodeThatNobodyServesReportsIt(t *testing.T) {
	inVillage(t, 12, 0.25, func(t *testing.T, v *village) {
		supers := v.supers()
		busy := supers // a registrar would grant tokens anew
		for _, i := range supers {
			busy = append(slices.Clone(busy), v.registrar(t, *v.members[i].Status().Token))
		}
		lone := 0
		for slices.Contains(busy, lone) {
			lone++
		}
		const begins, ends = "no super peer serves this node", "is served again"
		begun, ended := v.logs[lone].count(begins), v.logs[lone].count(ends) // it may have waited for its first home
		v.cut([]int{lone}, supers)
		time.Sleep(40 * time.Second)
		s := v.members[lone].Status()
		if s.Home != nil || s.Unserved < 10 || len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "no super peer has served this node") || v.logs[lone].count(begins) != begun+1 {
			t.Errorf("not served for %v s, warnings %q, logged %d times", s.Unserved, s.Warnings, v.logs[lone].count(begins)-begun)
		}
		v.net.Cut(nil)
		time.Sleep(20 * time.Second)
		if s := v.members[lone].Status(); s.Home == nil || s.Unserved != 0 || len(s.Warnings) != 0 || v.logs[lone].count(ends) != ended+1 {
			t.Errorf("afterwards: not served for %v s, warnings %q", s.Unserved, s.Warnings)
		}
	})
}

// TestALateAnnouncementIsNoSuperPeer: who has passed its token on falls silent, and what it announced before is late.
func TestALateAnnouncementIsNoSuperPeer(t *testing.T) {
	b := newBook()
	say := func(token int32, version uint32, holder uid, seq uint32, now rules.Round) {
		n := told(token, version, holder)
		n.seq = seq
		b.learn(n, now)
	}
	say(1, 2, 8, 5, 10)
	say(1, 1, 9, 5, 11)
	say(1, 1, 9, 5, 11+minTellGap)
	if k := b.supers(0, false); k != 1 {
		t.Errorf("%d super peers after a late announcement, want 1", k)
	}
	say(1, 1, 9, 6, 11+minTellGap)
	if k := b.supers(0, false); k != 2 {
		t.Errorf("%d super peers while two announce one token, want 2", k)
	}
	b.expire(200, 1, 8)
	if k := b.supers(0, false); k != 0 {
		t.Errorf("%d super peers after long silence, want none", k)
	}
}
