package leaktest

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// leaks, in the environment, has TestALeak leave a goroutine behind.
const leaks = "BATUTA_TEST_LEAKS"

func TestMain(m *testing.M) { Main(m) }

func forgotten() { select {} }

// The tests of a package that leave a goroutine behind fail, and its stack is printed.
func TestALeak(t *testing.T) {
	if os.Getenv(leaks) != "" {
		go forgotten()
		return
	}
	tests := exec.Command(os.Args[0], "-test.run=^TestALeak$")
	tests.Env = append(os.Environ(), leaks+"=1")
	out, err := tests.CombinedOutput()
	if failed := (*exec.ExitError)(nil); !errors.As(err, &failed) || failed.ExitCode() != 1 {
		t.Errorf("the exit is %v, want 1", err)
	}
	for _, want := range []string{"PASS\n", "leaktest.forgotten"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is missing in: %s", want, out)
		}
	}
}
