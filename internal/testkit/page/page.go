// Package page keeps the generated parts of a documentation page as the code has them.
package page

import (
	"os"
	"strings"
	"testing"
)

// Hold compares what file has between the two comments that mark each part with what it should have.
// With update it writes that instead. again is the command that a failure names.
func Hold(t *testing.T, file string, parts map[string]string, update bool, again string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for name, want := range parts {
		from, to := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n"
		before, rest, begins := strings.Cut(page, from)
		found, after, ends := strings.Cut(rest, to)
		if !begins || !ends {
			t.Fatalf("%s has no place for the %s between %q and %q", file, name, from, to)
		}
		if found != want && !update {
			t.Errorf("%s has other %s: update it with %s", file, name, again)
		}
		page = before + from + want + to + after
	}
	if update {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
