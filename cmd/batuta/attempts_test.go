package main

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/testkit/stalltest"
)

// attempts runs a test in which each step expects a leader that the step before has left. A freeze of the machine
// between two steps moves leadership. So a failure on a machine that stalled for t_max or longer proves nothing: the test
// runs up to three times.
func attempts(t *testing.T, watch *stalltest.Watch, test func(*attempt)) {
	for n := 1; ; n++ {
		began, a := time.Now(), &attempt{T: t}
		a.run(test)
		stall := watch.Longest(began, time.Now())
		switch {
		case a.skipped:
			t.SkipNow()
		case !a.failed:
			return
		case n == 3 || stall < election.DefaultTMax:
			t.Fatalf("attempt %d; the machine stalled for %v at most", n, stall)
		}
		t.Logf("the machine stalled for %v: the test runs again", stall)
	}
}

// attempt is one run of a test. Its failure is not yet one of the test.
type attempt struct {
	*testing.T
	skipped, failed bool
	cleanups        []func()
}

func (a *attempt) run(test func(*attempt)) {
	ended := make(chan struct{})
	go func() { // FailNow ends the goroutine, not the test
		defer close(ended)
		test(a)
	}()
	<-ended
	for _, f := range slices.Backward(a.cleanups) {
		f()
	}
}

func (a *attempt) Cleanup(f func()) { a.cleanups = append(a.cleanups, f) }
func (a *attempt) Errorf(format string, args ...any) {
	a.Helper()
	a.Logf(format, args...)
	a.failed = true
}
func (a *attempt) Fail()             { a.failed = true }
func (a *attempt) FailNow()          { a.failed = true; runtime.Goexit() }
func (a *attempt) Failed() bool      { return a.failed }
func (a *attempt) Fatal(args ...any) { a.Helper(); a.Log(args...); a.FailNow() }
func (a *attempt) Fatalf(format string, args ...any) {
	a.Helper()
	a.Logf(format, args...)
	a.FailNow()
}
func (a *attempt) Parallel()                             {}
func (a *attempt) Run(_ string, test func(testscript.T)) { test(a) }
func (a *attempt) Skip(args ...any)                      { a.Log(args...); a.skipped = true; runtime.Goexit() }
func (a *attempt) Verbose() bool                         { return testing.Verbose() }
