package boss_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/testkit/buildtest"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
)

// scene is what befalls a town, a step at a time. After each the town must come
// to agree.
type scene struct {
	name  string
	from  string // "": as the mix says; else what it begins with
	steps []step
}

type step struct {
	name string
	do   func(w *town)
}

// outcome is what came of a step.
type outcome struct {
	boss int           // the place of the one boss; -1: they never agree
	took time.Duration // until they agree
	two  time.Duration // how long two led

	orphans int  // of those who never agree, how many follow nobody who leads
	batuta  bool // a batuta member can be reached
	theirs  bool // those who never agree are led by originals alone
}

// fault says what is worse than among originals alone. apart says that those have
// come to lead side by side for good at an earlier step: they have forgotten each
// other, and while no batuta member is there to bring them together they do so in a
// mixed town, too.
func (o outcome) fault(alone outcome, apart bool) string {
	apart = alone.boss < 0 || apart && !o.batuta
	switch {
	case o.boss < 0 && !apart:
		return "they never agree"
	case o.orphans > 0:
		return "somebody has no boss"
	case !apart && o.two > alone.two+atOnce:
		return "two lead"
	}
	return ""
}

func (o outcome) String() string {
	if o.boss < 0 {
		return fmt.Sprintf("never agree, two lead for %.1fs, %d without a boss", o.two.Seconds(), o.orphans)
	}
	return fmt.Sprintf("boss %d after %.1fs, two lead for %.1fs", o.boss, o.took.Seconds(), o.two.Seconds())
}

// play plays a scene and gives the outcome of each step.
func (w *town) play(s scene) (all []outcome) {
	for i, step := range s.steps {
		step.do(w)
		w.patience = w.pace.patience
		if w.alone == nil || w.alone[i].boss < 0 {
			w.patience = w.death + w.quiet + 4*w.check // they may well never agree
		}
		boss, took := w.calm()
		o := outcome{boss, took, w.takeTwo(), w.orphans(), w.batuta((*folk).reachable), boss < 0 && !w.batuta((*folk).isBoss)}
		w.t.Logf("RESULT %s text=%v %s: %s: %s", s.name, w.text, w.kinds, step.name, o)
		if boss < 0 {
			w.t.Logf("they say: %s", w.state())
		}
		all = append(all, o)
	}
	return all
}

// leader is the place of a node that leads.
func (w *town) leader() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return max(0, slices.IndexFunc(w.folk, func(n folk) bool { return n.leads && n.up }))
}

var orders = [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}

func startAll(order ...int) step {
	return step{"all start", func(w *town) {
		for _, i := range order {
			w.start(i)
		}
	}}
}

func ofTheBoss(name string, do func(w *town, boss int)) step {
	return step{name, func(w *town) { do(w, w.leader()) }}
}

func scenes() (all []scene) {
	for _, order := range orders {
		all = append(all, scene{fmt.Sprintf("start %v", order), "", []step{startAll(order...),
			ofTheBoss("the boss is killed", (*town).kill), {"it returns", (*town).startDead},
			ofTheBoss("the boss is killed again", (*town).kill), {"it returns again", (*town).startDead}}})
	}
	for i := range 3 {
		all = append(all, scene{fmt.Sprintf("join %d", i), "", []step{
			startAll(slices.DeleteFunc([]int{0, 1, 2}, func(j int) bool { return j == i })...),
			{"it joins", func(w *town) { w.start(i) }},
			ofTheBoss("the boss is terminated", (*town).terminate),
			{"it returns", (*town).startDead}}})
	}
	freeze := ofTheBoss("the boss is stopped", (*town).freeze)
	thaw := step{"it goes on", (*town).thawAll}
	all = append(all, scene{"stop", "", []step{startAll(0, 1, 2), freeze, thaw, freeze, thaw}},
		scene{"stop at once", "", []step{{"all start, the boss stopped at once", func(w *town) {
			for i := range w.ips {
				w.start(i)
			}
			for began := time.Now(); w.agreed() < 0 && time.Since(began) < w.pace.patience; {
				time.Sleep(time.Millisecond)
			}
			w.freeze(w.leader())
		}}, thaw}})
	for i := range 3 {
		outage := func(name string, long func(w *town) time.Duration) step {
			return step{name, func(w *town) {
				began := time.Now()
				w.cut(i)
				time.Sleep(long(w))
				w.mend(i)
				w.late = max(w.late, time.Since(began)-long(w))
			}}
		}
		all = append(all, scene{fmt.Sprintf("link %d down", i), "", []step{startAll(0, 1, 2),
			outage("down for a short time", func(w *town) time.Duration { return w.short }),
			outage("down for a long time", func(w *town) time.Duration { return w.long })}})
	}
	for _, order := range orders {
		s := scene{fmt.Sprintf("replace %v", order), "OOO", []step{startAll(0, 1, 2)}}
		for _, i := range order {
			s.steps = append(s.steps, step{fmt.Sprintf("%d is replaced", i), func(w *town) { w.replace(i) }})
		}
		all = append(all, s)
	}
	return all
}

// TestBesideTheOriginal has towns of originals and batuta members go through what
// befalls a town of originals alone, and compares. In full it takes four minutes, in
// which it mostly waits.
func TestBesideTheOriginal(t *testing.T) {
	t.Parallel()
	program := buildtest.Program(t, "./internal/original")
	p := quickened
	if os.Getenv("BATUTA_TEST_BOSS_ORIGINAL") != "" {
		p = original // takes an hour
	}
	for _, text := range []bool{false, true} {
		for i, s := range scenes() {
			if !fulltest.Enabled() && (text || i%7 != 0) {
				continue // a start, a join and a replacement; continuous integration plays them all
			}
			t.Run(fmt.Sprintf("%s text=%v", s.name, text), func(t *testing.T) {
				t.Parallel()
				want := inTime(t, s, func() *town { return newTown(t, program, "OOO", text, p) })
				mixes := []string{"OOB", "OBO", "BOO", "OBB", "BOB", "BBO", "BBB"}
				if s.from != "" {
					mixes = []string{s.from}
				}
				mixes = fulltest.Size(mixes[:min(len(mixes), 3)], mixes)
				for _, mix := range mixes {
					t.Run(mix, func(t *testing.T) {
						t.Parallel()
						var faults []string
						for range 3 {
							got := inTime(t, s, func() *town {
								w := newTown(t, program, mix, text, p)
								w.becomes, w.alone = 'B', want
								return w
							})
							var theirs bool
							if faults, theirs = faultsOf(got, want, s); !theirs {
								break
							}
						}
						for _, fault := range faults {
							t.Error(fault)
						}
					})
				}
			})
		}
	}
}

// inTime plays a scene in a town in which no link is down for much longer than the scene has it. The kernel changes one
// link at a time, and the changes of the other towns come first on a busy machine.
func inTime(t *testing.T, s scene, found func() *town) []outcome {
	t.Helper()
	for range 5 {
		w := found()
		got := w.play(s)
		if w.late < w.death-2*w.short-w.beat { // see quickened: short and its repetition by TCP, and a beat
			return got
		}
		t.Logf("%s: a link was down for %v longer than meant; playing it again", w.kinds, w.late)
	}
	t.Fatal("five times a link was down for longer than meant: the machine is too busy")
	return nil
}

// faultsOf lists what is worse than among originals alone. theirs says that it began with
// originals that lead side by side: on a busy machine two may check at the same instant, and come
// apart by that, alone as well. Whoever asks plays the scene again: what batuta does to them comes again.
func faultsOf(got, want []outcome, s scene) (all []string, theirs bool) {
	apart := false
	for i, o := range got {
		apart = apart || i > 0 && want[i-1].boss < 0
		if fault := o.fault(want[i], apart); fault != "" {
			theirs = theirs || len(all) == 0 && o.theirs
			all = append(all, fmt.Sprintf("%s: %s: %s; originals alone: %s", s.steps[i].name, fault, o, want[i]))
		}
	}
	return all, theirs
}

// atOnce is as long as two may lead beyond what they do among originals alone: of one that
// takes over from another the two tell at not quite the same moment, on a busy machine.
const atOnce = 500 * time.Millisecond

// batuta reports whether that is so of a batuta member.
func (w *town) batuta(is func(*folk) bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc([]int{0, 1, 2}, func(i int) bool { return w.kinds[i] == 'B' && is(&w.folk[i]) })
}

func (w *town) thawAll() {
	for i := range w.folk {
		if w.folk[i].frozen {
			w.thaw(i)
		}
	}
}

func (w *town) startDead() {
	for i := range w.folk {
		if !w.folk[i].up {
			w.start(i)
		}
	}
}

// replace puts another program in a node's place.
func (w *town) replace(i int) {
	w.terminate(i)
	if w.becomes != 0 {
		w.change(func() { w.kinds = w.kinds[:i] + string(w.becomes) + w.kinds[i+1:] })
	}
	w.start(i)
}
