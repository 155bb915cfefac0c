package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
)

// This file checks the permission to write the data directory, and names the fix for a directory
// that cannot be written.

// CheckAccess refuses a data directory that other users may write: they could put a different epoch
// or a different member list into it. Its error names the command that fixes it.
func CheckAccess(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return Remedy(err)
	}
	if owner, foreign := foreignOwner(info, os.Geteuid()); foreign {
		return fmt.Errorf("belongs to user %d, and this process runs as user %d: run it as that user, or: chown -R %d %s", owner, os.Geteuid(), os.Geteuid(), quoted(dir))
	}
	if writableByAll(info) {
		return fmt.Errorf("may be written by everyone (mode %04o): chmod 700 %s, or name a directory inside it that is yet to be made", info.Mode().Perm(), quoted(dir))
	}
	return nil
}

// checkFile refuses a file that everyone may write, and anything but a regular file: this process
// would write the target of a symbolic link with its own rights.
func checkFile(name string) error {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return Remedy(err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file: move it away", name)
	case writableByAll(info):
		return fmt.Errorf("%s may be written by everyone (mode %04o): look whether it is as you left it, then: chmod 600 %s", name, info.Mode().Perm(), quoted(name))
	}
	return nil
}

// Owner returns the user that owns a directory, and whether that is neither this process's user nor
// root.
func Owner(dir string) (user int, foreign bool) {
	info, err := os.Stat(dir)
	if err != nil {
		return 0, false
	}
	return foreignOwner(info, os.Geteuid())
}

// quoted returns a file name quoted for a shell.
func quoted(name string) string {
	if strings.IndexFunc(name, func(r rune) bool { return !strings.ContainsRune(plainInShell, r) }) < 0 {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}

const plainInShell = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+"

// failure is an error of the machine, and what to do about it.
type failure struct {
	error
	todo string
}

func (f *failure) Error() string { return f.error.Error() + ": " + f.todo }
func (f *failure) Unwrap() error { return f.error }

// Failed reports whether err comes from the machine and not from a wrong configuration: the same
// call can succeed later. [Remedy] marks such errors; errors that always come from the machine need
// no mark.
func Failed(err error) bool {
	if _, ok := errors.AsType[*failure](err); ok {
		return true
	}
	codes := []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO, syscall.EMFILE, syscall.ENFILE, syscall.EADDRNOTAVAIL}
	return slices.ContainsFunc(codes, func(code error) bool { return errors.Is(err, code) })
}

// Full reports whether err means that the file system, or the user's part of it, has no room.
func Full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// Remedy adds to an error of the file system what to do about it.
func Remedy(err error) error {
	todo := ""
	switch {
	case err == nil:
		return nil
	case Full(err):
		todo = "make room on that file system"
	case errors.Is(err, syscall.EROFS):
		todo = "mount that file system writable, and look in the system's log why it is not"
	case errors.Is(err, fs.ErrPermission):
		todo = "make it readable and writable for this user"
	case errors.Is(err, syscall.EIO):
		todo = "the disk fails: replace it"
	case errors.Is(err, fs.ErrNotExist):
		todo = "the data directory was removed: put it back, or restart the member; a quorum has to remove it first"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		todo = "raise the limit of open files"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		todo = "give an address of this machine, or wait until its network is configured"
	default:
		return err
	}
	return &failure{err, todo}
}
