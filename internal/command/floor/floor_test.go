package floor

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The test's program is each process of a round.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "member" {
		if err := Member(os.Args[2:], os.Stdin, os.Stdout); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestRound(t *testing.T) {
	self := []string{os.Args[0], "member"}
	for _, processes := range []int{2, 5} {
		for _, kill := range []bool{false, true} {
			for _, dir := range []string{"", t.TempDir()} {
				sync, first, all, err := Round(t.Context(), self, processes, kill, dir)
				if err != nil || sync <= 0 || first <= 0 || all < first {
					t.Errorf("%d processes, killed: %v, in %q: a write %v, the first %v, all %v, %v", processes, kill, dir, sync, first, all, err)
				}
			}
		}
	}
	if _, _, _, err := Round(t.Context(), self, 2, true, "/nowhere"); err == nil || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("no directory to save in, and Round returns %v", err)
	}
	if _, _, _, err := Round(t.Context(), []string{"/nowhere"}, 2, true, ""); err == nil {
		t.Error("no command, and Round measures something")
	}
}

func TestHere(t *testing.T) {
	m := Here()
	if m.Cores < 1 || m.Commit == "" || !strings.HasPrefix(m.Go, "go") || !strings.Contains(m.String(), m.Go) {
		t.Errorf("this machine is %+v", m)
	}
}
