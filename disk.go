package batuta

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/disk/logfile"
	"github.com/batuta-dev/batuta/internal/disk/statefile"
	"github.com/google/uuid"
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
// for the user to fix.
type dataDir struct{ *statefile.Dir }

func openDataDir(name, cluster string, log *slog.Logger) (Store, error) {
	dir, err := statefile.Open(name, cluster, log)
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

// records is the log of an algorithm that has a core of its own. It is used in a turn of the node, and by
// the one goroutine that writes.
type records interface {
	Load() ([][]byte, error)
	Append(records ...[]byte) error
	Replace(records ...[]byte) error
	Close() error
}

// saver saves what the cores ask for, one save at a time, and reports how that goes. It is used in a turn of the node.
type saver struct {
	*ground
	store   Store          // nil: none
	records records        // nil: the algorithm keeps none
	saved   chan error     // how a save has ended
	saving  sync.WaitGroup // the save
	began   time.Duration  // when the outstanding save did, on the node's clock; 0: none is
	fault   error          // of the last save
	failed  uint64         // all saves
}

// load opens the store, if any, and settles this member's id.
func (s *saver) load() (state election.State, err error) {
	s.saved = make(chan error, 1) // a saver never waits for the loop
	s.store = s.cfg.Store
	if s.store == nil && s.cfg.DataDir != "" {
		if s.store, err = openDataDir(s.cfg.DataDir, s.cfg.Cluster, s.cfg.Logger); err != nil {
			return state, err
		}
	}
	if s.store != nil {
		if state, err = s.store.Load(); err != nil {
			return state, err
		}
	}
	switch {
	case s.cfg.ID == "" && state.ID == election.None:
		s.cfg.ID = ID(uuid.NewString())
	case s.cfg.ID == "":
		s.cfg.ID = state.ID
	case state.ID != election.None && state.ID != s.cfg.ID:
		return state, config("data directory %s belongs to member %s, and this is member %s: give each member its own, or set Config.ID to %s", s.cfg.DataDir, state.ID, s.cfg.ID, state.ID)
	}
	s.id = s.cfg.ID
	s.cfg.Logger = s.cfg.Logger.With("id", string(s.cfg.ID), "cluster", s.cfg.Cluster)
	return state, errors.Join(s.cfg.checkMembers()...)
}

// open saves the state that this process starts with, and returns the records that a log holds, if the algorithm
// needs one.
func (s *saver) open(state election.State) (held [][]byte, err error) {
	if s.store != nil {
		if err := s.store.Save(state); err != nil {
			return nil, config("data directory %s: %w", s.cfg.DataDir, err)
		}
	}
	if !durable(s.cfg.Algorithm) {
		return nil, nil
	}
	log, err := logfile.Open(s.cfg.DataDir, s.cfg.Logger)
	if err != nil {
		return nil, config("%w", err)
	}
	s.records = log
	if held, err = log.Load(); err != nil {
		return nil, config("%w", err)
	}
	return held, nil
}

// version is that of the layout of the data directory; 0: there is none.
func (s *saver) version() int {
	if _, ok := s.store.(dataDir); ok {
		return statefile.Version
	}
	return 0
}

// save writes a state.
func (s *saver) save(state election.State) {
	if s.store == nil {
		s.emit(election.Event{Kind: election.Saved})
		return
	}
	s.write(func() error { return s.store.Save(state) })
}

// writeRecords writes records.
func (s *saver) writeRecords(a election.Action) {
	switch {
	case s.records == nil:
		s.emit(election.Event{Kind: election.Saved, Err: errors.New("this node keeps no log")})
	case a.Replace:
		s.write(func() error { return s.records.Replace(a.Records...) })
	default:
		s.write(func() error { return s.records.Append(a.Records...) })
	}
}

// write runs a save on a goroutine of its own: a disk may be slow.
func (s *saver) write(save func() error) {
	s.began = max(s.clock.Now(), 1)
	s.saving.Go(func() { s.saved <- save() })
}

// wasSaved takes note of how a save ended, and logs what has changed.
func (s *saver) wasSaved(err error) {
	was := s.fault
	s.began, s.fault = 0, err
	switch {
	case err != nil:
		if s.failed++; was == nil || was.Error() != err.Error() {
			s.cfg.Logger.Warn("the state cannot be saved", "error", err)
		}
	case was != nil:
		s.cfg.Logger.Warn("the state can be saved again", "failed", s.failed)
	}
	s.emit(election.Event{Kind: election.Saved, Err: err})
}

// trouble is what is wrong with the disk; "" when nothing is known to be.
func (s *saver) trouble() string {
	if since := s.clock.Now() - s.began; s.began > 0 && since > s.timeout {
		return fmt.Sprintf("a save has not ended in %v", since.Round(time.Millisecond))
	}
	if s.fault != nil {
		return s.fault.Error()
	}
	return ""
}

// end closes the store once the outstanding save has ended, for which it waits T at most.
// A save that hangs is left behind, and closes the store when it ends: until then no process
// else may open that.
func (s *saver) end() error {
	saved := over(&s.saving)
	if endsWithin(s.timeout, saved) {
		return s.Close()
	}
	s.cfg.Logger.Error("the node ends while a save hangs: its goroutine, and the lock on the data directory, are left until the disk answers; end the process to free them", "error", s.trouble())
	go func() {
		<-saved
		_ = s.Close() // no caller is left
	}()
	return nil
}

// Close closes the store and the log.
func (s *saver) Close() error {
	if s.records != nil {
		defer s.records.Close()
	}
	if c, ok := s.store.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
