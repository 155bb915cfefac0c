package discovery

import (
	"strings"
	"testing"
)

func TestCheckNamesWhatToWrite(t *testing.T) {
	for source, want := range map[string]string{
		"10.0.0.1:7400": "", "[::1]:7400": "", "db.example:7400": "", "srv:7400": "", "file:7400": "",
		"srv:_batuta._tcp.example": "", "srv:_batuta._tcp.example.": "", "file:members": "", "file:/etc/a:b": "",
		"db.example": "HOST:PORT", "db.example:0": "port 0", "": "HOST:PORT",
		"srv:": "write srv:NAME", "srv:a b": "write srv:NAME", "srv:..": "write srv:NAME", "file:": "write file:PATH", "file:a\x00b": "write file:PATH",
		"exec:date": "port",
	} {
		switch err := Check(source); {
		case want == "" && err != nil:
			t.Errorf("%q: %v", source, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: got %v, want %q", source, err, want)
		}
	}
	for source, want := range map[string]bool{"10.0.0.1:1": true, "[::1]:1": true, "a:1": false, "srv:10.0.0.1": false, "file:1.2.3.4": false, "srv:1": false} {
		if got := Fixed(source); got != want {
			t.Errorf("%q is fixed: %v, want %v", source, got, want)
		}
	}
}
