package stalltest

import (
	"os"
	"testing"
)

// memory is where Linux keeps files in memory alone.
const memory = "/dev/shm"

// Dir is a directory for what a test's members keep on disk, gone when the test ends. It is in
// memory where the system has such a place: on a disk that others write to, as the compiler does
// while tests run, a save can take longer than T, and a member whose save does is passed over.
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
