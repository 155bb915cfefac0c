package jobs

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"math/bits"
	"time"

	"github.com/batuta-dev/batuta"
)

// RunsKey is the metadata key of the last runs that a member has begun, or has taken over from
// the last leader of a job: the latest first, as many as there is room for.
const RunsKey = "batuta.runs"

// record is the last run of a job. It takes 20 characters: the mark of the job, that of the
// member, and 72 bits.
type record struct {
	by     string // mark of the member
	began  int64  // Unix seconds; 0: none has begun
	took   time.Duration
	exit   uint8 // the exit code, or 128 and the signal
	state  state
	tries  int
	late   bool
	byHand bool
	missed int // scheduled times without a run
}

// state is how far a run has come.
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

// text is the record of that job as members publish it.
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

// recordIn finds the record of a job in a value of [RunsKey]. false: it has none.
func recordIn(value, mark string) (r record, ok bool) {
	for ; len(value) >= recordSize; value = value[recordSize:] {
		if value[:markSize] != mark {
			continue
		}
		raw, err := base64.RawURLEncoding.DecodeString(value[2*markSize : recordSize])
		if err != nil {
			return r, false
		}
		n, flags := binary.BigEndian.Uint64(raw), raw[8]
		return record{by: value[markSize : 2*markSize], began: int64(n >> 32), took: unpackTime(n >> 20 & (1<<12 - 1)), exit: uint8(n >> 12), missed: int(n & maxMissed),
			state: state(flags >> 5), tries: int(flags >> 2 & maxTries), late: flags&2 != 0, byHand: flags&1 != 0}, true
	}
	return r, false
}

// packTime has 12 bits for up to eight years: milliseconds, exact within one part in 128.
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

// lastRecord is the latest record of a job that any of those members publishes, and own.
func lastRecord(members []batuta.MemberStatus, mark string, own record) record {
	for _, m := range members {
		if r, ok := recordIn(m.Meta[RunsKey], mark); ok && r.newer(own) && time.Until(time.Unix(r.began, 0)) < farAhead {
			own = r
		}
	}
	return own
}

// farAhead is more than clocks of one cluster differ.
const farAhead = time.Hour
