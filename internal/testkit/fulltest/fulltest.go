// Package fulltest sets how much searches and tests of many members do, how many tests run in
// parallel, and how often garbage is collected.
package fulltest

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
)

// Enabled reports whether BATUTA_TEST_FULL=1 is set, as in continuous integration. Then searches
// are complete and clusters have their full size. Otherwise they are small: "go test ./..."
// takes a few minutes.
func Enabled() bool { return os.Getenv("BATUTA_TEST_FULL") == "1" }

// MostlyWait is for the TestMain of a package with tests that wait far more than they compute.
// Up to n tests that call t.Parallel run in parallel, unless -parallel is set.
func MostlyWait(n int) {
	flag.Parse()
	if beside := flag.Lookup("test.parallel"); beside.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		flag.Set(beside.Name, strconv.Itoa(n))
	}
}

// MostlyComputes is for a package with tests that compute: garbage is collected at four times the
// size of what is in use, unless GOGC is set.
func MostlyComputes() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
}

// Parallel calls t.Parallel unless [Enabled]: at its full size a test has the machine to itself.
func Parallel(t *testing.T) {
	t.Helper()
	if !Enabled() {
		t.Parallel()
	}
}

// Size returns full with BATUTA_TEST_FULL=1, and else small.
func Size[T any](small, full T) T {
	if Enabled() {
		return full
	}
	return small
}
