package cli

import (
	"bytes"
	"fmt"
	"testing"
	"text/tabwriter"
)

// A table on a terminal shows who leads and what is down in colour, and its columns stay.
func TestTablesAreColouredOnATerminalAlone(t *testing.T) {
	set := map[string]string{}
	lookup := func(name string) (string, bool) { v, ok := set[name]; return v, ok }
	table := func(terminal bool) string {
		var out bytes.Buffer
		w := tabwriter.NewWriter(Paint(&out, terminal, lookup), 0, 0, 2, ' ', 0)
		fmt.Fprint(w, "1\tleader\tup\n2\t-\tdown\n")
		w.Flush()
		return out.String()
	}
	const plain = "1  leader  up\n2  -       down\n"
	if got, want := table(true), "1  \x1b[32mleader\x1b[0m  up\n2  -       \x1b[31mdown\x1b[0m\n"; got != want {
		t.Errorf("on a terminal: %q, not %q", got, want)
	}
	if got := table(false); got != plain {
		t.Errorf("into a pipe: %q", got)
	}
	for name, value := range map[string]string{"NO_COLOR": "1", "TERM": "dumb"} {
		set = map[string]string{name: value}
		if got := table(true); got != plain {
			t.Errorf("%s=%s: %q", name, value, got)
		}
	}
}
