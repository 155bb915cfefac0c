package sim

import "time"

type occurrenceKind uint8

const (
	wake            occurrenceKind = iota + 1 // a member's deadline
	arrival                                   // the head of a pipe is due
	dialTimeout                               // a dial has had its 2·t_max
	diskDone                                  // a save is over
	workDone                                  // a former leader's work has stopped
	datagramArrival                           // a message without links, when the detector is off
	nextRound                                 // a newcomer asks for admission again
	idleTimeout                               // a retired connection has been idle
	workGone                                  // nothing is left of a crashed leader's work, as its guard detects
	attested                                  // a guard's secret arrives; place is of the guard, life the receiver's place
	namedDone                                 // the work of former leaders of named elections has stopped
)

// occurrence is a future event; it is dropped if the life that it belongs to ends before. It
// holds places instead of pointers, which the garbage collector would follow.
type occurrence struct {
	at    time.Duration
	seq   uint64 // ties are broken by the order of scheduling
	life  uint64
	place int32 // of a process, an endpoint or a message, by kind
	kind  occurrenceKind
}

// queue is a binary heap of values: scheduling does not allocate once it has grown.
type queue struct {
	heap []occurrence
	seq  uint64
}

func (q *queue) reset() {
	q.heap, q.seq = q.heap[:0], 0
}

func (a *occurrence) before(b *occurrence) bool {
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (q *queue) push(o occurrence) {
	q.seq++
	o.seq = q.seq
	q.heap = append(q.heap, o)
	h, i := q.heap, len(q.heap)-1
	for i > 0 {
		parent := (i - 1) / 2
		if !o.before(&h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = o
}

// due removes and returns the next occurrence up to limit.
func (q *queue) due(limit time.Duration) (occurrence, bool) {
	if len(q.heap) == 0 || q.heap[0].at > limit {
		return occurrence{}, false
	}
	h := q.heap
	top, last := h[0], h[len(h)-1]
	q.heap = h[:len(h)-1]
	if len(q.heap) > 0 {
		q.sink(last)
	}
	return top, true
}

func (q *queue) sink(o occurrence) {
	h, i := q.heap, 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].before(&h[child]) {
			child++
		}
		if !h[child].before(&o) {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = o
}
