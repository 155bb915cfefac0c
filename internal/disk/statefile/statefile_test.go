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
	"github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/disk/datadir"
)

func stateOf(epoch uint64) election.State {
	return election.State{ID: "5", Incarnation: 1234, Token: election.Token{Epoch: epoch, Leader: election.Rank{Priority: 2, ID: "4"}},
		Members: []election.Member{{Rank: election.Rank{ID: "4", Priority: 2}, Address: "127.0.0.1:7404", Version: 3, Departure: election.Left}}}
}

// openStore opens dir; its warnings go to the buffer.
func openStore(t *testing.T, dir string) (*Dir, *bytes.Buffer) {
	t.Helper()
	var warnings bytes.Buffer
	s, err := Open(dir, "default", slog.New(slog.NewTextHandler(&warnings, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, &warnings
}

// saveTwice saves epoch 6, then epoch 7.
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
	data, begin, end := content(t, dir)
	clear(data[begin:end])
	if c, err := decodeFile(data); err != nil || !equalStates(c.state, stateOf(6)) {
		t.Errorf("the save before: %+v, %v", c.state, err)
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

// content is the state file of a directory, and where its last save stands in it.
func content(t *testing.T, dir string) (data []byte, begin, end int) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, File))
	if err != nil {
		t.Fatal(err)
	}
	c, err := decodeFile(data)
	if err != nil {
		t.Fatal(err)
	}
	begin = int(c.slot.offset())
	return data, begin, begin + len(c.slot.encode(c.body))
}

func TestEveryDamageMeansTheOlderCopyAndAWarning(t *testing.T) {
	for _, saves := range []uint64{2, 3} { // the last one in either slot
		dir := t.TempDir()
		s, warnings := openStore(t, dir)
		for epoch := range saves {
			if err := s.Save(stateOf(epoch + 5)); err != nil {
				t.Fatal(err)
			}
		}
		data, begin, end := content(t, dir)
		damages(bytes.Clone(data[begin:end]), func(damaged []byte) {
			clear(data[begin:end])
			copy(data[begin:], damaged)
			c, err := decodeFile(data)
			if err != nil || !equalStates(c.state, stateOf(saves+3)) || c.damaged != (len(damaged) > 0) {
				t.Fatalf("%q gives %+v, %v", damaged, c, err)
			}
		})
		if err := os.WriteFile(s.path(File), data, 0o600); err != nil {
			t.Fatal(err)
		}
		state, err := s.Load()
		if err != nil || !equalStates(state, stateOf(saves+3)) || !strings.Contains(warnings.String(), s.path(File)) {
			t.Fatalf("%+v, %v, with the warning %q", state, err, warnings)
		}
	}
}

// A disk writes its sectors in any order, or not: what a power cut leaves of a save is
// any mix of old and new ones.
func TestAPowerCutDuringASaveLeavesTheLastOneOrTheOneBefore(t *testing.T) {
	const sector = 512
	dir := t.TempDir()
	s, _ := openStore(t, dir)
	wide := func(epoch uint64) election.State { // of several sectors
		state := stateOf(epoch)
		state.Members = nil
		for i := range 20 {
			state.Members = append(state.Members, election.Member{Rank: election.Rank{ID: election.ID(fmt.Sprint(10 + i))}, Address: fmt.Sprintf("host-%d:%d", epoch, 1000+i), Version: epoch})
		}
		return state
	}
	for epoch := uint64(1); epoch < 4; epoch++ {
		if err := s.Save(wide(epoch)); err != nil {
			t.Fatal(err)
		}
	}
	before, _, _ := content(t, dir)
	if err := s.Save(wide(4)); err != nil {
		t.Fatal(err)
	}
	after, begin, end := content(t, dir)
	sectors := (end - begin + sector - 1) / sector
	if sectors < 3 || sectors > 12 {
		t.Fatalf("a save of %d sectors", sectors)
	}
	check := func(torn []byte, what string) {
		c, err := decodeFile(torn)
		if err != nil || !equalStates(c.state, wide(3)) && !equalStates(c.state, wide(4)) {
			t.Fatalf("%s: %+v, %v", what, c.state, err)
		}
	}
	for written := range 1 << sectors {
		torn := bytes.Clone(before)
		for i := range sectors {
			if written>>i&1 == 1 {
				at := begin + i*sector
				copy(torn[at:at+sector], after[at:at+sector])
			}
		}
		check(torn, fmt.Sprintf("with the sectors %b", written))
	}
	for n := begin; n <= end; n++ {
		check(slices.Concat(before[:begin], after[begin:n], before[n:]), fmt.Sprintf("with %d bytes", n-begin))
	}
}

// Where the file as a whole has suffered, both copies may be gone: then it is refused
// by name, and nothing else is ever believed.
func TestAFileCutShortGivesACopyOrIsRefused(t *testing.T) {
	dir := t.TempDir()
	saveTwice(t, dir)
	s, _ := openStore(t, dir)
	data, _, _ := content(t, dir)
	found := map[uint64]int{}
	for n := range data {
		c, err := decodeFile(data[:n])
		switch {
		case err == nil && (equalStates(c.state, stateOf(6)) || equalStates(c.state, stateOf(7))):
			found[c.state.Token.Epoch]++
		case !errors.Is(err, errDamaged):
			t.Fatalf("cut at %d: %+v, %v", n, c.state, err)
		}
	}
	if len(found) == 0 {
		t.Error("no copy is found in any of them")
	}
	if err := os.WriteFile(s.path(File), data[:10], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(); err == nil || !strings.Contains(err.Error(), s.path(File)) {
		t.Errorf("got %v", err)
	}
}

// A save goes to the slot that does not hold the last one, and nothing but that slot
// is written: no name changes, no file grows.
func TestASaveIsOneWriteIntoTheOtherSlot(t *testing.T) {
	s, _ := openStore(t, t.TempDir())
	if err := s.Save(stateOf(1)); err != nil {
		t.Fatal(err)
	}
	made, err := os.Stat(s.path(File))
	if err != nil {
		t.Fatal(err)
	}
	var at []int64
	s.write = func(f *os.File, b []byte, offset int64) error {
		at = append(at, offset)
		return datadir.Write(f, b, offset)
	}
	s.syncDir = func(string) error { return errors.New("a name has changed") }
	for e := range uint64(4) {
		if err := s.Save(stateOf(e + 2)); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(at, []int64{0, minSlot, 0, minSlot}) {
		t.Errorf("written at %d", at)
	}
	now, err := os.Stat(s.path(File))
	if err != nil || !os.SameFile(made, now) || now.Size() != 2*minSlot {
		t.Errorf("%v, %v", now, err)
	}
}

// After an error nobody knows what the slot holds; the other one is whole still.
func TestASaveAfterAnErrorGoesToTheSameSlot(t *testing.T) {
	dir := t.TempDir()
	s, _ := openStore(t, dir)
	for _, epoch := range []uint64{5, 6} {
		if err := s.Save(stateOf(epoch)); err != nil {
			t.Fatal(err)
		}
	}
	s.write = func(f *os.File, b []byte, offset int64) error {
		if err := datadir.Write(f, b[:len(b)/2], offset); err != nil {
			t.Error(err)
		}
		return syscall.EIO
	}
	for epoch := range uint64(3) {
		if err := s.Save(stateOf(epoch + 7)); !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "replace it") {
			t.Errorf("got %v", err)
		}
		if state, err := Read(s.path(File)); err != nil || !equalStates(state, stateOf(6)) {
			t.Fatalf("%+v, %v", state, err)
		}
	}
	s.write = datadir.Write
	if err := s.Save(stateOf(10)); err != nil {
		t.Fatal(err)
	}
	if state, err := s.Load(); err != nil || !equalStates(state, stateOf(10)) {
		t.Errorf("%+v, %v", state, err)
	}
}

// A state that has outgrown its slots gets larger ones, with the save before it.
func TestAStateThatOutgrowsItsSlots(t *testing.T) {
	dir := t.TempDir()
	s, warnings := openStore(t, dir)
	last, state := election.State{}, stateOf(6)
	for i := range 400 {
		last, state = state, stateOf(uint64(i)+7)
		state.Members = last.Members
		state.Members = append(slices.Clone(state.Members), election.Member{Rank: election.Rank{ID: election.ID(fmt.Sprint(100 + i))}, Address: "127.0.0.1:7401"})
		if err := s.Save(state); err != nil {
			t.Fatal(err)
		}
	}
	data, begin, end := content(t, dir)
	clear(data[begin:end])
	if c, err := decodeFile(data); err != nil || !equalStates(c.state, last) {
		t.Errorf("the save before holds %d members, %v", len(c.state.Members), err)
	}
	if got, err := s.Load(); err != nil || !equalStates(got, state) || warnings.Len() > 0 {
		t.Errorf("%d members, %v, %s", len(got.Members), err, warnings)
	}
	if len(data) <= 2*minSlot {
		t.Errorf("a file of %d bytes", len(data))
	}
}

// The operator may restore, or lose, the file under a member that runs.
func TestAFileThatIsGoneOrAnotherIsMadeAnew(t *testing.T) {
	for what, change := range map[string]func(name string) error{
		"gone": os.Remove,
		"another": func(name string) error {
			data, err := os.ReadFile(name)
			return errors.Join(err, os.Rename(name, name+".old"), os.WriteFile(name, data, 0o600))
		},
		"cut short": func(name string) error { return os.Truncate(name, 100) },
	} {
		t.Run(what, func(t *testing.T) {
			s, _ := openStore(t, t.TempDir())
			for _, epoch := range []uint64{6, 7} {
				if err := s.Save(stateOf(epoch)); err != nil {
					t.Fatal(err)
				}
			}
			if err := change(s.path(File)); err != nil {
				t.Fatal(err)
			}
			if err := s.Save(stateOf(8)); err != nil {
				t.Fatal(err)
			}
			if state, err := s.Load(); err != nil || !equalStates(state, stateOf(8)) {
				t.Errorf("%+v, %v", state, err)
			}
		})
	}
	s, _ := openStore(t, t.TempDir())
	if err := s.Save(stateOf(6)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(stateOf(7)); err == nil || !strings.Contains(err.Error(), "put it back") {
		t.Errorf("without its directory: %v", err)
	}
}

// plain is a state file as versions before slots wrote it.
func plain(t *testing.T, s election.State) []byte {
	t.Helper()
	body, err := encodeState(s, "")
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Appendf(nil, "%s 1 %s\n%s", stateMagic, checksum("1", body), body)
}

func TestAnOldStateFileIsReadAndReplaced(t *testing.T) {
	dir := t.TempDir()
	s, warnings := openStore(t, dir)
	for name, epoch := range map[string]uint64{File: 7, previousFile: 6} {
		if err := os.WriteFile(s.path(name), plain(t, stateOf(epoch)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	state, err := s.Load()
	if err != nil || !equalStates(state, stateOf(7)) || warnings.Len() > 0 {
		t.Fatalf("%+v, %v, %s", state, err, warnings)
	}
	damaged := plain(t, stateOf(7))
	damages(bytes.Clone(damaged), func(b []byte) {
		if c, err := decodeFile(b); !errors.Is(err, errDamaged) {
			t.Fatalf("%q gives %+v, %v", b, c.state, err)
		}
		damaged = b
	})
	if err := os.WriteFile(s.path(File), damaged, 0o600); err != nil {
		t.Fatal(err)
	}
	if state, err := s.Load(); err != nil || !equalStates(state, stateOf(6)) || !strings.Contains(warnings.String(), s.path(File)) {
		t.Fatalf("%+v, %v, %s", state, err, warnings)
	}
	if err := s.Save(stateOf(8)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.path(previousFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the previous copy: %v", err)
	}
	data, begin, end := content(t, dir)
	if c, err := decodeFile(data); err != nil || !equalStates(c.state, stateOf(8)) {
		t.Errorf("%+v, %v", c.state, err)
	}
	clear(data[begin:end])
	if c, err := decodeFile(data); err != nil || !equalStates(c.state, stateOf(6)) {
		t.Errorf("the save before: %+v, %v", c.state, err)
	}
}

// longest is an entry that takes as much room as one can, in memory and in a file.
func longest(i int) election.Member {
	id := fmt.Sprintf("%s%04d", strings.Repeat(`"`, election.MaxID-4), i)
	addr := strings.Repeat(strings.Repeat("h", 62)+".", 3) + strings.Repeat("h", 61) + ":65535"
	return election.Member{Rank: election.Rank{ID: election.ID(id), Priority: math.MinInt}, Address: addr, Observer: true, Version: election.MaxVersion, Departure: election.Removed}
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
			for _, a := range m.Step(time.Unix(0, 0), election.Event{Kind: election.JoinAccepted, List: list}) {
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
	last.Departure, last.Version = election.Present, 0
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

func TestBothCopiesDamagedIsRefusedWithTheWayOut(t *testing.T) {
	dir := t.TempDir()
	saveTwice(t, dir)
	s, _ := openStore(t, dir)
	good, _, _ := content(t, dir)
	refused := func(damaged []byte) {
		t.Helper()
		if err := os.WriteFile(s.path(File), damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := s.Load()
		if err == nil || !strings.Contains(err.Error(), s.path(File)) || !strings.Contains(err.Error(), "remove") {
			t.Errorf("got %v", err)
		}
	}
	refused(nil)
	data := bytes.Clone(good)
	data[100] ^= 1
	data[minSlot+100] ^= 1
	refused(data)
	if err := os.WriteFile(s.path(previousFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(nil)
}

func TestADamagedFileNeverReplacesTheGoodCopy(t *testing.T) {
	dir := t.TempDir()
	saveTwice(t, dir)
	data, begin, end := content(t, dir)
	data[end-5] ^= 1
	if err := os.WriteFile(filepath.Join(dir, File), data, 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ := openStore(t, dir)
	if _, err := s.Load(); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(stateOf(8)); err != nil {
		t.Fatal(err)
	}
	data, again, end := content(t, dir)
	clear(data[begin:end])
	if c, err := decodeFile(data); err != nil || again != begin || !equalStates(c.state, stateOf(6)) {
		t.Errorf("saved at %d instead of %d; the save before: %+v, %v", again, begin, c.state, err)
	}
}

func TestAnotherLayoutIsNotTakenForDamage(t *testing.T) {
	dir := t.TempDir()
	saveTwice(t, dir)
	s, _ := openStore(t, dir)
	data, begin, _ := content(t, dir)
	body := "{}\n"
	slots := bytes.Clone(data)
	copy(slots[begin:], fmt.Sprintf("%s 3 9 4096 3 %s\n%s", stateMagic, checksum("3 9 4096 3", []byte(body)), body))
	for what, later := range map[string][]byte{
		"one slot": slots, "the file": []byte(stateMagic + " 3 " + checksum("3", []byte(body)) + "\n" + body),
	} {
		if err := os.WriteFile(s.path(File), later, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Load(); err == nil || !strings.Contains(err.Error(), "version") {
			t.Errorf("%s: got %v; the older copy would lower the epoch in silence", what, err)
		}
	}
}

func TestTwoProcessesCannotShareADirectory(t *testing.T) {
	dir := t.TempDir()
	openStore(t, dir)
	if _, err := Open(dir, "default", slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "in use by another process") {
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
		{Rank: election.Rank{ID: "a\u202eb"}, Address: "h:2"}, {Rank: election.Rank{ID: "5"}, Address: "\x1b[31m:80"}, {Rank: election.Rank{ID: "6"}}}}, "default")
	if err != nil {
		t.Fatal(err)
	}
	state, _, err := decodeState(data)
	if err != nil || len(state.Members) != 2 || state.Members[0].ID != "3" || state.Members[1].ID != "6" {
		t.Errorf("%+v, %v", state, err)
	}
}

// A save of before the cluster was written is of any cluster, until the next save.
func TestASaveIsOfOneCluster(t *testing.T) {
	for of, before := range map[string]func(dir string) error{
		"without slots": func(dir string) error { return os.WriteFile(filepath.Join(dir, File), plain(t, stateOf(5)), 0o600) },
		"with slots": func(dir string) error {
			s, err := Open(dir, "", slog.New(slog.DiscardHandler))
			if err == nil {
				err = errors.Join(s.Save(stateOf(5)), s.Close())
			}
			return err
		},
	} {
		dir := t.TempDir()
		if err := before(dir); err != nil {
			t.Fatal(err)
		}
		s, _ := openStore(t, dir)
		state, err := s.Load()
		if err != nil || !equalStates(state, stateOf(5)) {
			t.Errorf("%s: %+v, %v", of, state, err)
		}
		if err := errors.Join(s.Save(stateOf(6)), s.Close()); err != nil {
			t.Fatal(err)
		}
		other, err := Open(dir, "orders", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Load(); err == nil || !strings.Contains(err.Error(), "belongs to cluster default, and this is cluster orders") {
			t.Errorf("%s: got %v", of, err)
		}
		other.Close()
		if s, _ = openStore(t, dir); s == nil {
			t.Fatal(of)
		}
		if state, err := s.Load(); err != nil || !equalStates(state, stateOf(6)) {
			t.Errorf("%s: of its own cluster: %+v, %v", of, state, err)
		}
		s.Close()
	}
}

func FuzzState(f *testing.F) {
	body, err := encodeState(stateOf(7), "default")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(slot{1, minSlot}.encode(body))
	f.Add(append(make([]byte, minSlot), slot{1, minSlot}.encode(body)...))
	f.Add(slices.Concat(slot{8, minSlot}.encode(body), make([]byte, 2*minSlot)))
	f.Add([]byte(stateMagic + " 1 " + checksum("1", body) + "\n" + string(body)))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := decodeFile(data)
		if err != nil {
			return
		}
		if c.state.ID == "" || c.state.Token.Epoch > election.MaxEpoch {
			t.Fatalf("accepted %+v", c.state)
		}
		again, err := encodeState(c.state, c.cluster)
		if err != nil {
			t.Fatal(err)
		}
		if back, cluster, err := decodeState(again); err != nil || cluster != c.cluster || !equalStates(back, c.state) {
			t.Fatalf("%+v of %q came back as %+v of %q, %v", c.state, c.cluster, back, cluster, err)
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
	s, _ := openStore(t, t.TempDir())
	var synced []uint64
	s.syncDir = func(dir string) error {
		state, err := Read(filepath.Join(dir, File))
		if err != nil {
			t.Error(err)
		}
		synced = append(synced, state.Token.Epoch)
		return datadir.Sync(dir)
	}
	for e := range uint64(3) {
		if err := s.Save(stateOf(e + 1)); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(s.path(File)); err != nil { // so that it is made anew
			t.Fatal(err)
		}
	}
	if !slices.Equal(synced, []uint64{1, 2, 3}) {
		t.Errorf("synced with the epochs %v in place", synced)
	}
	broken := errors.New("it cannot be synced")
	s.syncDir = func(string) error { return broken }
	if err := s.Save(stateOf(4)); !errors.Is(err, broken) {
		t.Errorf("Save gives %v", err)
	}
	s.syncDir = datadir.Sync
	if err := s.Save(stateOf(5)); err != nil {
		t.Error(err)
	}
}

// A process may end between the rename and the sync: a power cut would bring the former file back,
// and take the saves of the next process with the new file.
func TestANameOfAnEarlierProcessIsMadeSafe(t *testing.T) {
	dir := t.TempDir()
	saveTwice(t, dir)
	s, _ := openStore(t, dir)
	broken := errors.New("it cannot be synced")
	s.syncDir = func(string) error { return broken }
	if _, err := s.Load(); !errors.Is(err, broken) {
		t.Errorf("Load gives %v", err)
	}
	synced := 0
	s.syncDir = func(dir string) error { synced++; return datadir.Sync(dir) }
	if state, err := s.Load(); err != nil || state.Token.Epoch != 7 || synced != 1 {
		t.Errorf("Load gives epoch %d, %v, and has synced the directory %d times", state.Token.Epoch, err, synced)
	}
}
