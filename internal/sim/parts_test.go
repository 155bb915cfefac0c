package sim

import (
	"reflect"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
	"github.com/batuta-dev/batuta/internal/testkit/walls"
)

// A part reaches the parts below it, and neither the world nor the story above it.
func TestAPartCannotReachWhatIsAboveIt(t *testing.T) {
	floors := []reflect.Type{reflect.TypeFor[scene](), reflect.TypeFor[wires](), reflect.TypeFor[judge](), reflect.TypeFor[world](), reflect.TypeFor[story]()}
	for i, part := range floors {
		reached, _ := walls.Reach(part)
		for _, above := range floors[i+1:] {
			if reached[above] {
				t.Errorf("%v reaches %v", part, above)
			}
		}
	}
}

// newWires gives wires between three processes that run nothing.
func newWires() *wires {
	w := &wires{scene: scene{slots: map[election.ID]int{"1": 0, "2": 1, "3": 2}}}
	w.setup = scenario.Setup{Latency: scenario.Span{Min: time.Millisecond, Max: time.Millisecond}, Timing: election.Timing{}.WithDefaults()}
	w.checks.register()
	w.net.reset(3)
	w.setLatencies()
	w.rng.Seed(1)
	w.queue.reset()
	w.procs = []*process{{}, {}, {}}
	for i, id := range []election.ID{"1", "2", "3"} {
		w.procs[i].reset(i, i, election.Rank{ID: id}, 3)
		w.procs[i].condition = scenario.Alive
	}
	return w
}

func TestWiresKeepTheOrderOfFramesAndHoldThemBackInACut(t *testing.T) {
	w := newWires()
	c := w.newConn()
	to, from := &c.ends[1], &c.ends[0]
	from.proc, to.proc = w.procs[0], w.procs[1]
	w.net.delay[1] = time.Second
	w.push(to, frame{kind: message, flight: 1})
	w.net.delay[1] = 0
	w.push(to, frame{kind: message, flight: 2})
	if first, second := to.in.frames[0], to.in.frames[1]; first.at != time.Second+time.Millisecond || second.at != first.at || to.in.due != first.at {
		t.Errorf("they arrive at %v and %v, and the first is expected at %v", first.at, second.at, to.in.due)
	}
	w.net.cut[1] = true
	if !w.heldUp(to) || len(w.net.held[1]) != 1 || to.in.size() != 2 {
		t.Errorf("%d frames are left, and %d pipes wait for a heal", to.in.size(), len(w.net.held[1]))
	}
	w.net.cut[1], w.procs[1].condition = false, scenario.Frozen
	if !w.heldUp(to) || len(w.procs[1].stalled) != 1 {
		t.Error("a stopped process receives a message")
	}
	w.procs[1].condition = scenario.Alive
	if w.heldUp(to) {
		t.Error("nothing is in the way, and a frame waits")
	}
}

func TestAJudgeGroupsTheMembersByWhatTheyReach(t *testing.T) {
	w := newWires()
	k := judge{&w.scene}
	if groups := k.groups(); len(groups) != 1 || !k.withinTwo(groups[0]) {
		t.Errorf("undisturbed: %d groups", len(groups))
	}
	w.net.cut[0*3+2] = true // 1 and 3 reach each other through 2
	if groups := k.groups(); len(groups) != 1 || !k.withinTwo(groups[0]) || k.complete(groups[0]) {
		t.Errorf("with a cut: %d groups", len(groups))
	}
	w.net.cut[1*3+2] = true
	if groups := k.groups(); len(groups) != 2 {
		t.Errorf("with two cuts: %d groups", len(groups))
	}
	w.procs[2].condition = scenario.Dead
	if groups := k.groups(); len(groups) != 1 || len(groups[0]) != 2 {
		t.Errorf("a dead member is in one of %d groups", len(groups))
	}
}
