//go:build !windows

package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/google/renameio/v2"
)

const noFollow = syscall.O_NOFOLLOW // opens no symbolic link

// lock takes the lock of an open file, at once or not at all.
func lock(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

func writableByAll(info fs.FileInfo) bool { return info.Mode().Perm()&0o002 != 0 }

// foreignOwner returns the owner of a file, and whether that is neither user uid nor root.
func foreignOwner(info fs.FileInfo, uid int) (owner int, foreign bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return uid, false
	}
	owner = int(stat.Uid)
	return owner, owner != uid && owner != 0
}

// Replace replaces a file by content, as a whole, and returns the new file's info. Its name
// survives a power cut once the directory is synced. An error names the file, not the temporary one
// with a random name: the same fault has the same text at each try, and is logged once.
func Replace(name string, content []byte) (os.FileInfo, error) {
	info, err := replace(name, content)
	var at *fs.PathError
	if errors.As(err, &at) {
		err = &fs.PathError{Op: at.Op, Path: name, Err: at.Err}
	}
	return info, err
}

func replace(name string, content []byte) (os.FileInfo, error) {
	file, err := renameio.NewPendingFile(name, renameio.WithTempDir(filepath.Dir(name)), renameio.WithPermissions(0o600))
	if err != nil {
		return nil, err
	}
	defer file.Cleanup()
	if _, err := file.Write(content); err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	return info, file.CloseAtomicallyReplace()
}

// Sync makes the names in a directory survive a power cut, not only the files.
func Sync(dir string) error {
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
