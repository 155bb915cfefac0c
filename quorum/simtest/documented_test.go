package simtest_test

import (
	"testing"

	"github.com/batuta-dev/batuta/internal/testkit/page"
)

// documented compares what a page has between the two comments that a name
// marks with what it should have; -update writes that.
func documented(t *testing.T, file, name, want string) {
	t.Helper()
	page.Hold(t, "../../"+file, map[string]string{name: want}, *update, "go test ./quorum/simtest -run "+t.Name()+" -update")
}
