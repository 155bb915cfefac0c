// Package statefile keeps a member's state in one small file of a directory, so that
// it survives a power cut. Each of its errors says what to do about it.
package statefile

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/disk/datadir"
)

// Dir is the data directory of one member, its alone, with the state file in it.
//
// The state file holds two slots of one size, see [slot]. A save writes the slot that
// does not hold the last one, in place and with one sync: whatever a power cut leaves
// of it, the last save or the one before is whole. The file is made anew, as a whole
// and under another name first, when there is none, when the state has outgrown its
// slots, and when an older version of batuta wrote it.
//
// The directory is locked for as long as the process lives.
type Dir struct {
	dir  string
	lock *os.File
	log  *slog.Logger
	file os.FileInfo // the state file whose slots are known; nil: none yet
	last slot        // what was saved last, in that file

	// What the kernel does; a test may see to it, or refuse.
	write   func(file *os.File, b []byte, at int64) error
	syncDir func(dir string) error
}

// Names in the data directory.
const (
	File         = "state"
	previousFile = "state.previous" // the save before, of versions whose file holds one
	lockFile     = "lock"

	// maxState is more than any state takes: JSON writes a quotation mark in an id as
	// two bytes, an entry's names and numbers as 128 at most.
	maxState = 2*election.MaxListBytes + 128*election.MaxMembers + 4096
)

// errDamaged says that a state file does not hold what was written.
var errDamaged = errors.New("damaged")

// Open creates dir if need be, locks it and makes sure that it can be written. Its
// warnings go to log.
func Open(dir string, log *slog.Logger) (*Dir, error) {
	lock, err := datadir.Lock(dir, lockFile, File, previousFile)
	if err != nil {
		return nil, err
	}
	s := &Dir{dir: dir, lock: lock, log: log, write: datadir.Write, syncDir: datadir.Sync}
	datadir.Sweep(dir, File)
	return s, nil
}

// Close lets go of the directory.
func (s *Dir) Close() error { return s.lock.Close() }

func (s *Dir) path(name string) string { return filepath.Join(s.dir, name) }

// Load gives what was last saved; the zero State at a first start. Where the last
// save is damaged it gives the one before and a warning; when that is no better, an
// error.
func (s *Dir) Load() (election.State, error) {
	c, err := readCopies(s.path(File))
	if err == nil {
		if c.damaged {
			s.log.Warn("one of the two copies in the state file is damaged, as a power cut during a save leaves it; the other is used", "file", s.path(File), "epoch", c.state.Token.Epoch)
		}
		s.know(c)
		return c.state, nil
	}
	if !errors.Is(err, errDamaged) && !errors.Is(err, fs.ErrNotExist) {
		return election.State{}, fmt.Errorf("read the state: %w", datadir.Remedy(err))
	}
	previous, errPrevious := Read(s.path(previousFile))
	switch {
	case errPrevious == nil:
		s.log.Warn("the state file cannot be used; the previous copy is", "error", err, "copy", s.path(previousFile), "epoch", previous.Token.Epoch)
		return previous, nil
	case errors.Is(err, fs.ErrNotExist) && errors.Is(errPrevious, fs.ErrNotExist):
		return election.State{}, nil // a first start
	case errors.Is(errPrevious, fs.ErrNotExist):
		return election.State{}, fmt.Errorf("no usable state in %s: %w: restore the file from a backup, or remove %s while the other members run, so that this one learns the epoch from them",
			s.dir, err, s.path(File))
	}
	return election.State{}, fmt.Errorf("no usable state in %s: %w; and its previous copy: %w: restore the file from a backup, or remove %s and %s while the other members run, so that this one learns the epoch from them",
		s.dir, err, errPrevious, s.path(File), s.path(previousFile))
}

// know keeps where the next save goes.
func (s *Dir) know(c copies) {
	s.file, s.last = nil, c.slot
	if c.slot.size > 0 {
		s.file = c.file
		os.Remove(s.path(previousFile)) // left by a version whose file held one save
	}
}

// Read gives the state that a state file holds.
func Read(name string) (election.State, error) {
	c, err := readCopies(name)
	return c.state, err
}

// Save returns once the state survives a power cut, with what keeps it from that.
func (s *Dir) Save(state election.State) error {
	if err := s.save(state); err != nil {
		return fmt.Errorf("save the state: %w", datadir.Remedy(err))
	}
	return nil
}

func (s *Dir) save(state election.State) error {
	body, err := encodeState(state)
	if err != nil {
		return fmt.Errorf("encode it: %w", err)
	}
	if len(body) > maxState {
		return fmt.Errorf("%d bytes, and at most %d are read again: take members off the list", len(body), maxState)
	}
	next := s.last.next()
	if s.file != nil && next.fits(body) {
		done, err := s.overwrite(next, body)
		if done || err != nil {
			return err
		}
	}
	return s.replace(body)
}

// overwrite saves into a slot of the file, and tells whether it has: not when the
// file is gone or another.
func (s *Dir) overwrite(into slot, body []byte) (bool, error) {
	file, err := os.OpenFile(s.path(File), os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return false, err
	}
	if !os.SameFile(info, s.file) || info.Size() != 2*into.size {
		return false, nil
	}
	// After an error the next save goes to this slot again: the other one is whole.
	if err := s.write(file, into.encode(body), into.offset()); err != nil {
		return false, err
	}
	s.last = into
	return true, nil
}

// replace makes the file anew, with the save before in its other slot.
func (s *Dir) replace(body []byte) error {
	first, older := s.last, s.older()
	first.size = max(slotSize(body), slotSize(older))
	content := make([]byte, 2*first.size)
	if older != nil {
		first.number = max(first.number, 1)
		copy(content[first.offset():], first.encode(older))
	}
	next := first.next()
	copy(content[next.offset():], next.encode(body))
	info, err := datadir.Replace(s.path(File), content)
	if err != nil {
		return err
	}
	if err := s.syncDir(s.dir); err != nil {
		return err
	}
	s.know(copies{file: info, slot: next})
	return nil
}

// older is what the save before holds, as far as it can be read.
func (s *Dir) older() []byte {
	for _, name := range []string{File, previousFile} {
		if c, err := readCopies(s.path(name)); err == nil {
			return c.body
		}
	}
	return nil
}
