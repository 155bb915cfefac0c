package logfile

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/batuta-dev/batuta/internal/disk/datadir"
)

// open opens the log in dir; its warnings go to the buffer.
func open(t *testing.T, dir string) (*Log, *bytes.Buffer) {
	t.Helper()
	var warnings bytes.Buffer
	l, err := Open(dir, slog.New(slog.NewTextHandler(&warnings, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, &warnings
}

func records(texts ...string) (all [][]byte) {
	for _, text := range texts {
		all = append(all, []byte(text))
	}
	return all
}

func add(t *testing.T, l *Log, texts ...string) {
	t.Helper()
	if err := l.Append(records(texts...)...); err != nil {
		t.Fatal(err)
	}
}

// holds checks what the log gives when it is opened again.
func holds(t *testing.T, l *Log, texts ...string) {
	t.Helper()
	again := &Log{dir: l.dir, log: l.log, write: datadir.Write, syncDir: datadir.Sync}
	got, err := again.Load()
	if err != nil || !equal(got, records(texts...)) {
		t.Fatalf("it holds %.200q, %v; want %.200q", got, err, texts)
	}
}

func equal(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }

func TestWhatIsAppendedIsLoaded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	l, _ := open(t, dir)
	holds(t, l)
	add(t, l, "one", "", "three")
	add(t, l)
	add(t, l, strings.Repeat("x", 5000))
	add(t, l, "")
	l.Close()
	l, warnings := open(t, dir)
	add(t, l, "last") // before it has been loaded
	holds(t, l, "one", "", "three", strings.Repeat("x", 5000), "", "last")
	if warnings.Len() > 0 {
		t.Errorf("warnings: %s", warnings)
	}
	for name, mode := range map[string]os.FileMode{dir: 0o700 | os.ModeDir, l.path(): 0o600} {
		if info, err := os.Stat(name); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

func TestReplaceLeavesNothingOfWhatWasThere(t *testing.T) {
	l, _ := open(t, t.TempDir())
	for i := range 40 {
		add(t, l, strings.Repeat("x", 1000*i))
	}
	if err := l.Replace(records("snapshot", "entry")...); err != nil {
		t.Fatal(err)
	}
	holds(t, l, "snapshot", "entry")
	add(t, l, "next")
	holds(t, l, "snapshot", "entry", "next")
	if err := l.Replace(); err != nil {
		t.Fatal(err)
	}
	holds(t, l)
	if info, err := os.Stat(l.path()); err != nil || info.Size() > 2*room {
		t.Errorf("the file is still of %d bytes: %v", info.Size(), err)
	}
}

// An append is one write into bytes that are there, and one sync: no name changes, and
// the file grows once in many.
func TestAnAppendChangesBytesThatAreThere(t *testing.T) {
	l, _ := open(t, t.TempDir())
	made, err := os.Stat(l.path())
	if err != nil {
		t.Fatal(err)
	}
	writes, sizes := 0, map[int64]bool{made.Size(): true}
	l.write = func(f *os.File, b []byte, at int64) error { writes++; return datadir.Write(f, b, at) }
	l.syncDir = func(string) error { return errors.New("a name has changed") }
	const appends = 1000
	for i := range appends {
		add(t, l, fmt.Sprint(i))
		info, err := os.Stat(l.path())
		if err != nil || !os.SameFile(made, info) {
			t.Fatalf("another file: %v", err)
		}
		sizes[info.Size()] = true
	}
	if writes != appends+len(sizes)-1 || len(sizes) > 6 {
		t.Errorf("%d writes for %d appends, and %d sizes", writes, appends, len(sizes))
	}
	got, err := l.Load()
	if err != nil || len(got) != appends {
		t.Errorf("%d records, %v", len(got), err)
	}
}

func TestAnAppendThatWasCutOffIsCutAway(t *testing.T) {
	dir := t.TempDir()
	l, warnings := open(t, dir)
	add(t, l, "kept", strings.Repeat("k", 700))
	before := read(t, l)
	begin := l.end.at
	add(t, l, "torn", strings.Repeat("t", 1700), "end")
	after, end := read(t, l), l.end.at
	old, both := records("kept", strings.Repeat("k", 700)), records("kept", strings.Repeat("k", 700), "torn", strings.Repeat("t", 1700), "end")
	check := func(torn []byte, what string) {
		got, p, err := decode(torn)
		if err != nil || !equal(got, old) && !equal(got, both) || equal(got, old) != (p.at == begin) {
			t.Fatalf("%s: %.100q, %v", what, got, err)
		}
	}
	for n := begin; n <= end; n++ { // every prefix of what is written
		check(slices.Concat(before[:begin], after[begin:n], before[n:]), fmt.Sprintf("%d bytes", n-begin))
	}
	sectors := int(end-begin) / sector
	for written := range 1 << sectors { // every set of sectors: a disk may take any first
		torn := bytes.Clone(before)
		for i := range sectors {
			if at := int(begin) + i*sector; written>>i&1 == 1 {
				copy(torn[at:at+sector], after[at:at+sector])
			}
		}
		check(torn, fmt.Sprintf("sectors %b", written))
	}
	torn := slices.Concat(before[:begin], after[begin:end-sector], before[end-sector:])
	write(t, l, torn)
	got, err := l.Load()
	if err != nil || !equal(got, old) || !strings.Contains(warnings.String(), l.path()) {
		t.Fatalf("%.100q, %v, %s", got, err, warnings)
	}
	if now := read(t, l); !bytes.Equal(now, before) {
		t.Error("what was cut away is still there")
	}
	add(t, l, "next")
	holds(t, l, "kept", strings.Repeat("k", 700), "next")
}

func read(t *testing.T, l *Log) []byte {
	t.Helper()
	data, err := os.ReadFile(l.path())
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t *testing.T, l *Log, data []byte) {
	t.Helper()
	if err := os.WriteFile(l.path(), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// The last append may have been cut off; those before it were told to others.
func TestDamageBeforeTheLastAppendIsRefusedByName(t *testing.T) {
	l, _ := open(t, t.TempDir())
	add(t, l, "one", strings.Repeat("1", 600))
	middle := l.end.at
	add(t, l, "two")
	last := l.end.at
	add(t, l, "three")
	data := read(t, l)
	flip := func(i int64, bit int) ([][]byte, error) {
		damaged := bytes.Clone(data)
		damaged[i] ^= 1 << bit
		got, _, err := decode(damaged)
		return got, err
	}
	whole := records("one", strings.Repeat("1", 600), "two", "three")
	for i := range last {
		for bit := range 8 {
			got, err := flip(i, bit)
			if err == nil && !equal(got, whole) || err == nil && data[i] != 0 {
				t.Fatalf("bit %d of byte %d flipped gives %.100q, %v", bit, i, got, err)
			}
		}
	}
	for n := range last { // zeros in the place of anything
		damaged := bytes.Clone(data)
		clear(damaged[n:min(n+sector, last)])
		if got, _, err := decode(damaged); err == nil && !equal(got, whole) {
			t.Fatalf("zeros at %d: %.100q", n, got)
		}
	}
	data[middle+batchHeader+5] ^= 1
	write(t, l, data)
	_, err := l.Load()
	if err == nil || !strings.Contains(err.Error(), l.path()) || !strings.Contains(err.Error(), fmt.Sprintf("byte %d", middle)) || !strings.Contains(err.Error(), "remove the member from the cluster") {
		t.Errorf("got %v", err)
	}
	if err := l.Append([]byte("more")); err == nil {
		t.Error("a damaged log takes more")
	}
	write(t, l, data[:len(data)-1])
	if _, err := l.Load(); err == nil || !strings.Contains(err.Error(), "cut short") {
		t.Errorf("got %v", err)
	}
}

// What a record holds is never taken for a batch, not even another log's.
func TestALogWithinALogIsARecord(t *testing.T) {
	l, _ := open(t, t.TempDir())
	add(t, l, "inner")
	inner := string(read(t, l))
	if err := l.Replace(); err != nil {
		t.Fatal(err)
	}
	pad := strings.Repeat("p", sector-batchHeader-4-4) // so that the batch within begins a sector
	add(t, l, pad, inner)
	holds(t, l, pad, inner)
	data := read(t, l)
	data[sector+batchHeader]++ // break the outer one: nothing of it is believed
	if got, _, err := decode(data); err != nil || len(got) > 0 {
		t.Errorf("%d records, %v", len(got), err)
	}
}

func TestAnErrorLeavesWhatWasThere(t *testing.T) {
	for errno, todo := range map[syscall.Errno]string{syscall.ENOSPC: "make room", syscall.EROFS: "mount that file system writable", syscall.EIO: "replace it"} {
		l, _ := open(t, t.TempDir())
		add(t, l, "one")
		l.write = func(f *os.File, b []byte, at int64) error {
			if err := datadir.Write(f, b[:len(b)-sector], at); err != nil {
				t.Error(err)
			}
			return &os.PathError{Op: "write", Path: f.Name(), Err: errno}
		}
		err := l.Append([]byte(strings.Repeat("lost", 400)))
		if !errors.Is(err, errno) || !strings.Contains(err.Error(), l.path()) || !strings.Contains(err.Error(), todo) {
			t.Errorf("got %v", err)
		}
		holds(t, l, "one")
		l.write = func(f *os.File, b []byte, at int64) error { // all is written, and the sync fails
			return errors.Join(datadir.Write(f, b, at), errno)
		}
		if err := l.Append([]byte(strings.Repeat("also lost", 400))); !errors.Is(err, errno) {
			t.Errorf("got %v", err)
		}
		l.write = datadir.Write
		add(t, l, "two")
		add(t, l, "three")
		holds(t, l, "one", "two", "three")
	}
}

// Until the name of a new log is on disk a power cut may bring the old one back: what
// is appended to the new one would be lost.
func TestNothingIsAppendedBehindANameThatIsNotSafe(t *testing.T) {
	l, _ := open(t, t.TempDir())
	broken := errors.New("it cannot be synced")
	l.syncDir = func(string) error { return broken }
	if err := l.Replace([]byte("new")); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if err := l.Append([]byte("more")); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	holds(t, l, "new")
	synced := 0
	l.syncDir = func(dir string) error { synced++; return datadir.Sync(dir) }
	add(t, l, "more")
	add(t, l, "and more")
	holds(t, l, "new", "more", "and more")
	if synced != 1 {
		t.Errorf("synced %d times", synced)
	}
}

// A process may end between the rename and the sync: the next process appends only behind a name
// that is on disk.
func TestANameOfAnEarlierProcessIsMadeSafe(t *testing.T) {
	dir := t.TempDir()
	l, _ := open(t, dir)
	l.Close()
	broken := errors.New("it cannot be synced")
	l.syncDir = func(string) error { return broken }
	if err := l.prepare(); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	synced := 0
	l.syncDir = func(dir string) error { synced++; return datadir.Sync(dir) }
	if err := l.prepare(); err != nil || synced != 1 {
		t.Errorf("synced %d times, %v", synced, err)
	}
}

// The reserve shows that there was a log. If the name of the first log never was on disk, a power
// cut leaves neither, and the member starts for the first time.
func TestThereIsNoReserveBeforeALog(t *testing.T) {
	dir := t.TempDir()
	broken := errors.New("it cannot be synced")
	l := &Log{dir: dir, log: slog.New(slog.DiscardHandler), write: datadir.Write, syncDir: func(string) error { return broken }}
	if err := l.prepare(); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
	if _, err := os.Lstat(l.reserved()); err == nil {
		t.Error("there is a reserve, and the log may not be on disk")
	}
	if err := os.Remove(l.path()); err != nil { // as a power cut does
		t.Fatal(err)
	}
	l, _ = open(t, dir)
	if _, err := os.Lstat(l.reserved()); err != nil {
		t.Error(err)
	}
	l.syncDir = func(string) error { return broken }
	if err := errors.Join(os.Remove(l.reserved()), l.Replace()); !errors.Is(err, broken) { // as on a full disk
		t.Fatalf("got %v", err)
	}
	l.syncDir = datadir.Sync
	add(t, l, "one")
	if _, err := os.Lstat(l.reserved()); err != nil {
		t.Errorf("the name of the log is on disk, and there is no reserve: %v", err)
	}
}

func TestALogThatIsGoneOrAnotherIsNotAppendedTo(t *testing.T) {
	for what, change := range map[string]func(name string) error{
		"gone":           os.Remove,
		"with directory": func(name string) error { return os.RemoveAll(filepath.Dir(name)) },
		"cut short":      func(name string) error { return os.Truncate(name, sector) },
		"another": func(name string) error {
			data, err := os.ReadFile(name)
			return errors.Join(err, os.Rename(name, name+".old"), os.WriteFile(name, data, 0o600))
		},
	} {
		l, _ := open(t, t.TempDir())
		add(t, l, "one")
		if err := change(l.path()); err != nil {
			t.Fatal(err)
		}
		if err := l.Append([]byte("two")); err == nil || !strings.Contains(err.Error(), "restart the member") {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

func TestTheLogIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("it writes 64 MiB")
	}
	l, _ := open(t, t.TempDir())
	l.write = func(f *os.File, b []byte, at int64) error { _, err := f.WriteAt(b, at); return err }
	big := make([]byte, 10<<20)
	n := 0
	var err error
	for ; err == nil && n < 100; n++ {
		err = l.Append(big)
	}
	if !errors.Is(err, ErrFull) || n != 7 {
		t.Errorf("append %d gives %v", n, err)
	}
	if got, err := l.Load(); err != nil || len(got) != 6 {
		t.Errorf("%d records, %v", len(got), err)
	}
	if err := l.Replace(slices.Repeat([][]byte{big}, 7)...); !errors.Is(err, ErrFull) {
		t.Errorf("got %v", err)
	}
	if err := os.Truncate(l.path(), MaxBytes+1); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Load(); !errors.Is(err, errDamaged) {
		t.Errorf("got %v", err)
	}
}

func TestASecondProcessIsRefused(t *testing.T) {
	dir := t.TempDir()
	l, _ := open(t, dir)
	if _, err := Open(dir, nil); err == nil || !strings.Contains(err.Error(), "in use by another process") || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v", err)
	}
	l.Close()
	open(t, dir)
}

// A member without its log could vote twice in a term. Its other files show that it had one.
func TestALogThatWasDeletedIsNotMadeAgain(t *testing.T) {
	dir := t.TempDir()
	l, _ := open(t, dir)
	add(t, l, "vote")
	l.Close()
	if err := os.Remove(l.path()); err != nil {
		t.Fatal(err)
	}
	_, err := Open(dir, nil)
	for _, part := range []string{l.path(), "could vote twice", "remove the member from the cluster, empty " + dir} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %v", part, err)
		}
	}
	if _, err := os.Stat(l.path()); err == nil {
		t.Error("it is made again")
	}
	if err := os.Remove(l.reserved()); err != nil {
		t.Fatal(err)
	}
	open(t, dir) // as before the first log
}

func TestALogThatOthersMayWriteIsRefused(t *testing.T) {
	dir := t.TempDir()
	l, _ := open(t, dir)
	l.Close()
	if err := os.Chmod(l.path(), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, nil); err == nil || !strings.Contains(err.Error(), "chmod 600 "+l.path()) {
		t.Errorf("got %v", err)
	}
}

func TestAnotherLayoutIsNotTakenForDamage(t *testing.T) {
	l, _ := open(t, t.TempDir())
	head := fmt.Sprintf("%s 2 %x %d", logMagic, make([]byte, 8), 4096)
	write(t, l, []byte(head+" "+checksum(head)+"\n"))
	if _, err := l.Load(); err == nil || errors.Is(err, errDamaged) || !strings.Contains(err.Error(), "version") {
		t.Errorf("got %v", err)
	}
}

func FuzzLog(f *testing.F) {
	for _, batches := range [][][][]byte{{}, {records("one", "two")}, {records(""), records("x", strings.Repeat("y", 600)), records("z")}} {
		content, p := encode(salt{1, 2, 3}, nil)
		for _, b := range batches {
			batch := p.encode(b)
			copy(content[p.at:], batch)
			p.number, p.at = p.number+1, p.at+int64(len(batch))
		}
		f.Add(content[:p.at], uint16(0), byte(0))
		f.Add(content[:p.at], uint16(p.at-sector), byte(1))
	}
	f.Fuzz(func(t *testing.T, data []byte, at uint16, flip byte) {
		if len(data) > 1<<16 {
			return
		}
		// Its header tells of the room behind the batches.
		content := append(bytes.Clone(data), make([]byte, room+sector)...)
		whole, _, errWhole := decode(content)
		content[at] ^= flip
		got, p, err := decode(content)
		if err != nil {
			return
		}
		if errWhole == nil && len(got) > len(whole) {
			t.Fatalf("damage makes records: %d, and %d before", len(got), len(whole))
		}
		if p.at < sector || p.at > int64(len(content)) || p.at%sector != 0 {
			t.Fatalf("the next batch goes to %d of %d", p.at, len(content))
		}
		again, _ := encode(salt{9}, got)
		if back, _, err := decode(again); err != nil || !equal(back, got) {
			t.Fatalf("%d records came back as %d, %v", len(got), len(back), err)
		}
	})
}
