// Package statefile keeps a member's state in one small file of a directory, so that
// it survives a power cut. Each of its errors says what to do about it.
package statefile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/google/renameio/v2"

	"github.com/batuta-dev/batuta/election"
)

// Dir is the data directory of one member, its alone, with the state file in it:
//
//	batuta-state 1 <SHA-256 of "1\n" and the lines below, hexadecimal>
//	{"id":"5","incarnation":…,"epoch":7,"leader":"5","members":[…]}
//
// Each write replaces it as a whole, and the file before it stays as the
// previous copy. The directory is locked for as long as the process lives.
type Dir struct {
	dir  string
	lock *os.File
	log  *slog.Logger
	keep bool // the state file is good: let it be the previous copy

	// What the kernel does; a test may see to it, or refuse.
	link    func(old, new string) error
	syncDir func(dir string) error
}

// Names in the data directory.
const (
	File         = "state"
	previousFile = "state.previous"
	lockFile     = "lock"

	stateMagic   = "batuta-state"
	stateVersion = "1"

	// maxState is more than any state takes: JSON writes a quotation mark in an id as
	// two bytes, an entry's names and numbers as 128 at most.
	maxState = 2*election.MaxListBytes + 128*election.MaxMembers + 4096
)

// errDamaged says that a state file does not hold what was written.
var errDamaged = errors.New("damaged")

// Open creates dir if need be, locks it and makes sure that it can be written. Its
// warnings go to log.
func Open(dir string, log *slog.Logger) (*Dir, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory %s: %w: name one that can be made", dir, remedy(err))
	}
	if err := checkAccess(dir); err != nil {
		return nil, fmt.Errorf("data directory %s %w", dir, err)
	}
	for _, name := range []string{File, previousFile, lockFile} {
		if err := checkFile(filepath.Join(dir, name)); err != nil {
			return nil, fmt.Errorf("data directory %s: %w", dir, err)
		}
	}
	lock, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", dir, remedy(err))
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("data directory %s is in use by another process: give each member its own", dir)
	}
	s := &Dir{dir: dir, lock: lock, log: log, link: os.Link, syncDir: syncDir}
	s.sweep()
	return s, nil
}

// sweep removes what a write left that was cut off.
func (s *Dir) sweep() {
	left, err := filepath.Glob(filepath.Join(s.dir, "."+File+"*"))
	if err != nil {
		return // only a bad pattern does
	}
	for _, name := range left {
		os.Remove(name)
	}
}

// Close lets go of the directory.
func (s *Dir) Close() error { return s.lock.Close() }

func (s *Dir) path(name string) string { return filepath.Join(s.dir, name) }

// Load gives what was last saved; the zero State at a first start. A damaged file
// means the previous copy and a warning; when that is no better, an error.
func (s *Dir) Load() (election.State, error) {
	state, err := Read(s.path(File))
	if err == nil {
		s.keep = true
		return state, nil
	}
	if !errors.Is(err, errDamaged) && !errors.Is(err, fs.ErrNotExist) {
		return election.State{}, fmt.Errorf("%w: make the file readable for this user, or replace a disk that fails", err)
	}
	previous, errPrevious := Read(s.path(previousFile))
	switch {
	case errPrevious == nil:
		s.log.Warn("the state file cannot be used; the previous copy is", "error", err, "copy", s.path(previousFile), "epoch", previous.Token.Epoch)
		return previous, nil
	case errors.Is(err, fs.ErrNotExist) && errors.Is(errPrevious, fs.ErrNotExist):
		return election.State{}, nil // a first start
	}
	return election.State{}, fmt.Errorf("no usable state in %s: %w; and its previous copy: %w: restore the file from a backup, or remove %s and %s while the other members run, so that this one learns the epoch from them",
		s.dir, err, errPrevious, s.path(File), s.path(previousFile))
}

// Save returns once the state survives a power cut, with what keeps it from that.
func (s *Dir) Save(state election.State) error {
	if err := s.save(state); err != nil {
		return fmt.Errorf("save the state: %w", remedy(err))
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
	file, err := renameio.NewPendingFile(s.path(File), renameio.WithTempDir(s.dir), renameio.WithPermissions(0o600))
	if err != nil {
		return err
	}
	defer file.Cleanup()
	if _, err := file.Write(body); err != nil {
		return err
	}
	if err := s.keepPrevious(); err != nil {
		return fmt.Errorf("keep the previous copy: %w", err)
	}
	if err := file.CloseAtomicallyReplace(); err != nil {
		return err
	}
	s.keep = true
	return s.syncDir(s.dir)
}

// keepPrevious makes the present file the previous copy. The present one never
// goes away meanwhile, and one that is damaged never replaces a good copy.
func (s *Dir) keepPrevious() error {
	if !s.keep {
		return nil
	}
	if err := os.Remove(s.path(previousFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := s.link(s.path(File), s.path(previousFile))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EIO) {
		return err // a copy would fare no better
	}
	if err != nil {
		return s.copyPrevious() // no hard links here: exFAT, some network file systems
	}
	return nil
}

// copyPrevious makes the previous copy where there are no hard links.
func (s *Dir) copyPrevious() error {
	body, err := os.ReadFile(s.path(File))
	if err != nil {
		return err
	}
	return renameio.WriteFile(s.path(previousFile), body, 0o600, renameio.WithTempDir(s.dir))
}

// syncDir makes the names in a directory safe, not only the files.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync the directory: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("sync the directory: %w", err)
	}
	return nil
}

// savedState is the layout of the file's second line.
type savedState struct {
	ID          election.ID `json:"id"`
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

func encodeState(s election.State) ([]byte, error) {
	saved := savedState{ID: s.ID, Incarnation: s.Incarnation,
		Epoch: s.Token.Epoch, Leader: s.Token.Leader.ID, Priority: s.Token.Leader.Priority}
	for _, m := range s.Members {
		saved.Members = append(saved.Members, savedMember{m.ID, m.Priority, m.Address, m.Observer, m.Version, m.Gone, m.Fixed, m.New, m.Pinned})
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false) // '<' is one byte, and six as \u003c
	if err := encoder.Encode(saved); err != nil {
		return nil, err
	}
	body := out.Bytes()
	return fmt.Appendf(nil, "%s %s %s\n%s", stateMagic, stateVersion, checksum(stateVersion, body), body), nil
}

// checksum covers the version too, so that every flipped bit of the file shows.
func checksum(version string, body []byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n", version)
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}

// Read gives the state that one file holds. It locks nothing.
func Read(name string) (election.State, error) {
	info, err := os.Stat(name)
	if err != nil {
		return election.State{}, err
	}
	if info.Size() > maxState {
		return election.State{}, fmt.Errorf("%s: %w: %d bytes, far more than a state takes", name, errDamaged, info.Size())
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return election.State{}, err
	}
	s, err := decodeState(data)
	if err != nil {
		return election.State{}, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

func decodeState(data []byte) (election.State, error) {
	damaged := func(format string, args ...any) (election.State, error) {
		return election.State{}, fmt.Errorf("%w: "+format, append([]any{errDamaged}, args...)...)
	}
	head, body, whole := bytes.Cut(data, []byte("\n"))
	fields := strings.Split(string(head), " ")
	if !whole || len(fields) != 3 || fields[0] != stateMagic {
		return damaged("it does not begin as a state file")
	}
	version, sum := fields[1], fields[2]
	if sum != checksum(version, body) {
		return damaged("its checksum does not match")
	}
	if version != stateVersion {
		return election.State{}, fmt.Errorf("written by a version of batuta with another layout (%s, and this is %s)", version, stateVersion)
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
	state := election.State{ID: s.ID, Incarnation: s.Incarnation,
		Token: election.Token{Epoch: s.Epoch, Leader: election.Rank{Priority: s.Priority, ID: s.Leader}}}
	for _, m := range s.Members {
		e := election.Member{Rank: election.Rank{Priority: m.Priority, ID: m.ID}, Address: m.Address, Observer: m.Observer, Version: m.Version, Gone: m.Gone, Fixed: m.Fixed, New: m.New, Pinned: m.Pinned}
		state.Members = append(state.Members, e)
	}
	var err error
	if state.Members, err = election.CheckList(state.Members); err != nil {
		return damaged("%v", err)
	}
	return state, nil
}
