package quorum

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/testkit/walls"
)

// A part reaches the parts below it, and neither its owner nor itself.
func TestAPartCannotReachItsOwner(t *testing.T) {
	owner := reflect.TypeFor[Core]()
	for i := range owner.NumField() {
		part := owner.Field(i).Type
		if part.Kind() == reflect.Pointer {
			part = part.Elem()
		}
		if part.Kind() != reflect.Struct {
			continue
		}
		reached, functions := walls.Reach(part, owner.PkgPath(), reflect.TypeFor[machine.Config]().PkgPath())
		if reached[owner] || reached[part] {
			t.Errorf("%v reaches its owner: %v, itself: %v", part, reached[owner], reached[part])
		}
		for _, of := range functions {
			if of.Type != reflect.TypeFor[func(election.Record)]() {
				t.Errorf("%v has a function of its own, which may reach its owner: %v", part, of)
			}
		}
	}
}

// newPart gives the ground and the crew of member 1 of three, without a Core.
func newPart() (*ground, *crew) {
	g := newGround(New(), configured("1", []election.ID{"1", "2", "3"}, nil))
	g.now, g.origin, g.started = begin, begin, true
	c := newCrew(g)
	c.roster = first(configuredMembers(&g.cfg))
	c.me = self{Number: 1, ID: "1", Disk: 71, Promise: g.t}
	c.seatPeers()
	return g, c
}

// done gives the kinds of the actions since it was last asked.
func (c *ground) done() (kinds []election.ActionKind) {
	for _, a := range c.out {
		kinds = append(kinds, a.Kind)
	}
	c.out = nil
	return kinds
}

func TestAWriterHasOneWriteAndTriesAgain(t *testing.T) {
	g, _ := newPart()
	w := &writer{ground: g}
	if _, answered := w.answer(nil); answered || w.busy() {
		t.Error("there is an answer without a write")
	}
	w.submit([][]byte{{1}, {2}}, false)
	if !w.busy() || !slices.Equal(g.done(), []election.ActionKind{election.Append}) {
		t.Fatal("it does not write")
	}
	if done, answered := w.answer(errors.New("full")); done || !answered || !w.busy() || !w.tryAt(false).Equal(g.now.Add(retryPause)) {
		t.Errorf("done %v, answered %v, busy %v, and it tries again at %v", done, answered, w.busy(), w.tryAt(false))
	}
	w.attempt()
	g.now = g.now.Add(g.t)
	if !w.hangs() || w.hangs() || !w.disk.Hung() {
		t.Error("a write that takes T is not reported once")
	}
	if done, _ := w.answer(nil); !done || w.busy() || w.written != 2 || !w.disk.Slow() {
		t.Errorf("done %v, busy %v, %d records, slow %v", done, w.busy(), w.written, w.disk.Slow())
	}
	w.submit([][]byte{{3}}, true)
	if done, _ := w.answer(nil); !done || w.written != 0 || w.disk.Slow() {
		t.Errorf("after a write in time that replaces all: done %v, %d records, slow %v", done, w.written, w.disk.Slow())
	}
}

func TestATenureAnnouncesEachLeadershipOnce(t *testing.T) {
	g, c := newPart()
	mine, its := election.Token{Epoch: 4, Leader: g.cfg.Self}, election.Token{Epoch: 5, Leader: election.Rank{ID: "2"}}
	c.leader = leader{term: 4, rank: g.cfg.Self, until: begin.Add(time.Second)}
	if !c.announce(mine) || !c.leads() || c.announce(mine) {
		t.Error("its own leadership is not announced once")
	}
	if until, leads := c.Lease(); !leads || !until.Equal(begin.Add(time.Second)) || c.Guard() != until {
		t.Errorf("it leads %v until %v, and its work may run until %v", leads, until, c.Guard())
	}
	c.resigned = 4
	if g.done(); !c.announce(its) || c.leads() || !slices.Equal(g.done(), []election.ActionKind{election.NotifyLost, election.NotifyElected}) {
		t.Error("a later leadership does not take the place of its own")
	}
	if c.resigned != 4 {
		t.Error("it is a candidate again before the later leadership has ended")
	}
	c.unview(election.CauseResigned)
	if c.resigned != 0 || c.View().Defined() || c.Held() != its {
		t.Errorf("it resigned in %d, %v holds, and %v was the last", c.resigned, c.View(), c.Held())
	}
	if c.announce(its) || c.announce(mine) {
		t.Error("a leadership is announced after its end")
	}
}

func TestASilentMemberIsDialedAtLongerIntervals(t *testing.T) {
	g, c := newPart()
	p := c.peer("2")
	if c.dial(p); !slices.Equal(g.done(), []election.ActionKind{election.Dial}) || !p.dialing {
		t.Fatal("it is not dialed")
	}
	p.link, p.dialing, p.mute = true, false, true
	before := time.Duration(0)
	for range 4 {
		p.link = true
		c.linkDown("2")
		if at := p.redial.Sub(g.now); p.backoff < before || at <= 0 || at > maxBackoff {
			t.Errorf("it is dialed again after %v, with a pause of %v before %v", at, p.backoff, before)
		}
		before = p.backoff
	}
	p.link, p.mute, p.redial = true, false, time.Time{}
	if !c.usable(p) {
		t.Error("a link is of no use as soon as an answer is due")
	}
	g.done()
	if g.now = g.now.Add(g.t); c.usable(p) || p.link || !slices.Contains(g.done(), election.Hangup) {
		t.Error("a link on which nothing has arrived for T stays")
	}
}

func TestACardNamesADisk(t *testing.T) {
	g, c := newPart()
	k := &cards{crew: c, writer: &writer{ground: g}}
	p := c.peer("2")
	p.link = true
	if err := k.cardFrom(p, &election.Message{Data: encode(card{Number: 2, Disk: 72})}); err != nil || k.diskOf(2) != 72 || !slices.Equal(k.noted, []uint64{2}) {
		t.Errorf("%v, disk %d, noted %v", err, k.diskOf(2), k.noted)
	}
	for known, from := range []*peer{p, c.peer("3")} {
		its := card{Number: from.number, Disk: 70 + from.number, Yours: 71}
		if err := k.cardFrom(from, &election.Message{Data: encode(its)}); err != nil || k.known() != known+1 || k.me.Settled != (known == 1) {
			t.Errorf("%v: settled %v, by %d of two", err, k.me.Settled, k.known())
		}
	}
	g.done()
	if err := k.cardFrom(p, &election.Message{Data: encode(card{Number: 2, Disk: 99})}); err != nil || !p.barred || k.diskOf(2) != 72 || !slices.Contains(g.done(), election.Warn) {
		t.Errorf("%v: with another disk it is ignored: %v", err, p.barred)
	}
	if err := k.cardFrom(c.peer("3"), &election.Message{Data: encode(card{Number: 3, Disk: 73, Yours: 70})}); err == nil || !strings.Contains(err.Error(), "by another disk") {
		t.Errorf("its own disk was replaced: %v", err)
	}
	if err := k.cardFrom(c.peer("3"), &election.Message{Data: encode(card{Disk: 73, Void: 1})}); !errors.Is(err, election.ErrRemoved) {
		t.Errorf("its number was removed: %v", err)
	}
}

func TestAClockIsJudgedByTwoWindows(t *testing.T) {
	g, c := newPart()
	p := c.peer("2")
	for window := range 4 {
		g.now = begin.Add(time.Duration(window) * while)
		c.compare(p, int64(g.now.Sub(begin))*9/10+1) // a tenth slower
		if warned := slices.Contains(g.done(), election.Warn); warned != (window == 3) {
			t.Errorf("window %d: warned %v", window, warned)
		}
	}
	c.forgetPaces()
	if p.pace != (pace{warned: true}) {
		t.Errorf("%+v is left", p.pace)
	}
}

func TestAChangeIsSentToTheLeaderUntilItHasHappened(t *testing.T) {
	g, c := newPart()
	m := &changes{crew: c, writer: &writer{ground: g}}
	c.peer("3").link = true
	c.announce(election.Token{Epoch: 2, Leader: election.Rank{ID: "3"}})
	g.done()
	if goes := m.wish(change{ID: "4", Address: "host-4:7400"}); goes || !slices.Equal(g.done(), []election.ActionKind{election.Send}) {
		t.Error("the leader is not asked")
	}
	c.roster.put(seat{Number: 4, ID: "4", Address: "host-4:7400"})
	if m.pursue(); len(m.wanted) > 0 || len(g.done()) > 0 {
		t.Errorf("%v is wanted after it has happened", m.wanted)
	}
	m.wish(change{Remove: true, ID: "2"})
	g.now = g.now.Add(21 * g.t)
	if m.pursue(); len(m.wanted) > 0 {
		t.Errorf("%v is wanted for ever", m.wanted)
	}
}

func TestAMemberSaysWhyItIsNoCandidate(t *testing.T) {
	g, c := newPart()
	s := &stance{crew: c, writer: &writer{ground: g}, healthy: true}
	if got := s.Standing(); got != election.IneligibleJoining {
		t.Errorf("before it belongs to a cluster: %v", got)
	}
	if err := c.found(); err != nil || c.open() != nil {
		t.Fatal(err)
	}
	c.me.Settled = true
	for _, test := range []struct {
		name string
		set  func()
		want election.Eligibility
	}{
		{"it is connected to no majority, and asks all the same", func() {}, election.IneligibleFew},
		{"nothing is wrong", func() { c.peer("2").link = true }, election.Eligible},
		{"it has resigned", func() { c.resigned = 3 }, election.IneligibleResigned},
		{"work of an earlier leadership runs", func() { s.working = true }, election.IneligibleWorking},
		{"its disk fails", func() { s.disk.Begin(); s.disk.End(errors.New("full")) }, election.IneligibleUnsaved},
		{"it is unhealthy", func() { s.healthy = false }, election.IneligibleUnhealthy},
		{"it closes", func() { s.closing = true }, election.IneligibleClosing},
		{"it has halted", func() { g.halted = true }, election.IneligibleGone},
	} {
		if test.set(); s.Standing() != test.want || s.eligible() != (test.want == election.Eligible || test.want == election.IneligibleFew) {
			t.Errorf("%s: %v, eligible %v", test.name, s.Standing(), s.eligible())
		}
	}
}

func TestAHigherCandidateAsksFirst(t *testing.T) {
	g, c := newPart()
	w := &writer{ground: g}
	h := &heirs{c}
	v := &voter{crew: c, writer: w, heirs: h, stance: &stance{crew: c, writer: w, healthy: true}}
	if err := c.found(); err != nil || c.open() != nil {
		t.Fatal(err)
	}
	c.me.Settled = true
	for _, id := range []election.ID{"2", "3"} {
		c.peer(id).aside = election.Eligible
	}
	if v.askAfter(0); !v.campaignAt.Equal(g.now.Add(2 * g.t / 20)) {
		t.Errorf("behind two it asks after %v", v.campaignAt.Sub(g.now))
	}
	c.peer("3").down = true
	if v.askAfter(0); !v.campaignAt.Equal(g.now.Add(g.t / 20)) {
		t.Errorf("behind one it asks after %v", v.campaignAt.Sub(g.now))
	}
	v.patience = g.now.Add(g.t)
	if v.campaign(); !v.campaignAt.IsZero() || v.asks {
		t.Error("it asks while its promise lasts")
	}
	v.patience = time.Time{}
	if v.campaign(); !v.campaignAt.Equal(v.contestEnds()) && v.campaignAt.Before(g.now.Add(2*g.t)) {
		t.Errorf("it asks again after %v", v.campaignAt.Sub(g.now))
	}
}

func TestOnlyALeaderHandsOver(t *testing.T) {
	_, c := newPart()
	h := &heirs{c}
	for to, want := range map[election.ID]error{"9": election.ErrNotMember, "2": election.ErrNotLeading} {
		if err := h.AdmitTransfer(to); !errors.Is(err, want) {
			t.Errorf("to %s: %v, want %v", to, err, want)
		}
	}
}
