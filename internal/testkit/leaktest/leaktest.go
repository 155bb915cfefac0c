// Package leaktest has the tests of a package fail that leave goroutines behind.
package leaktest

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"
)

// patience is how long a goroutine may need to end after the tests.
const patience = 5 * time.Second

// own are the functions in which goroutines of the runtime and of testing wait.
var own = [][]byte{[]byte("testing."), []byte("os/signal."), []byte("runtime.goexit")}

// Main runs the tests for the TestMain of a package, and exits. If they pass but goroutines have not ended 5 s later, it
// prints them and the exit code is 1.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if left := left(patience); len(left) > 0 {
			fmt.Fprintf(os.Stderr, "these goroutines have not ended after the tests:\n\n%s\n", left)
			code = 1
		}
	}
	os.Exit(code)
}

// left waits until only the caller's goroutine is left, and returns the stacks of those that have not ended.
func left(patience time.Duration) []byte {
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		stacks := make([]byte, 4<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		others := slices.DeleteFunc(bytes.Split(stacks, []byte("\n\n"))[1:], func(stack []byte) bool { // the first is the caller's
			_, frames, _ := bytes.Cut(stack, []byte("\n"))
			return slices.ContainsFunc(own, func(name []byte) bool { return bytes.HasPrefix(frames, name) })
		})
		if len(others) == 0 || time.Now().After(end) {
			return bytes.Join(others, []byte("\n\n"))
		}
	}
}
