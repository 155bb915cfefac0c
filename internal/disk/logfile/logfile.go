// Package logfile keeps records in a file of the data directory, in the order in which they were
// appended, so that they survive a power cut. Each of its errors names what to do about it.
package logfile

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/batuta-dev/batuta/internal/disk/datadir"
)

// Log is a log on disk, used by a single process. Records of an Append or a Replace that returned
// nil are there after any crash and power cut. Of a call that was interrupted or returned an error,
// all records or none are there.
//
// Its methods must not be called concurrently, and may take as long as the disk does.
type Log struct {
	dir  string
	lock *os.File
	log  *slog.Logger

	file   os.FileInfo // the file that end is the end of; nil: it has to be read first
	end    position
	rename bool // the file has its name, and the name is not on disk yet

	// The kernel's work; tests replace it to observe or fail it.
	write   func(file *os.File, b []byte, at int64) error
	syncDir func(dir string) error
}

// position is the place of the next batch.
type position struct {
	salt   salt
	number uint64 // of that batch
	at     int64
	size   int64 // of the file: it is zero from at on
}

// Names in the data directory.
const (
	File        = "log"
	lockFile    = "log.lock"
	reserveFile = "log.reserve" // the room for a Replace on a full disk
)

const (
	// MaxBytes bounds the file.
	MaxBytes = 64 << 20
	// room is the space prepared after the last record, so that an append changes only bytes that
	// exist.
	room = 128 << 10
)

// ErrFull is for an append that would exceed [MaxBytes]; Replace makes room.
var ErrFull = errors.New("the log is full")

// errDamaged is for a log that differs from what was written.
var errDamaged = errors.New("damaged")

// Open opens the log in dir, and creates both if need be. Its warnings go to log. It refuses a
// second process until this process has called Close.
func Open(dir string, log *slog.Logger) (*Log, error) {
	lock, err := datadir.Lock(dir, lockFile, File, reserveFile)
	if err != nil {
		return nil, err
	}
	datadir.Sweep(dir, File)
	l := &Log{dir: dir, lock: lock, log: log, write: datadir.Write, syncDir: datadir.Sync}
	if err := l.prepare(); err != nil {
		lock.Close()
		return nil, fmt.Errorf("data directory %s: %w", dir, err)
	}
	return l, nil
}

// prepare makes a log if there is none, and its name survive a power cut: an earlier process may have
// ended before it did that.
func (l *Log) prepare() error {
	_, err := os.Stat(l.path())
	switch {
	case err == nil:
		return datadir.Remedy(l.settle())
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := l.deleted(); err != nil {
		return err
	}
	return l.Replace()
}

// settle makes the name of the log survive a power cut, and then takes the reserve: by now the room
// of the former file is free.
func (l *Log) settle() error {
	if err := l.syncDir(l.dir); err != nil {
		return err
	}
	l.rename = false
	l.reserve(l.end.size)
	return nil
}

// deleted returns an error if the missing log was here: the reserve is made after it.
func (l *Log) deleted() error {
	if _, err := os.Lstat(l.reserved()); err != nil {
		return nil // it is the first start
	}
	return fmt.Errorf("%s is missing, and was here before: without it this member could vote twice, and two members lead; put that file back, but no older copy, or remove the member from the cluster, empty %s, and add it again", l.path(), l.dir)
}

// reserve takes the room that the next Replace needs if the disk is full by then: that of a file of
// size bytes, and a little more than [room] at least. On a disk that is full already there is no reserve.
func (l *Log) reserve(size int64) {
	size = max(size, room+room/4)
	if info, err := os.Lstat(l.reserved()); err == nil && info.Size() >= size {
		return
	}
	if _, err := datadir.Replace(l.reserved(), make([]byte, size)); err != nil {
		l.log.Debug("no room is reserved for a replacement of the log", "error", err)
	}
}

func (l *Log) reserved() string { return filepath.Join(l.dir, reserveFile) }

// Close releases the log.
func (l *Log) Close() error { return l.lock.Close() }

func (l *Log) path() string { return filepath.Join(l.dir, File) }

// Load returns the records of the log, in the order of their appends. It removes an append that a
// power cut interrupted. For a log that is damaged before its end it returns an error that names
// the log.
func (l *Log) Load() ([][]byte, error) {
	l.file = nil
	c, err := contentsOf(l.dir)
	if err != nil {
		return nil, err
	}
	l.file, l.end = c.file, c.end
	if err := l.cut(c.data); err != nil {
		return nil, err
	}
	return c.records, nil
}

// Inspect returns the error with which [Open] or [Log.Load] would refuse the log in dir. It changes
// nothing. While a member writes, an append may look like damage for a moment.
func Inspect(dir string) error {
	_, err := contentsOf(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return (&Log{dir: dir}).deleted()
	}
	return err
}

// contents is what the file of a log holds.
type contents struct {
	file    os.FileInfo
	data    []byte
	records [][]byte
	end     position
}

// contentsOf reads the log in dir.
func contentsOf(dir string) (c contents, err error) {
	path := filepath.Join(dir, File)
	if c.file, err = os.Stat(path); err != nil {
		return c, fmt.Errorf("read the log: %w", datadir.Remedy(err))
	}
	if c.file.Size() > MaxBytes {
		return c, fmt.Errorf("%s: %w: %d bytes, and a log takes %d at most", path, errDamaged, c.file.Size(), MaxBytes)
	}
	if c.data, err = os.ReadFile(path); err != nil {
		return c, fmt.Errorf("read the log: %w", datadir.Remedy(err))
	}
	c.records, c.end, err = decode(c.data)
	if errors.Is(err, errDamaged) {
		return c, fmt.Errorf("%s: %w: what this member has promised the others is lost with it, and an older copy must not take its place: remove the member from the cluster, empty %s, and add it again", path, err, dir)
	}
	if err != nil {
		return c, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// cut zeroes what follows the last whole batch.
func (l *Log) cut(data []byte) error {
	tail := data[l.end.at:]
	n := used(tail)
	if n == 0 {
		return nil
	}
	l.log.Warn("the log ends in an append that was cut off before any member received it; it is left out", "file", l.path(), "at", l.end.at, "bytes", n)
	if err := l.open(func(f *os.File) error { return l.write(f, make([]byte, n), l.end.at) }); err != nil {
		return fmt.Errorf("cut the log: %w", datadir.Remedy(err))
	}
	return nil
}

// Append adds all of records at the end, or none, and returns once they survive a power cut. After
// an error this process loads none of them again, but they may be there after a crash; the next
// Append or Replace overwrites them.
func (l *Log) Append(records ...[]byte) error {
	if len(records) == 0 {
		return nil
	}
	if l.file == nil {
		if _, err := l.Load(); err != nil {
			return err
		}
	}
	batch := l.end.encode(records)
	next := l.end
	next.number, next.at = next.number+1, next.at+int64(len(batch))
	if next.at > MaxBytes {
		return fmt.Errorf("append to the log: %w: %d bytes more than the %d that it may take", ErrFull, next.at-MaxBytes, MaxBytes)
	}
	err := l.open(func(f *os.File) error {
		if next.at > next.size {
			size := min(next.at+room, MaxBytes)
			if err := l.write(f, make([]byte, size-next.size), next.size); err != nil {
				return err
			}
			next.size = size
			l.end.size = size
		}
		return l.write(f, batch, l.end.at)
	})
	if err != nil {
		return fmt.Errorf("append to the log: %w", datadir.Remedy(err))
	}
	l.end = next
	return nil
}

// open opens the log for do, once its name is on disk.
func (l *Log) open(do func(*os.File) error) error {
	if l.rename {
		if err := l.settle(); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(l.path(), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(info, l.file) || info.Size() < l.end.size {
		return fmt.Errorf("%s has been replaced or cut short by another process: restart the member", l.path())
	}
	return do(f)
}

// Replace makes the log hold only these records, and returns once they survive a power cut. A crash
// meanwhile leaves the log as before or as after.
func (l *Log) Replace(records ...[]byte) error {
	if err := l.replace(records); err != nil {
		return fmt.Errorf("replace the log: %w", datadir.Remedy(err))
	}
	return nil
}

func (l *Log) replace(records [][]byte) error {
	content, end := encode(newSalt(), records)
	if end.at > MaxBytes {
		return fmt.Errorf("%w: %d bytes, and it may take %d", ErrFull, end.at, MaxBytes)
	}
	info, err := datadir.Replace(l.path(), content)
	if datadir.Full(err) && os.Remove(l.reserved()) == nil {
		info, err = datadir.Replace(l.path(), content)
	}
	if err != nil {
		return err
	}
	// From here on appends go to this file: none may succeed before its name is on disk.
	l.file, l.end, l.rename = info, end, true
	return l.settle()
}
