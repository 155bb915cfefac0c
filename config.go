package batuta

import (
	"errors"
	"log/slog"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// ErrConfig is wrapped by every error that only a change of the configuration,
// or of what it points at, can mend: a port in use, a damaged data directory.
var ErrConfig = errors.New("configuration")

// Config sets up a [Node]. The zero value of each field but Algorithm works.
type Config struct {
	Cluster  string // name of the cluster; members of another are refused; default "default"
	Election string // what the contest is about; default "default"

	ID        string // this member's id; default a UUIDv4, kept in the store if there is one
	Priority  int    // ranks before the id; default 0
	Listen    string // HOST:PORT to listen on; port 0 picks one; default "127.0.0.1:7400"
	Advertise string // HOST:PORT told to the others; default the listen address as bound

	Members   []Member  // everyone, this member included or not; default nobody else
	Algorithm Algorithm // required; a value of its own for each Node, such as bully.New()
	NoPreempt bool      // a higher-ranked member that returns follows the sitting leader

	Heartbeat time.Duration // between two beats of a leader; below T; default 100 ms
	TMax      time.Duration // longest transmission of a message; default 150 ms
	TProcess  time.Duration // longest handling of a message; default 300 ms

	DataDir   string       // directory of the state file, created 0700; default "": state dies with the process
	Store     Store        // keeps the state instead of DataDir
	Transport Transport    // default TCP
	Logger    *slog.Logger // default: nothing is logged
}

// Validate reports every fault of c at once; each names the field, its value and
// how to mend it, and wraps [ErrConfig].
func (c Config) Validate() error { return nil }

// Store keeps a member's state across its death.
type Store interface {
	// Load gives what was last saved; the zero State at a first start.
	Load() (election.State, error)
	// Save returns once the state survives a power cut.
	Save(election.State) error
}

// Transport carries frames between members.
type Transport interface{}
