package cli

import (
	"bytes"
	"strings"
	"testing"
)

func TestOnlyAYesConfirms(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "YES\r\n": true, "yes": true, "": false, "\n": false, "n\n": false, "yesterday\n": false} {
		var out bytes.Buffer
		if got := Confirmed(strings.NewReader(answer), &out, "Remove it?"); got != want || out.String() != "Remove it? [y/N] " {
			t.Errorf("%q: %v after %q", answer, got, out.String())
		}
	}
}
