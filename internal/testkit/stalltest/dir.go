package stalltest

import (
	"os"
	"testing"
)

// memory is where Linux keeps files only in memory.
const memory = "/dev/shm"

// Dir returns a directory for the data of a test's members, which is removed when the test ends.
// It is in memory where the system has such a place. On a busy disk, as during compilation, a
// save can take longer than T, and a member with such a save is not elected.
func Dir(t testing.TB) string {
	dir, err := os.MkdirTemp(memory, "batuta")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("what the test's members kept: %v", err)
		}
	})
	return dir
}
