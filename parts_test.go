package batuta

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/clock"
	"github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/testkit/walls"
)

// A part reaches the parts that it stands on, and neither the Node nor itself.
func TestAPartCannotReachTheNode(t *testing.T) {
	owner, parts := reflect.TypeFor[Node](), 0
	given := []reflect.Type{reflect.TypeFor[func(context.Context) error](), reflect.TypeFor[func(context.Context, Leadership) error](), reflect.TypeFor[func(context.Context) ([][]byte, error)]()} // functions of the user
	do := walls.Function{Owner: reflect.TypeFor[command](), Field: "do", Type: reflect.TypeFor[func()]()}                                                                                           // what other goroutines have the loop do
	for i := range owner.NumField() {
		part := owner.Field(i).Type
		if part.Kind() == reflect.Pointer {
			part = part.Elem()
		}
		if part.Kind() != reflect.Struct || part.PkgPath() != owner.PkgPath() {
			continue
		}
		parts++
		reached, functions := walls.Reach(part, owner.PkgPath())
		if reached[owner] || reached[part] {
			t.Errorf("%v reaches the Node: %v, itself: %v", part, reached[owner], reached[part])
		}
		for _, of := range functions {
			if of != do && !slices.Contains(given, of.Type) {
				t.Errorf("%v has a function of its own, which may reach the Node: %v", part, of)
			}
		}
	}
	if parts != 10 {
		t.Errorf("%d parts were looked at", parts)
	}
}

// newGround gives the ground of member 1, whose loop does nothing but what it is called for.
func newGround(t *testing.T) *ground {
	g := &ground{
		calls: calls{commands: make(chan command), running: make(chan struct{}), done: make(chan struct{})},
		id:    "1", cfg: Config{Logger: slog.New(slog.DiscardHandler)}.withDefaults(), timeout: time.Second,
		born: time.Now(), clock: clock.New(clock.System(), time.Second), history: newHistory(View{Election: "e"}),
	}
	over, end := context.WithCancel(context.Background())
	go func() {
		defer close(g.done)
		for {
			select {
			case c := <-g.commands:
				c.do()
				close(c.done)
			case <-over.Done():
				return
			}
		}
	}()
	t.Cleanup(func() { end(); <-g.done })
	return g
}

// emitted gives the events that the Machine is to be stepped with.
func (g *ground) emitted() (kinds []election.EventKind) {
	for _, ev := range g.todo {
		kinds = append(kinds, ev.Kind)
	}
	g.todo = nil
	return kinds
}

func TestACallEndsWithTheNodeOrItsContext(t *testing.T) {
	g, refused := newGround(t), errors.New("refused")
	if err := g.try(t.Context(), func() error { return refused }); err != refused {
		t.Errorf("it is refused: %v", err)
	}
	over, end := context.WithCancel(t.Context())
	end()
	stopped := calls{commands: make(chan command), done: make(chan struct{})}
	if err := stopped.call(over, func() {}); err != context.Canceled || stopped.ended(over) != context.Canceled || stopped.awaitRun(over) != context.Canceled {
		t.Errorf("its context is over: %v", err)
	}
	stopped.err = refused
	close(stopped.done)
	if _, err := ask(t.Context(), &stopped, func() int { return 1 }); err != refused || stopped.ended(t.Context()) != refused || stopped.awaitRun(t.Context()) != refused {
		t.Errorf("the node has ended: %v", err)
	}
}

func TestASaverReportsHowASaveGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full, hang := errors.New("full"), make(chan error)
		s := &saver{ground: newGround(t)}
		if s.save(election.State{}); !slices.Equal(s.emitted(), []election.EventKind{election.Saved}) {
			t.Error("without a store it has not saved at once")
		}
		s.store, s.saved = storeOf(func() error { return <-hang }), make(chan error, 1)
		for range 2 {
			s.save(election.State{})
			hang <- full
			if s.wasSaved(<-s.saved); s.trouble() != "full" || len(s.emitted()) != 1 {
				t.Errorf("it has failed: %q", s.trouble())
			}
		}
		s.save(election.State{})
		if time.Sleep(2 * time.Second); s.trouble() != "a save has not ended in 2s" {
			t.Errorf("it hangs: %q", s.trouble())
		}
		hang <- nil
		if s.wasSaved(<-s.saved); s.trouble() != "" || len(s.emitted()) != 1 {
			t.Errorf("it has ended: %q", s.trouble())
		}
		if s.failed != 2 {
			t.Errorf("%d saves failed", s.failed)
		}
	})
}

// storeOf is a Store whose saves end as a function does.
type storeOf func() error

func (s storeOf) Load() (election.State, error) { return election.State{}, nil }
func (s storeOf) Save(election.State) error     { return s() }

func TestDutiesEndWithTheirLeadership(t *testing.T) {
	d := &duties{ground: newGround(t), working: map[*work]struct{}{}}
	token := Token{Epoch: 2, Leader: Rank{ID: "1"}}
	v := View{Election: "e", Token: token, Since: time.Now()}
	if d.begin(t.Context(), v) != nil {
		t.Error("work begins under a leadership that is not there")
	}
	d.history.add(event(v))
	first, second := d.begin(t.Context(), v), d.begin(t.Context(), v)
	if first == nil || second == nil || !slices.Equal(d.emitted(), []election.EventKind{election.Working}) {
		t.Fatal("the first work alone is to be announced")
	}
	second.held = true
	if d.finish(second) || len(d.emitted()) > 0 {
		t.Error("held work that ends gives the lead away")
	}
	d.renew(token, Token{Epoch: 3, Leader: Rank{ID: "1"}})
	d.cancelWork(token, CauseCrashed)
	if first.ctx.Err() != nil {
		t.Error("the end of a leadership cancels the work of a renewed one")
	}
	d.cancelWork(first.token, CauseCrashed)
	var lost *LostError
	if !errors.As(context.Cause(first.ctx), &lost) || lost.Cause != CauseCrashed {
		t.Errorf("it ends by %v", context.Cause(first.ctx))
	}
	if d.finish(first) || !slices.Equal(d.emitted(), []election.EventKind{election.Working}) {
		t.Error("the end of the last work is not announced, or gives away what is lost")
	}
	d.stand()
	d.retire()
	if !d.retired || !slices.Equal(d.emitted(), []election.EventKind{election.Candidacy, election.Candidacy}) {
		t.Error("without work it is a candidate")
	}
}

// standingCore is a core of which only the standing is asked.
type standingCore struct {
	machine.Core
	standing election.Eligibility
}

func (c standingCore) Standing() election.Eligibility { return c.standing }
func (c standingCore) Held() Token                    { return Token{Epoch: 7, Leader: Rank{ID: "1"}} }

func TestAStanceIsPublishedWithItsReason(t *testing.T) {
	g := newGround(t)
	s := &stance{ground: g, saver: &saver{ground: g}, joiner: &joiner{links: &links{ground: g}}, duties: &duties{ground: g}, standing: StandingEligible}
	for _, test := range []struct {
		standing election.Eligibility
		why      string
	}{
		{election.IneligibleUnhealthy, "its first check"},
		{election.IneligibleResigned, "it was asked to step down"},
		{election.IneligibleWorking, "7:1 has not stopped"},
		{election.IneligibleClosing, "it closes"},
		{election.Eligible, ""},
	} {
		g.machine = standingCore{standing: test.standing}
		s.noteStanding()
		if last := g.history.Last().Event; last.Kind != EventStanding || last.Standing != standings[test.standing] || !strings.Contains(last.Why, test.why) || (last.Why == "") != (test.why == "") {
			t.Errorf("%v: published %s %q, because %q", test.standing, last.Kind, last.Standing, last.Why)
		}
	}
	s.duties.retired = true
	if g.machine = (standingCore{standing: election.IneligibleResigned}); !strings.HasPrefix(s.whyIneligible(), "Lead has returned") {
		t.Errorf("without work: %q", s.whyIneligible())
	}
}
