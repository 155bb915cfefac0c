// Package fulltest says how much the tests do that search, or that are a crowd.
package fulltest

import "os"

// Enabled reports whether BATUTA_TEST_FULL=1 is set, as it is in continuous
// integration: searches then go to their end and crowds have their full size.
// Without it they are small, so that "go test ./..." takes a few minutes.
func Enabled() bool { return os.Getenv("BATUTA_TEST_FULL") == "1" }

// Size is full with BATUTA_TEST_FULL=1, and small without.
func Size[T any](small, full T) T {
	if Enabled() {
		return full
	}
	return small
}
