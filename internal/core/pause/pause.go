// Package pause has a pause of the cluster, as a member knows it: until its end leadership stays
// with a member, the holder, and only the holder is a candidate. Both cores have it as a part.
//
// The state has a version. The higher version holds; of equal versions the end that is sooner and
// the holder that is higher, whichever report they came with: the time that a report takes makes its
// end later. So members agree, in whatever order they receive it. Each message has it, with the time
// that is left: no clock is compared.
//
// It assumes that the clocks of members count time at about the same rate: then a pause of an hour ends
// everywhere within the time that a message takes. It is not on disk: it ends when all processes
// that know it have ended.
//
// The package has no clock: its owner passes the time.
package pause

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Pause is the state of one member. The zero value is that of a cluster that never had a pause. A
// copy is independent.
type Pause struct {
	version uint64
	until   time.Time
	holder  election.ID // None: the next leader becomes it
	was     bool        // it was on when Turned was last asked
}

// On reports whether a pause lasts.
func (p *Pause) On(now time.Time) bool { return now.Before(p.until) }

// Bars reports whether a member is no candidate, because the pause leaves leadership to the holder, which is
// on the list still.
func (p *Pause) Bars(now time.Time, id election.ID, listed func(election.ID) bool) bool {
	return p.On(now) && p.holder != id && listed(p.holder)
}

// Until returns the end of the pause, zero if there is none now, and its holder.
func (p *Pause) Until(now time.Time) (time.Time, election.ID) {
	if !p.On(now) {
		return time.Time{}, election.None
	}
	return p.until, p.holder
}

// Version is higher after each change that a user or the holder has made; the end of a pause is none.
func (p *Pause) Version() uint64 { return p.version }

// Set begins a pause of that length, or ends it with 0.
func (p *Pause) Set(now time.Time, length time.Duration, holder election.ID) {
	p.version, p.until, p.holder = min(p.version+1, election.MaxVersion), now.Add(length), holder
}

// Hold changes the holder for the rest of the pause, to None until there is a leader.
func (p *Pause) Hold(now time.Time, holder election.ID) {
	if p.On(now) && p.holder != holder {
		p.Set(now, p.until.Sub(now), holder)
	}
}

// Report is what messages have of it; nil while there never was a pause.
func (p *Pause) Report(now time.Time) *election.Pause {
	if p.version == 0 {
		return nil
	}
	return &election.Pause{Version: p.version, Left: max(p.until.Sub(now), 0), Holder: p.holder}
}

// Receive takes in such a report, nil included.
func (p *Pause) Receive(now time.Time, r *election.Pause) {
	if r == nil || r.Version < p.version {
		return
	}
	ends := now.Add(r.Left)
	if r.Version > p.version {
		p.version, p.until, p.holder = r.Version, ends, r.Holder
		return
	}
	if ends.Before(p.until) {
		p.until = ends
	}
	if r.Holder.Compare(p.holder) > 0 {
		p.holder = r.Holder
	}
}

// Turned reports whether a pause has begun or ended since it was last asked. ends is when it ends.
func (p *Pause) Turned(now time.Time) (turned bool, ends time.Time) {
	on := p.On(now)
	if turned, p.was = on != p.was, on; on {
		ends = p.until
	}
	return turned, ends
}
