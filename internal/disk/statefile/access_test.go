package statefile

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/batuta-dev/batuta/internal/disk/datadir"
)

func TestADirectoryThatOthersMayWriteIsRefused(t *testing.T) {
	for _, test := range []struct {
		what, name string // below the data directory
		mode       os.FileMode
		want       string // "" is fine
	}{
		{"directory 0777", "", 0o777, "chmod 700 "},
		{"directory 1777", "", 0o777 | os.ModeSticky, "chmod 700 "},
		{"directory 0755", "", 0o755, ""},
		{"directory of a group", "", 0o770, ""},
		{"state 0666", File, 0o666, "chmod 600 "},
		{"state 0644", File, 0o644, ""},
		{"previous copy 0602", previousFile, 0o602, "chmod 600 "},
		{"lock 0666", lockFile, 0o666, "chmod 600 "},
	} {
		t.Run(test.what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			saveTwice(t, dir)
			if test.name == previousFile {
				if err := os.WriteFile(filepath.Join(dir, previousFile), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			name := filepath.Join(dir, test.name)
			if err := os.Chmod(name, test.mode); err != nil {
				t.Fatal(err)
			}
			s, err := Open(dir, "default", slog.New(slog.DiscardHandler))
			if err == nil {
				s.Close()
			}
			switch {
			case test.want == "" && err != nil:
				t.Errorf("got %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want+name)):
				t.Errorf("got %v, want: %s%s", err, test.want, name)
			}
		})
	}
}

// A pipe in the state file's place would never end.
func TestAStateThatIsNoFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, File), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(dir, "default", nil)
	if err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("got %v", err)
	}
}

func TestAnErrorOfTheDiskSaysWhatToDo(t *testing.T) {
	for errno, want := range map[syscall.Errno]string{
		syscall.ENOSPC: "make room", syscall.EDQUOT: "make room", syscall.EROFS: "mount that file system writable",
		syscall.EACCES: "writable for this user", syscall.EIO: "replace it", syscall.EMFILE: "limit of open files", syscall.ENOENT: "put it back",
	} {
		s, _ := openStore(t, t.TempDir())
		if err := s.Save(stateOf(6)); err != nil {
			t.Fatal(err)
		}
		s.write = func(*os.File, []byte, int64) error { return &os.PathError{Op: "write", Path: s.path(File), Err: errno} }
		err := datadir.Remedy(fmt.Errorf("write: %w", errno))
		if !errors.Is(err, errno) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v", errno, err)
		}
		if err := s.Save(stateOf(7)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: saving gives %v", errno, err)
		}
	}
}
