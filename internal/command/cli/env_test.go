package cli

import (
	"bytes"
	"os"
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

// A command with its input or output at /dev/null, such as that of a service, has no user to ask.
func TestTheNullDeviceIsNoTerminal(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if IsTerminal(null) {
		t.Errorf("%s is taken for a terminal", os.DevNull)
	}
}
