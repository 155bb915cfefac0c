package sim

import (
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// said is the key of the metadata that members of the lab publish.
const said = "says"

// tells applies a user's request that p publish metadata.
func (w *world) tells(p *process, word string) {
	w.note(p, "tells of itself", word)
	if p.condition != scenario.Alive {
		return
	}
	p.says = word
	var pairs map[string]string
	if word != scenario.Nothing {
		pairs = map[string]string{said: word}
	}
	w.telling = true
	w.step(p, election.Event{Kind: election.Tells, Meta: pairs})
}

// told returns the metadata of a member, according to p.
func (p *process) told(id election.ID) string {
	for _, v := range p.machine.Members() {
		if word, ok := v.Meta[said]; ok && v.ID == id {
			return word
		}
	}
	return scenario.Nothing
}

// demandTold runs until every member has the metadata of its group, and breaks a rule if that
// takes longer than bound.
func (w *world) demandTold(bound time.Duration) {
	from := w.now
	for w.telling && w.checks.broken == nil {
		p, q := w.untold()
		if p == nil {
			return
		}
		if w.now-from > bound {
			w.checks.fail(w, p, invariant.Told, "%v after they have agreed it has it that %s tells %s, and that tells %q", w.now-from, q.rank.ID, p.told(q.rank.ID), q.says)
			return
		}
		w.runTo(w.now + w.setup.Timing.Heartbeat)
	}
}

// untold finds two members of a group of which p lacks the metadata of q; nil: there are none.
func (w *world) untold() (p, q *process) {
	for _, group := range w.groups() {
		if !w.complete(group) {
			continue
		}
		for _, p := range group {
			for _, q := range group {
				says := q.says
				if says == "" {
					says = scenario.Nothing
				}
				if p != q && p.machine.Knows(q.rank.ID) && q.machine.Knows(p.rank.ID) && p.told(q.rank.ID) != says {
					return p, q
				}
			}
		}
	}
	return nil, nil
}
