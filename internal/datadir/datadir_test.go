package datadir

import (
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
