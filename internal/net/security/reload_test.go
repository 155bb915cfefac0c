package security_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/internal/net/security"
)

// What keeps a file from being read may end without a change that the file shows: its owner is
// corrected, or files can be opened again. It is tried again until it is read, and reported once.
func TestAFileThatCannotBeReadIsTriedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	first, next := security.NewSecret(), security.NewSecret()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(first)
	s, err := security.New(t.Context(), "payments", "1", security.Options{SecretFile: path})
	if err != nil {
		t.Fatal(err)
	}
	reload := func(changed bool, fault string) {
		t.Helper()
		got, err := s.Reload(t.Context(), false)
		if got != changed || (err != nil) != (fault != "") || err != nil && !strings.Contains(err.Error(), fault) {
			t.Errorf("changed: %v, %v; want %v, %q", got, err, changed, fault)
		}
	}
	broken := strings.Repeat("?", len(next))
	write(broken)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	reload(true, "is not a secret")
	reload(false, "")
	write(next) // of the same size
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	reload(true, "")
	reload(false, "")
	write(broken) // reported again, because it was read since
	reload(true, "is not a secret")
}
