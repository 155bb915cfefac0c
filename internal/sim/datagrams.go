package sim

import (
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// flight is a message without a connection, as in textbooks, when the detector is off.
type flight struct {
	to *process
	m  *election.Message
	no uint64
}

// datagrams keeps the messages on their way, and the free places.
type datagrams struct {
	flights []flight
	free    []int32
}

func (m *datagrams) reset() {
	clear(m.flights)
	m.flights, m.free = m.flights[:0], m.free[:0]
}

func (m *datagrams) put(f flight) int32 {
	if k := len(m.free); k > 0 {
		place := m.free[k-1]
		m.free, m.flights[place] = m.free[:k-1], f
		return place
	}
	m.flights = append(m.flights, f)
	return int32(len(m.flights) - 1)
}

func (m *datagrams) take(place int32) flight {
	f := m.flights[place]
	m.flights[place] = flight{}
	m.free = append(m.free, place)
	return f
}

func (w *world) post(from, to *process, m *election.Message) {
	link := from.slot*w.net.n + to.slot
	at := w.now + w.rng.in(w.net.takes[link]) + w.net.delay[link]
	w.queue.push(occurrence{at: at, kind: datagramArrival, place: w.datagrams.put(flight{to, m, w.flights})})
}

// datagramArrived delivers a datagram. It is lost if the link is cut or the receiver dead; then
// the sender is notified where that applies.
func (w *world) datagramArrived(place int32) {
	f := w.datagrams.take(place)
	from, ok := w.slots[f.m.From]
	if ok && w.refuses && f.to.condition == scenario.Dead {
		w.step(w.procs[from], election.Event{Kind: election.PeerDown, Peer: f.to.rank.ID})
		return
	}
	if ok && f.to.condition == scenario.Alive && !w.net.cut[from*w.net.n+f.to.slot] {
		w.logReceipt(f.to, f.m, f.no)
		w.step(f.to, election.Event{Kind: election.Received, Message: f.m})
	}
}
