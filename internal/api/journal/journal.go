// Package journal keeps the latest events of an agent under indices, after which readers go on.
package journal

import (
	"cmp"
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Bounds of what is kept, in bytes.
const (
	kept         = 6 << 20 // of events, about 20,000
	keptElection = 640     // further, for each seat of an election: all may change their leaders at once
)

// Event is what has happened, as JSON.
type Event struct {
	Index    string // after which a reader goes on
	Election string // "": the cluster's own
	Seat     int
	Name     string // leader and lost make the present view; the journal itself has Behind and Reset
	Missed   uint64 // of Behind: how many events of all elections the reader has not received
	JSON     []byte // nil for Behind and Reset

	number uint64
}

func (e *Event) size() int { return 128 + len(e.Index) + len(e.JSON) }

// Names of events in the place of some that are not there: the present view follows.
const (
	Behind = "behind" // they are no longer kept
	Reset  = "reset"  // the index is of a different process
)

// seat is a seat of an election.
type seat struct {
	election string
	seat     int
}

// Journal has the events of a process. Its methods may be called from any goroutine.
type Journal struct {
	process string // part of each index

	mu    sync.Mutex
	list  []Event
	first uint64 // the number of the first in list
	size  int
	views map[seat][]Event // the last leader, and what ended its leadership
	more  chan struct{}    // closed and replaced when an event comes, and at the end
	over  bool
}

// New begins a journal.
func New() *Journal {
	return &Journal{process: rand.Text()[:10], first: 1, views: map[seat][]Event{}, more: make(chan struct{})}
}

// Valid reports whether a text may be the index of an event of any journal.
func Valid(index string) bool {
	process, number, ok := strings.Cut(index, "-")
	_, err := strconv.ParseUint(number, 10, 64)
	return ok && process != "" && err == nil
}

func (j *Journal) index(number uint64) string {
	return j.process + "-" + strconv.FormatUint(number, 10)
}

// Add appends an event, and sets its index.
func (j *Journal) Add(e Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e.number = j.next()
	e.Index = j.index(e.number)
	j.list = append(j.list, e)
	switch at := (seat{e.Election, e.Seat}); e.Name {
	case "leader":
		j.views[at] = []Event{e}
	case "lost":
		v := j.views[at]
		j.views[at] = append(v[:min(len(v), 1):1], e)
	}
	j.size += e.size()
	for j.size > kept+keptElection*len(j.views) {
		j.size -= j.list[0].size()
		j.list[0] = Event{}
		j.list = j.list[1:]
		j.first++
	}
	j.wake()
}

// Amend replaces the event of the present leader of the cluster's own election in the views of new readers.
func (j *Journal) Amend(text []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if v := j.views[seat{}]; len(v) == 1 {
		v[0].JSON = text
	}
}

// Views is how many seats of elections have a present view.
func (j *Journal) Views() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.views)
}

// Forget drops the present views of elections.
func (j *Journal) Forget(over func(election string) bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	maps.DeleteFunc(j.views, func(at seat, _ []Event) bool { return over(at.election) })
}

// End reports that nothing follows. It may be called again.
func (j *Journal) End() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.over = true
	j.wake()
}

func (j *Journal) wake() {
	close(j.more)
	j.more = make(chan struct{})
}

func (j *Journal) next() uint64 { return j.first + uint64(len(j.list)) }

// Reader reads the events of some elections. It is for a single goroutine.
type Reader struct {
	j     *Journal
	about func(election string) bool
	view  []Event // to be given first
	next  uint64
}

// Read gives what follows an index; "": the present view, and what follows that.
func (j *Journal) Read(after string, about func(election string) bool) *Reader {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := &Reader{j: j, about: about}
	process, text, _ := strings.Cut(after, "-")
	number, err := strconv.ParseUint(text, 10, 64)
	switch {
	case after == "":
		r.present()
	case process != j.process, err != nil, number >= j.next():
		r.present(Event{Name: Reset})
	default:
		r.next = number + 1
	}
	return r
}

// present goes on at the present, behind what is in the place of events that are not there.
func (r *Reader) present(gap ...Event) {
	j := r.j
	for at, v := range j.views {
		if r.about(at.election) {
			r.view = append(r.view, v...)
		}
	}
	slices.SortFunc(r.view, func(a, b Event) int { return cmp.Compare(a.number, b.number) })
	for i := range gap {
		gap[i].Index = j.index(0) // until the view is complete it is asked for again
	}
	r.view = append(gap, r.view...)
	r.next = j.next()
	if last := len(r.view) - 1; last >= 0 {
		r.view[last].Index = j.index(r.next - 1)
	}
}

// Next waits for the next event; false: ctx or the journal is over. What is there already is given even then.
func (r *Reader) Next(ctx context.Context) (Event, bool) {
	for {
		e, ok, more := r.take()
		if ok || more == nil {
			return e, ok
		}
		select {
		case <-more:
		case <-ctx.Done():
			return Event{}, false
		}
	}
}

// take gives the next event, or a channel that is closed when there may be a further one; nil: there is none.
func (r *Reader) take() (e Event, ok bool, more <-chan struct{}) {
	j := r.j
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(r.view) == 0 && r.next < j.first {
		r.present(Event{Name: Behind, Missed: j.next() - r.next})
	}
	if len(r.view) > 0 {
		e, r.view = r.view[0], r.view[1:]
		return e, true, nil
	}
	for r.next < j.next() {
		e := j.list[r.next-j.first]
		r.next++
		if r.about(e.Election) {
			return e, true, nil
		}
	}
	if j.over {
		return e, false, nil
	}
	return e, false, j.more
}

// Over reports whether all is read that there will be.
func (r *Reader) Over() bool {
	r.j.mu.Lock()
	defer r.j.mu.Unlock()
	return r.j.over && r.next == r.j.next() && len(r.view) == 0
}

// InView reports whether some of the present view is still to be read.
func (r *Reader) InView() bool { return len(r.view) > 0 }

// Position is the index after which the next event comes, unless some of the view is still to be read.
func (r *Reader) Position() string { return r.j.index(r.next - 1) }
