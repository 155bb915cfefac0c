package datadir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestADirectoryOfAnotherUserIsForeign(t *testing.T) {
	info, err := os.Stat(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	owner := int(info.Sys().(*syscall.Stat_t).Uid)
	for _, test := range []struct {
		uid  int
		want bool
	}{{owner, false}, {owner + 1, owner != 0}} { // root's are everyone's
		if _, foreign := foreignOwner(info, test.uid); foreign != test.want {
			t.Errorf("for user %d a directory of user %d is foreign: %v", test.uid, owner, foreign)
		}
	}
	if owner != 0 {
		return
	}
	dir := filepath.Join(t.TempDir(), "it's")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, 4242, 4242); err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(dir, "lock"); err == nil || !strings.Contains(err.Error(), "chown -R 0 "+quoted(dir)) {
		t.Errorf("got %v", err)
	}
}

// What is behind a symbolic link is written to by nothing: neither a file of the data
// directory nor its lock is one.
func TestASymbolicLinkIsRefused(t *testing.T) {
	for _, name := range []string{"lock", "state"} {
		dir, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
		if err := os.WriteFile(other, []byte("another's"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(other, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		held, err := Lock(dir, "lock", "state")
		if err == nil {
			held.Close()
		}
		if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, name)+" is no regular file") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// One that leads nowhere would be made there.
	dir, nowhere := t.TempDir(), filepath.Join(t.TempDir(), "nowhere")
	if err := os.Symlink(nowhere, filepath.Join(dir, "lock")); err != nil {
		t.Fatal(err)
	}
	if held, err := Lock(dir, "lock"); err == nil {
		held.Close()
		t.Error("a lock that is a link is taken")
	}
	if _, err := os.Lstat(nowhere); err == nil {
		t.Errorf("%s was made", nowhere)
	}
}

// A data directory may have any name: what lies in a directory that its name matches is another's.
func TestOnlyTheOwnDirectoryIsSwept(t *testing.T) {
	base := t.TempDir()
	for _, dir := range []string{"member[1]", "member1"} {
		if err := os.Mkdir(filepath.Join(base, dir), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(base, dir, ".state123"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	Sweep(filepath.Join(base, "member[1]"), "state")
	left, err := filepath.Glob(filepath.Join(base, "*", ".state*"))
	if want := filepath.Join(base, "member1", ".state123"); err != nil || len(left) != 1 || left[0] != want {
		t.Errorf("left are %q, %v; want %s", left, err, want)
	}
}

// An error of a replacement has the same text at each try: only a change of it is logged.
func TestAFailedReplacementNamesTheFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "none", "log")
	_, first := Replace(name, nil)
	_, second := Replace(name, nil)
	if !errors.Is(first, fs.ErrNotExist) || first.Error() != second.Error() || !strings.Contains(first.Error(), name) {
		t.Errorf("%v, then %v", first, second)
	}
}
