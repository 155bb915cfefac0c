package datadir

import (
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// This file compiles, and no test runs it: what a power cut leaves of a file on Windows is not known.

const noFollow = 0 // Windows has no such flag; only administrators create symbolic links

// lock takes the lock of an open file, at once or not at all.
func lock(file *os.File) error {
	return windows.LockFileEx(windows.Handle(file.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{})
}

// writableByAll is false: Windows has inherited access lists instead of modes.
func writableByAll(fs.FileInfo) bool { return false }

func foreignOwner(_ fs.FileInfo, uid int) (owner int, foreign bool) { return uid, false }

// Replace replaces a file by content, as a whole, and returns the new file's info.
func Replace(name string, content []byte) (os.FileInfo, error) {
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name))
	if err != nil {
		return nil, err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if err := Write(file, content, 0); err != nil {
		return nil, err
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	if err := os.Rename(file.Name(), name); err != nil {
		return nil, err
	}
	return os.Stat(name)
}

// Sync does nothing: Windows cannot flush a directory.
func Sync(string) error { return nil }
