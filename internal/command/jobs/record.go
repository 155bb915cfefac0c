package jobs

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"math/bits"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/command/schedule"
)

const (
	markSize  = 4 // base64 characters of 24 bits
	tickSize  = 5 // of 30 bits: minutes since 1970
	entrySize = markSize + tickSize
)

// markOf returns the mark of a job in metadata.
func markOf(name string) string {
	h := fnv.New64a()
	h.Write([]byte(name))
	sum := h.Sum64()
	return encode(uint32(sum^sum>>24^sum>>48)&(1<<24-1), markSize)
}

func encode(n uint32, size int) string {
	bits := uint64(n) << (64 - 6*size)
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, bits))[:size]
}

// decode returns the number that encode wrote in the first size characters.
func decode(text string, size int) (n uint32, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString((text[:size] + "AAAAAAAA")[:8])
	if err != nil {
		return 0, false
	}
	return uint32(binary.BigEndian.Uint64(append([]byte{0, 0}, raw...)) >> (48 - 6*size)), true
}

func decodeTick(text string) (time.Time, bool) {
	n, ok := decode(text, tickSize)
	if !ok {
		return time.Time{}, false
	}
	return time.Unix(int64(n)*60, 0).UTC(), true
}

// toldTick returns the tick of a mark in a value of [TicksKey]; zero: it has none.
func toldTick(list, mark string) time.Time {
	for ; len(list) >= entrySize; list = list[entrySize:] {
		if list[:markSize] == mark {
			tick, _ := decodeTick(list[markSize:entrySize])
			return tick
		}
	}
	return time.Time{}
}

// RunsKey is the metadata key of the last runs that a member has begun, or has taken over from
// the last leader of a job: the latest first, as many as there is room for.
const RunsKey = "batuta.runs"

// record is the last run of a job. It takes 20 characters: the mark of the job, the mark of the
// member, and 72 bits.
type record struct {
	by     string // mark of the member
	began  int64  // Unix seconds; 0: no run has begun
	took   time.Duration
	exit   uint8 // the exit code, or 128 and the signal
	state  state
	tries  int
	late   bool
	byHand bool
	missed int // scheduled times without a run
}

// state is the progress of a run.
type state uint8

const (
	none      state = iota
	running         // it has not ended
	ended           // by itself
	stopped         // its member no longer led the job
	timedOut        // it took too long
	unstarted       // the command could not be started
)

const (
	recordSize = 2*markSize + 12
	maxMissed  = 1<<11 - 1
	maxTries   = 7
)

// newer reports whether r is a later record of the same job.
func (r record) newer(than record) bool {
	return cmp.Or(cmp.Compare(r.began, than.began), cmp.Compare(r.tries, than.tries),
		compareBool(r.state != running, than.state != running), cmp.Compare(r.missed, than.missed)) > 0
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// text returns the record of a job as members publish it.
func (r record) text(mark string) string {
	flags := uint64(r.state)<<5 | uint64(min(r.tries, maxTries))<<2 | bit(r.late)<<1 | bit(r.byHand)
	all := binary.BigEndian.AppendUint64(nil, uint64(uint32(r.began))<<32|packTime(r.took)<<20|uint64(r.exit)<<12|uint64(min(r.missed, maxMissed)))
	return mark + r.by + base64.RawURLEncoding.EncodeToString(append(all, byte(flags)))
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// recordIn returns the record of a job in a value of [RunsKey]. false: it has none.
func recordIn(list, mark string) (r record, ok bool) {
	for ; len(list) >= recordSize; list = list[recordSize:] {
		if list[:markSize] != mark {
			continue
		}
		raw, err := base64.RawURLEncoding.DecodeString(list[2*markSize : recordSize])
		if err != nil {
			return r, false
		}
		n, flags := binary.BigEndian.Uint64(raw), raw[8]
		return record{by: list[markSize : 2*markSize], began: int64(n >> 32), took: unpackTime(n >> 20 & (1<<12 - 1)), exit: uint8(n >> 12), missed: int(n & maxMissed),
			state: state(flags >> 5), tries: int(flags >> 2 & maxTries), late: flags&2 != 0, byHand: flags&1 != 0}, true
	}
	return r, false
}

// packTime encodes up to eight years in 12 bits: milliseconds, exact to a part in 128.
func packTime(d time.Duration) uint64 {
	ms := uint64(max(d.Milliseconds(), 0))
	if ms < 128 {
		return ms
	}
	shift := min(bits.Len64(ms)-8, 30)
	return uint64(shift+1)<<7 | min(ms>>shift, 255)&127
}

func unpackTime(n uint64) time.Duration {
	if n < 128 {
		return time.Duration(n) * time.Millisecond
	}
	return time.Duration((n&127|128)<<(n>>7-1)) * time.Millisecond
}

// lastRecord returns the latest record of a job in the metadata of members, or own.
func lastRecord(members []batuta.MemberStatus, mark string, own record) record {
	for _, m := range members {
		if r, ok := recordIn(m.Meta[RunsKey], mark); ok && r.newer(own) && time.Until(time.Unix(r.began, 0)) < schedule.FarAhead {
			own = r
		}
	}
	return own
}

// OrdersKey is the metadata key of users' requests for jobs. Each member with a job in its file
// publishes the latest order that it has received, so an order is kept as long as such a member
// runs.
const OrdersKey = "batuta.orders"

// order is users' requests for a job: three counters of 18 bits. The higher counter wins, so two
// sides of a partition agree once they reconnect. It takes 13 characters, including the mark of the
// job.
type order struct {
	pauses uint32 // odd: the job is paused
	asked  uint32 // runs that were requested
	begun  uint32 // the last of those that has begun
}

const (
	orderSize = markSize + 3*countSize
	countSize = 3
	maxCount  = 1<<(6*countSize) - 1
)

func (o order) paused() bool { return o.pauses%2 == 1 }

// with returns o and p merged.
func (o order) with(p order) order {
	return order{max(o.pauses, p.pauses), max(o.asked, p.asked), max(o.begun, p.begun)}
}

func (o order) text(mark string) string {
	return mark + encode(o.pauses, countSize) + encode(o.asked, countSize) + encode(o.begun, countSize)
}

// ordersIn adds the orders in a value of [OrdersKey] for jobs with a mark in all.
func ordersIn(list string, all map[string]order) {
	for ; len(list) >= orderSize; list = list[orderSize:] {
		mark, o := list[:markSize], order{}
		own, there := all[mark]
		for i, c := range []*uint32{&o.pauses, &o.asked, &o.begun} {
			n, ok := decode(list[markSize+countSize*i:], countSize)
			*c, there = n, there && ok
		}
		if there {
			all[mark] = own.with(o)
		}
	}
}
