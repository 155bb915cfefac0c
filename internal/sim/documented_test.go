package sim_test

import (
	"os"
	"strings"
	"testing"
)

// documented compares what a page has between the two comments that a name
// marks with what it should have; -update writes that.
func documented(t *testing.T, page, name, want string) {
	t.Helper()
	file := "../../" + page
	from, to := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), from)
	found, after, ends := strings.Cut(rest, to)
	switch {
	case !begins || !ends:
		t.Fatalf("%s has no place for the %s between %q and %q", file, name, from, to)
	case *update:
		if err := os.WriteFile(file, []byte(before+from+want+to+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case found != want:
		t.Errorf("%s lists other %s: update it with go test ./internal/sim -run %s -update", file, name, t.Name())
	}
}
