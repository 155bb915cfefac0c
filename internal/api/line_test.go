package api_test

import (
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/internal/api"
)

// Text has no metadata of batuta's packages, and no line for a change of that only.
func TestTextLeavesOutTheMetadataOfBatutaItself(t *testing.T) {
	var b strings.Builder
	text := new(api.Text)
	publishes := func(member string, pairs map[string]string) {
		if err := text.Write(api.Line{Event: "meta", Member: member, Meta: pairs}, &b); err != nil {
			t.Fatal(err)
		}
	}
	publishes("1", map[string]string{"batuta.ticks": "AAAA"})
	publishes("1", map[string]string{"batuta.ticks": "AAAB", "zone": "b"})
	publishes("1", map[string]string{"batuta.ticks": "AAAC", "zone": "b"})
	publishes("2", nil)
	publishes("1", map[string]string{"batuta.ticks": "AAAC"})
	want := []string{"1 publishes zone=b", "2 publishes nothing", "1 publishes nothing"}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	for i, line := range lines {
		if len(lines) != len(want) || !strings.HasSuffix(line, "  "+want[i]) {
			t.Errorf("%q, not %q", lines, want)
			break
		}
	}
}
