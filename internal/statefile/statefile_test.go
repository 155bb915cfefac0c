package statefile

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/machine"
)

func stateOf(epoch uint64) election.State {
	return election.State{ID: "5", Incarnation: 1234, Token: election.Token{Epoch: epoch, Leader: election.Rank{Priority: 2, ID: "4"}},
		Members: []election.Member{{Rank: election.Rank{ID: "4", Priority: 2}, Address: "127.0.0.1:7404", Version: 3, Gone: election.Left}}}
}

// openStore opens dir; its warnings go to the buffer.
func openStore(t *testing.T, dir string) (*Dir, *bytes.Buffer) {
	t.Helper()
	var warnings bytes.Buffer
	s, err := Open(dir, slog.New(slog.NewTextHandler(&warnings, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, &warnings
}

// saveTwice leaves epoch 6 as the previous copy and epoch 7 as the state.
func saveTwice(t *testing.T, dir string) {
	t.Helper()
	s, _ := openStore(t, dir)
	for _, epoch := range []uint64{6, 7} {
		if err := s.Save(stateOf(epoch)); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
}

func TestAnEmptyDirectoryIsAFirstStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s, warnings := openStore(t, dir)
	state, err := s.Load()
	if err != nil || !equalStates(state, election.State{}) || warnings.Len() > 0 {
		t.Errorf("%+v, %v, %s", state, err, warnings)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestWhatIsSavedIsLoaded(t *testing.T) {
	dir := t.TempDir()
	saveTwice(t, dir)
	s, warnings := openStore(t, dir)
	state, err := s.Load()
	if err != nil || !equalStates(state, stateOf(7)) || warnings.Len() > 0 {
		t.Errorf("%+v, %v, %s", state, err, warnings)
	}
	if previous, err := Read(s.path(previousFile)); err != nil || !equalStates(previous, stateOf(6)) {
		t.Errorf("previous copy: %+v, %v", previous, err)
	}
}

// damages calls f with every truncation of data and every single flipped bit.
func damages(data []byte, f func(damaged []byte)) {
	for n := range data {
		f(data[:n])
	}
	for i := range data {
		for bit := range 8 {
			damaged := bytes.Clone(data)
			damaged[i] ^= 1 << bit
			f(damaged)
		}
	}
}

func TestEveryDamageMeansTheOlderCopyAndAWarning(t *testing.T) {
	dir := t.TempDir()
	saveTwice(t, dir)
	s, warnings := openStore(t, dir)
	data, err := os.ReadFile(s.path(File))
	if err != nil {
		t.Fatal(err)
	}
	damages(data, func(damaged []byte) {
		if err := os.WriteFile(s.path(File), damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		warnings.Reset()
		state, err := s.Load()
		if err != nil || !equalStates(state, stateOf(6)) {
			t.Fatalf("%q gives %+v, %v", damaged, state, err)
		}
		if !strings.Contains(warnings.String(), s.path(File)) {
			t.Fatalf("%q gives the warning %q", damaged, warnings)
		}
	})
}

// longest is an entry that takes as much room as one can, in memory and in a file.
func longest(i int) election.Member {
	id := fmt.Sprintf("%s%04d", strings.Repeat(`"`, election.MaxID-4), i)
	addr := strings.Repeat(strings.Repeat("h", 62)+".", 3) + strings.Repeat("h", 61) + ":65535"
	return election.Member{Rank: election.Rank{ID: election.ID(id), Priority: math.MinInt}, Address: addr, Observer: true, Version: election.MaxVersion, Gone: election.Removed}
}

// Whatever the Machine takes onto its list can be saved, and what is saved loaded.
func TestAListAtItsBoundIsSavedAndLoaded(t *testing.T) {
	for what, entry := range map[string]func(i int) election.Member{
		"many": func(i int) election.Member {
			e := longest(i)
			e.ID, e.Address = election.ID(fmt.Sprintf(`"%04d`, i)), "h:1"
			return e
		},
		"long": longest,
		"tags": func(i int) election.Member {
			e := longest(i)
			e.ID, e.Address = election.ID(strings.ReplaceAll(string(e.ID), `"`, "<")), "h:1"
			return e
		},
	} {
		t.Run(what, func(t *testing.T) {
			m, err := machine.New(machine.Config{Self: election.Rank{ID: `"`}, Address: "h:1", Incarnation: 1, Algorithm: bully.New()})
			if err != nil {
				t.Fatal(err)
			}
			m.Step(time.Unix(0, 0), election.Event{Kind: election.Started})
			list := make([]election.Member, 0, election.MaxMembers)
			for i := range election.MaxMembers {
				list = append(list, entry(i))
			}
			state := stateOf(1)
			for _, a := range m.Step(time.Unix(0, 0), election.Event{Kind: election.Welcomed, List: list}) {
				if a.Kind == election.Save {
					state = a.State
				}
			}
			state.Members = m.List()
			refused := 0
			for _, e := range list {
				if _, ok := m.Entry(e.ID); !ok {
					refused++
					if m.AdmitJoin(time.Unix(0, 0), e, 1) != election.ErrFull {
						t.Fatalf("%s is not on the list, and not refused", e.ID)
					}
				}
			}
			if refused == 0 || refused == len(list) {
				t.Fatalf("%d of %d entries are refused", refused, len(list))
			}
			dir := t.TempDir()
			s, _ := openStore(t, dir)
			for range 2 { // and with a previous copy
				if err := s.Save(state); err != nil {
					t.Fatal(err)
				}
			}
			got, err := s.Load()
			if err != nil || !equalStates(got, state) {
				t.Errorf("%d entries saved, %d loaded: %v", len(state.Members), len(got.Members), err)
			}
		})
	}
}

func TestAStateThatIsTooLargeIsNotSaved(t *testing.T) {
	dir := t.TempDir()
	saveTwice(t, dir)
	s, _ := openStore(t, dir)
	if _, err := s.Load(); err != nil {
		t.Fatal(err)
	}
	large := stateOf(8)
	for i := range election.MaxMembers {
		large.Members = append(large.Members, longest(i))
	}
	if err := s.Save(large); err == nil || !strings.Contains(err.Error(), "take members off") {
		t.Errorf("got %v", err)
	}
	if state, err := s.Load(); err != nil || !equalStates(state, stateOf(7)) {
		t.Errorf("%+v, %v", state, err)
	}
}

// A disk may hold a list from before there was a bound in bytes.
func TestAListBeyondItsBoundIsCutAtTheStart(t *testing.T) {
	state := election.State{ID: `"`, Incarnation: 1}
	for i := range election.MaxMembers {
		state.Members = append(state.Members, longest(i))
	}
	last := state.Members[len(state.Members)-1]
	last.Gone, last.Version = election.Present, 0
	m, err := machine.New(machine.Config{Self: election.Rank{ID: `"`}, Address: "h:1", Incarnation: 2, State: state,
		Members: []election.Member{last}, Algorithm: bully.New()})
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, e := range m.List() {
		size += e.Size()
	}
	if _, ok := m.Entry(last.ID); !ok || size > election.MaxListBytes || size < election.MaxListBytes*9/10 {
		t.Errorf("a list of %d bytes; it holds the member that is configured: %v", size, ok)
	}
}

func TestAFileSystemWithoutHardLinks(t *testing.T) {
	for _, refusal := range []error{syscall.EPERM, syscall.ENOTSUP, syscall.EXDEV, syscall.ENOSYS, syscall.EMLINK} {
		t.Run(refusal.Error(), func(t *testing.T) {
			s, warnings := openStore(t, t.TempDir())
			s.link = func(old, new string) error { return &os.LinkError{Op: "link", Old: old, New: new, Err: refusal} }
			for _, epoch := range []uint64{5, 6, 7} {
				if err := s.Save(stateOf(epoch)); err != nil {
					t.Fatal(err)
				}
			}
			if state, err := s.Load(); err != nil || !equalStates(state, stateOf(7)) || warnings.Len() > 0 {
				t.Errorf("%+v, %v, %s", state, err, warnings)
			}
			if previous, err := Read(s.path(previousFile)); err != nil || !equalStates(previous, stateOf(6)) {
				t.Errorf("previous copy: %+v, %v", previous, err)
			}
		})
	}
}

func TestBothCopiesDamagedIsRefusedWithTheWayOut(t *testing.T) {
	dir := t.TempDir()
	saveTwice(t, dir)
	s, _ := openStore(t, dir)
	for _, name := range []string{File, previousFile} {
		if err := os.WriteFile(s.path(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.Load()
	if err == nil || !strings.Contains(err.Error(), s.path(File)) || !strings.Contains(err.Error(), "remove") {
		t.Errorf("got %v", err)
	}
}

func TestADamagedFileNeverReplacesTheGoodCopy(t *testing.T) {
	dir := t.TempDir()
	saveTwice(t, dir)
	s, _ := openStore(t, dir)
	if err := os.WriteFile(s.path(File), []byte("damage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(stateOf(8)); err != nil {
		t.Fatal(err)
	}
	previous, err := Read(s.path(previousFile))
	if err != nil || !equalStates(previous, stateOf(6)) {
		t.Errorf("previous copy: %+v, %v", previous, err)
	}
}

func TestAnotherLayoutIsNotTakenForDamage(t *testing.T) {
	dir := t.TempDir()
	saveTwice(t, dir)
	s, _ := openStore(t, dir)
	body := "{}\n"
	later := stateMagic + " 2 " + checksum("2", []byte(body)) + "\n" + body
	if err := os.WriteFile(s.path(File), []byte(later), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(); err == nil || !strings.Contains(err.Error(), "version") {
		t.Errorf("got %v; the older copy would lower the epoch in silence", err)
	}
}

func TestTwoProcessesCannotShareADirectory(t *testing.T) {
	dir := t.TempDir()
	openStore(t, dir)
	if _, err := Open(dir, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("got %v", err)
	}
}

func TestAWriteThatWasCutOffLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, ".state1234")
	if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	openStore(t, dir)
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", left, err)
	}
}

func TestEntriesThatWereNeverMembersAreLeftOut(t *testing.T) {
	data, err := encodeState(election.State{ID: "3", Members: []election.Member{
		{Rank: election.Rank{ID: "3"}, Address: "h:1"}, {Rank: election.Rank{ID: "4"}, Address: "$(touch x):80"},
		{Rank: election.Rank{ID: "a\u202eb"}, Address: "h:2"}, {Rank: election.Rank{ID: "5"}, Address: "\x1b[31m:80"}, {Rank: election.Rank{ID: "6"}}}})
	if err != nil {
		t.Fatal(err)
	}
	state, err := decodeState(data)
	if err != nil || len(state.Members) != 2 || state.Members[0].ID != "3" || state.Members[1].ID != "6" {
		t.Errorf("%+v, %v", state, err)
	}
}

func FuzzState(f *testing.F) {
	good, err := encodeState(stateOf(7))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(stateMagic + " 1 " + checksum("1", []byte("{}")) + "\n{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := decodeState(data)
		if err != nil {
			return
		}
		if s.ID == "" || s.Token.Epoch > election.MaxEpoch {
			t.Fatalf("accepted %+v", s)
		}
		again, err := encodeState(s)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := decodeState(again); err != nil || !equalStates(back, s) {
			t.Fatalf("%+v came back as %+v, %v", s, back, err)
		}
	})
}

func equalStates(a, b election.State) bool {
	return a.ID == b.ID && a.Incarnation == b.Incarnation && a.Token == b.Token &&
		slices.Equal(a.Members, b.Members)
}

// A name is safe only when its directory is: after the state file is in its place,
// and before anyone is told that it is saved.
func TestTheDirectoryIsSyncedBehindTheFile(t *testing.T) {
	s, err := Open(t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var synced []uint64
	s.syncDir = func(dir string) error {
		state, err := Read(filepath.Join(dir, File))
		if err != nil {
			t.Error(err)
		}
		synced = append(synced, state.Token.Epoch)
		return syncDir(dir)
	}
	for e := range uint64(3) {
		if err := s.Save(election.State{ID: "1", Token: stateOf(e + 1).Token}); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(synced, []uint64{1, 2, 3}) {
		t.Errorf("synced with the epochs %v in place", synced)
	}
	broken := errors.New("it cannot be synced")
	s.syncDir = func(string) error { return broken }
	if err := s.Save(election.State{ID: "1", Token: stateOf(4).Token}); !errors.Is(err, broken) {
		t.Errorf("Save gives %v", err)
	}
}
