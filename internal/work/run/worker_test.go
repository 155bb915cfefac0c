package run

import (
	"fmt"
	"os"
	"testing"

	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
	"github.com/batuta-dev/batuta/internal/work/run/runtest"
)

// TestMain lets the test binary be a guard and the command that it guards.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "guard":
		if _, err := Guard(removing(os.Args[2:])); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case len(os.Args) > 1 && programs[os.Args[1]] != nil:
		programs[os.Args[1]]()
	case len(os.Args) > 1 && os.Args[1] == "keep":
		keep(os.Args[2:])
	case len(os.Args) > 1 && os.Args[1] == "worker":
		runtest.Work(os.Args[:2], os.Args[2:])
	default:
		fulltest.MostlyWait(8)
		os.Exit(m.Run())
	}
}

// removing is what a guard removes of each run: a file, once; nil: none is given.
func removing(files []string) func() error {
	if len(files) == 0 {
		return nil
	}
	removed := false
	return func() error {
		if removed {
			return nil
		}
		err := os.Remove(files[0])
		removed = err == nil
		return err
	}
}

// programs are what the test binary can be on one system alone.
var programs = map[string]func(){}

// factory makes workers of this test binary.
type factory struct{ *runtest.Factory }

func newFactory(t *testing.T) factory {
	t.Helper()
	return factory{runtest.NewFactory(t)}
}

// argv is the command line of a worker.
func (f factory) argv(words ...string) []string {
	return append([]string{os.Args[0], "worker"}, f.Argv(words...)...)
}
