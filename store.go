package batuta

import (
	"log/slog"

	"github.com/batuta-dev/batuta/election"
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
