package lab

import (
	"bytes"
	"testing"
)

// A program with data at 4 and, before it, at 1, and a section on each side.
func TestDataIsWhole(t *testing.T) {
	const header, before, after = "\x00asm\x01\x00\x00\x00", "\x05\x03\x01\x00\x01", "\x00\x02\x01x"
	code := header + before + "\x0b\x0f\x02" + "\x00\x41\x04\x0b\x02ab" + "\x00\x41\x01\x0b\x02cd" + after
	want := header + before + "\x0b\x0c\x01" + "\x00\x41\x00\x0b\x06\x00cd\x00ab" + after
	if got := whole([]byte(code)); string(got) != want {
		t.Errorf("got %q, want %q", got, want)
	}
	passive := header + before + "\x0b\x05\x01\x01\x02ab" + after
	if got := whole([]byte(passive)); string(got) != passive {
		t.Errorf("a segment of a different form: got %q", got)
	}
	if got := whole([]byte(header + before)); !bytes.Equal(got, []byte(header+before)) {
		t.Errorf("without data: got %q", got)
	}
}
