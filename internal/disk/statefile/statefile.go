// Package statefile keeps a member's state in a small file of a directory, so that it survives a
// power cut. Each of its errors names what to do about it.
package statefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/disk/datadir"
)

// Dir is the data directory of a single member, with the state file in it.
//
// The state file holds two slots of the same size, see [slot]. A save overwrites the slot of the
// save before the last, in place and with a single sync: after a power cut the last save or the
// save before it is whole. The file is made again, as a whole and under a temporary name first, if
// it is missing, if the state has outgrown its slots, and if an older version of batuta wrote it.
//
// The directory is locked for as long as the process lives.
type Dir struct {
	dir     string
	cluster string // of the member; every save has it
	lock    *os.File
	log     *slog.Logger
	file    os.FileInfo // the state file that last is about; nil: none yet
	last    slot        // the last save, in that file

	// The kernel's work; tests replace it to observe or fail it.
	write   func(file *os.File, b []byte, at int64) error
	syncDir func(dir string) error
}

// Names in the data directory.
const (
	File         = "state"
	previousFile = "state.previous" // the save before, of versions with a single save per file
	lockFile     = "lock"

	// maxState is more than any state takes: JSON writes a quotation mark in an id as two bytes, an
	// entry's names and numbers as 128 at most.
	maxState = 2*election.MaxListBytes + 128*election.MaxMembers + 4096
)

// errDamaged is for a state file that differs from what was written.
var errDamaged = errors.New("damaged")

// Open creates dir if need be, locks it and checks that it can be written, for a member of cluster.
// Its warnings go to log.
func Open(dir, cluster string, log *slog.Logger) (*Dir, error) {
	lock, err := datadir.Lock(dir, lockFile, File, previousFile)
	if err != nil {
		return nil, err
	}
	s := &Dir{dir: dir, cluster: cluster, lock: lock, log: log, write: datadir.Write, syncDir: datadir.Sync}
	datadir.Sweep(dir, File)
	return s, nil
}

// Close releases the directory.
func (s *Dir) Close() error { return s.lock.Close() }

func (s *Dir) path(name string) string { return filepath.Join(s.dir, name) }

// Load returns the last save; the zero State at a first start. If the last save is damaged it warns
// and returns the save before it, or an error if that is damaged too. It refuses a save of a
// different cluster, which has other members and epochs; a save without a cluster is from a version
// that did not write it.
func (s *Dir) Load() (election.State, error) {
	c, unusable, err := find(s.dir)
	switch {
	case err != nil:
		return election.State{}, err
	case unusable != nil:
		s.log.Warn("the state file cannot be used; the previous copy is", "error", unusable, "copy", s.path(previousFile), "epoch", c.state.Token.Epoch)
		return c.state, nil
	case c.file == nil:
		return election.State{}, nil
	}
	if err := s.syncDir(s.dir); err != nil { // an earlier process may have ended before its name was on disk
		return election.State{}, unread(err)
	}
	if c.cluster != "" && c.cluster != s.cluster {
		return election.State{}, fmt.Errorf("data directory %s belongs to cluster %s, and this is cluster %s: give each cluster its own, or set Config.Cluster to %[2]s", s.dir, c.cluster, s.cluster)
	}
	if c.damaged {
		s.log.Warn("one of the two copies in the state file is damaged, as a power cut during a save leaves it; the other is used", "file", s.path(File), "epoch", c.state.Token.Epoch)
	}
	s.know(c)
	return c.state, nil
}

// Inspect returns the member and the cluster of the last save in dir. It changes nothing, and works
// while a member uses the directory. Both are empty before the first start.
func Inspect(dir string) (id election.ID, cluster string, err error) {
	c, _, err := find(dir)
	return c.state.ID, c.cluster, err
}

// find reads the last save in dir; a result without a file is of a first start. If that save cannot
// be used, the result is the previous copy, with the reason.
func find(dir string) (c copies, unusable, err error) {
	file, previous := filepath.Join(dir, File), filepath.Join(dir, previousFile)
	c, unusable = readCopies(file)
	if unusable == nil {
		return c, nil, nil
	}
	if !errors.Is(unusable, errDamaged) && !errors.Is(unusable, fs.ErrNotExist) {
		return copies{}, nil, unread(unusable)
	}
	c, err = readCopies(previous)
	switch missing := errors.Is(err, fs.ErrNotExist); {
	case err == nil:
		return c, unusable, nil
	case missing && errors.Is(unusable, fs.ErrNotExist):
		return copies{}, nil, nil
	case missing:
		return copies{}, nil, fmt.Errorf("no usable state in %s: %w: restore the file from a backup, or remove %s while the other members run, so that this one learns the epoch from them",
			dir, unusable, file)
	}
	return copies{}, nil, fmt.Errorf("no usable state in %s: %w; and its previous copy: %w: restore the file from a backup, or remove %s and %s while the other members run, so that this one learns the epoch from them",
		dir, unusable, err, file, previous)
}

func unread(err error) error { return fmt.Errorf("read the state: %w", datadir.Remedy(err)) }

// know records the position of the last save.
func (s *Dir) know(c copies) {
	s.file, s.last = nil, c.slot
	if c.slot.size > 0 {
		s.file = c.file
		os.Remove(s.path(previousFile)) // left by a version with a single save per file
	}
}

// Read returns the state in a state file.
func Read(name string) (election.State, error) {
	c, err := readCopies(name)
	return c.state, err
}

// Save returns nil once the state survives a power cut, else the error that prevents it.
func (s *Dir) Save(state election.State) error {
	if err := s.save(state); err != nil {
		return fmt.Errorf("save the state: %w", datadir.Remedy(err))
	}
	return nil
}

func (s *Dir) save(state election.State) error {
	body, err := encodeState(state, s.cluster)
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

// overwrite saves into a slot of the file. It returns false if the file is missing or was replaced.
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
	// After an error the next save goes to this slot again: the last save is whole.
	if err := s.write(file, into.encode(body), into.offset()); err != nil {
		return false, err
	}
	s.last = into
	return true, nil
}

// replace makes the file again, with the previous save in its second slot.
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

// older returns the previous save, if it can be read.
func (s *Dir) older() []byte {
	for _, name := range []string{File, previousFile} {
		if c, err := readCopies(s.path(name)); err == nil {
			return c.body
		}
	}
	return nil
}

// savedState is the layout of a state, as a line of JSON.
type savedState struct {
	ID          election.ID `json:"id"`
	Cluster     string      `json:"cluster,omitempty"` // "": written by a version without it
	Incarnation uint64      `json:"incarnation"`
	Epoch       uint64      `json:"epoch"`
	Leader      election.ID `json:"leader,omitempty"`
	Priority    int         `json:"priority,omitempty"` // of the leader

	Members []savedMember `json:"members,omitempty"`
}

type savedMember struct {
	ID       election.ID        `json:"id"`
	Priority int                `json:"priority,omitempty"`
	Address  string             `json:"address,omitempty"`
	Observer bool               `json:"observer,omitempty"`
	Version  uint64             `json:"version,omitempty"`
	Gone     election.Departure `json:"gone,omitempty"`
	Fixed    bool               `json:"fixed,omitempty"`
	New      bool               `json:"new,omitempty"`
	Pinned   bool               `json:"pinned,omitempty"`
}

func encodeState(s election.State, cluster string) ([]byte, error) {
	saved := savedState{ID: s.ID, Cluster: cluster, Incarnation: s.Incarnation,
		Epoch: s.Token.Epoch, Leader: s.Token.Leader.ID, Priority: s.Token.Leader.Priority}
	for _, m := range s.Members {
		saved.Members = append(saved.Members, savedMember{m.ID, m.Priority, m.Address, m.Observer, m.Version, m.Departure, m.Fixed, m.New, m.Pinned})
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false) // '<' is a single byte, and six as \u003c
	if err := encoder.Encode(saved); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func decodeState(body []byte) (state election.State, cluster string, err error) {
	damaged := func(format string, args ...any) (election.State, string, error) {
		return election.State{}, "", fmt.Errorf("%w: "+format, append([]any{errDamaged}, args...)...)
	}
	var s savedState
	if err := json.Unmarshal(body, &s); err != nil {
		return damaged("%v", err)
	}
	if err := election.CheckIDs(s.ID, s.Leader); err != nil {
		return damaged("%v", err)
	}
	if s.ID == election.None || s.Epoch > election.MaxEpoch {
		return damaged("member %q with epoch %d", s.ID, s.Epoch)
	}
	state = election.State{ID: s.ID, Incarnation: s.Incarnation,
		Token: election.Token{Epoch: s.Epoch, Leader: election.Rank{Priority: s.Priority, ID: s.Leader}}}
	for _, m := range s.Members {
		e := election.Member{Rank: election.Rank{Priority: m.Priority, ID: m.ID}, Address: m.Address, Observer: m.Observer, Version: m.Version, Departure: m.Gone, Fixed: m.Fixed, New: m.New, Pinned: m.Pinned}
		state.Members = append(state.Members, e)
	}
	if state.Members, err = election.CheckList(state.Members); err != nil {
		return damaged("%v", err)
	}
	return state, s.Cluster, nil
}
