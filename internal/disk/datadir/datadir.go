// Package datadir opens a member's data directory for the files in it, and writes them so that they
// survive a power cut. Each of its errors names what to do about it.
package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// uncreated adds the remedy for a directory that cannot be created.
func uncreated(err error) error {
	if errors.Is(err, fs.ErrNotExist) || Remedy(err) == err {
		return fmt.Errorf("%w; give a directory that can be created", err)
	}
	return fmt.Errorf("%w, or give a directory that can be created", Remedy(err))
}

// Lock creates dir, mode 0700, if need be, and locks the file of that name in it. It refuses a
// directory in which further users may write, or in which they may write any of files. Closing
// the result releases the lock, as the end of the process does.
func Lock(dir, name string, files ...string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory %s: %w", dir, uncreated(err))
	}
	if err := CheckAccess(dir); err != nil {
		return nil, fmt.Errorf("data directory %s %w", dir, err)
	}
	for _, name := range append(files, name) {
		if err := checkFile(filepath.Join(dir, name)); err != nil {
			return nil, fmt.Errorf("data directory %s: %w", dir, err)
		}
	}
	held, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|noFollow, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", dir, Remedy(err))
	}
	if err := lock(held); err != nil {
		held.Close()
		return nil, fmt.Errorf("data directory %s is in use by another process: give each member its own", dir)
	}
	return held, nil
}

// Sweep removes what interrupted writes of a file left in dir, under the names that renameio gives
// them.
func Sweep(dir, file string) {
	entries, _ := os.ReadDir(dir) // without some, the next start sweeps them
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "."+file) {
			os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// Write writes b in place and returns once it survives a power cut.
func Write(file *os.File, b []byte, at int64) error {
	if _, err := file.WriteAt(b, at); err != nil {
		return err
	}
	return SyncData(file)
}
