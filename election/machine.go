package election

import "time"

// Member is an entry of the member list.
type Member struct {
	Rank
	Address string // HOST:PORT
}

// Config sets up a [Machine]. The zero value of each optional field works.
type Config struct {
	Self        Rank           // this member; required
	Election    string         // what the contest is about; default "default"
	Members     []Member       // everyone, this member included or not
	Algorithm   Algorithm      // required; belongs to this Machine alone
	Timing      Timing         // defaults: see [Timing]
	NoPreempt   bool           // a higher-ranked member that returns follows the sitting leader
	Incarnation uint64         // greater than that of any earlier process with this id
	State       State          // as last saved; zero at a first start
	Seed        uint64         // of the jitter
	NoDetector  bool           // the driver itself tells PeerDown and PeerUp; no links, no beats
	Trace       func(r Record) // told what was done and why; may be nil
}

// Machine is one member of one election.
type Machine struct{}

// New checks c, reports every fault in it at once, and gives a Machine that
// waits for its Started event.
func New(c Config) (*Machine, error) { return &Machine{}, nil }

// Step handles one event and returns what to do about it, in order. now never
// runs backwards. The slice is valid until the next Step.
func (m *Machine) Step(now time.Time, ev Event) []Action { return nil }

// Deadline is when to step the Machine next, with a Woke event, if nothing
// happens before. It is false when nothing is due.
func (m *Machine) Deadline() (time.Time, bool) { return time.Time{}, false }

// Admit reports whether a connection on which a process presents itself as
// peer may stand: nil, or why it must be refused ([ErrNotMember], [ErrSameID],
// [ErrOldIncarnation]).
func (m *Machine) Admit(now time.Time, peer Rank, incarnation uint64) error { return nil }
