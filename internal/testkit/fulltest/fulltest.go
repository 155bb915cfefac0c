// Package fulltest says how much the tests do that search, or that are a crowd, and how
// many of them run beside each other.
package fulltest

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
)

// Enabled reports whether BATUTA_TEST_FULL=1 is set, as it is in continuous
// integration: searches then go to their end and crowds have their full size.
// Without it they are small, so that "go test ./..." takes a few minutes.
func Enabled() bool { return os.Getenv("BATUTA_TEST_FULL") == "1" }

// MostlyWait is for the TestMain of a package whose tests wait far more than they
// compute: up to n of those that call t.Parallel run beside each other, unless -parallel
// says how many.
func MostlyWait(n int) {
	flag.Parse()
	if beside := flag.Lookup("test.parallel"); beside.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		flag.Set(beside.Name, strconv.Itoa(n))
	}
}

// Parallel has a test run beside others, as t.Parallel does, unless [Enabled]: at its full
// size it has the machine to itself.
func Parallel(t *testing.T) {
	t.Helper()
	if !Enabled() {
		t.Parallel()
	}
}

// Size is full with BATUTA_TEST_FULL=1, and small without.
func Size[T any](small, full T) T {
	if Enabled() {
		return full
	}
	return small
}
