package batuta

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/disk/logfile"
	"github.com/batuta-dev/batuta/internal/disk/statefile"
)

// Store keeps a member's state across its own death. A Store that is also an
// [io.Closer] is closed with its Node.
type Store interface {
	// Load gives what was last saved; the zero State at a first start.
	Load() (election.State, error)
	// Save returns once the state survives a power cut. It may take long: the
	// Node goes on meanwhile. It is not called again before it has returned.
	Save(election.State) error
}

// dataDir is the Store of [Config.DataDir]. What keeps it from opening or loading is
// for the user to mend.
type dataDir struct{ *statefile.Dir }

func openDataDir(name string, log *slog.Logger) (Store, error) {
	dir, err := statefile.Open(name, log)
	if err != nil {
		return nil, config("%w", err)
	}
	return dataDir{dir}, nil
}

// Load implements [Store].
func (d dataDir) Load() (election.State, error) {
	state, err := d.Dir.Load()
	if err != nil {
		return state, config("%w", err)
	}
	return state, nil
}

// promise is an algorithm with a guarantee of its own; without it the guarantee is
// [GuaranteeBestEffort].
type promise interface {
	Promises() (guarantee string, fencing bool)
}

// promises is what a guarantees.
func promises(a Algorithm) (guarantee string, fencing bool) {
	if p, ok := a.(promise); ok {
		return p.Promises()
	}
	return GuaranteeBestEffort, false
}

// fences reports whether the epoch of a's tokens is a fence.
func fences(a Algorithm) bool {
	_, fencing := promises(a)
	return fencing
}

// durable reports whether an algorithm keeps no promise without a disk.
func durable(a Algorithm) bool {
	d, ok := a.(interface{ Durable() bool })
	return ok && d.Durable()
}

// checkAlgorithm asks the algorithm what is wrong with its options, and whether it has
// the disk that it needs.
func (c Config) checkAlgorithm() (faults []error) {
	if v, ok := c.Algorithm.(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			faults = append(faults, config("%w", err))
		}
	}
	if durable(c.Algorithm) && c.DataDir == "" {
		faults = append(faults, config("no data directory: algorithm %s keeps its promise only if all that it has sent is on disk; set one that no other member uses", c.Algorithm.Name()))
	}
	if durable(c.Algorithm) && c.Wire != nil {
		faults = append(faults, config("algorithm %s does not go with another wire", c.Algorithm.Name()))
	}
	return faults
}

// records is the log of an algorithm that has a core of its own; the loop's, and of the
// a single goroutine that writes.
type records interface {
	Load() ([][]byte, error)
	Append(records ...[]byte) error
	Replace(records ...[]byte) error
	Close() error
}

// openRecords opens the log, if the algorithm needs one, and returns what it holds.
func (n *Node) openRecords() ([][]byte, error) {
	if !durable(n.cfg.Algorithm) {
		return nil, nil
	}
	log, err := logfile.Open(n.cfg.DataDir, n.cfg.Logger)
	if err != nil {
		return nil, config("%w", err)
	}
	n.records = log
	held, err := log.Load()
	if err != nil {
		return nil, config("%w", err)
	}
	return held, nil
}

// appendRecords writes records beside the loop: a disk may be slow.
func (n *Node) appendRecords(a election.Action) {
	if n.records == nil {
		n.emit(election.Event{Kind: election.Saved, Err: errors.New("this node keeps no log")})
		return
	}
	n.saveBegins()
	write := n.records.Append
	if a.Replace {
		write = n.records.Replace
	}
	list := a.Records
	n.saving.Go(func() { n.saved <- write(list...) })
}

// leaseholder is a core whose leadership is in force until a known time.
type leaseholder interface {
	Lease() (until time.Time, leads bool)
}

// lasts is until when, on the node's clock, its leadership lasts if the loop does
// nothing more.
func (n *Node) lasts() time.Duration {
	if h, ok := n.machine.(leaseholder); ok {
		until, leads := h.Lease()
		if !leads {
			return 0
		}
		return until.Sub(n.born)
	}
	return n.stepped + n.cfg.timing().Bears()
}

// warn logs for the operator.
func (n *Node) warn(err error) { n.cfg.Logger.Warn(fmt.Sprintf("%v", err)) }
