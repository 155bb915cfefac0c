package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestCheckTellsWhatItSaid(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"true", ""},
		{`sh -c 'echo first >&2; echo no database >&2; exit 3'`, "check sh: exit status 3: no database"},
		{"false", "check false: exit status 1"},
		{"sh -c 'sleep 1000 >&2 &'", ""}, // what it left behind is neither waited for nor kept
	} {
		f := checkFlags{line: tt.line}
		ctx, cancel := context.WithTimeout(t.Context(), agreeWithin)
		err := f.health().Check(ctx)
		cancel()
		switch {
		case tt.want == "" && err != nil, tt.want != "" && (err == nil || err.Error() != tt.want):
			t.Errorf("%s: %v, want %q", tt.line, err, tt.want)
		}
	}
	if (&checkFlags{}).health().Check != nil {
		t.Error("without --check there is one")
	}
}

// A check that takes too long is killed with all that it has started.
func TestCheckThatHangsIsKilled(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "pid")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	f := checkFlags{line: "sh -c 'sleep 1000 & echo $! > " + fifo + "; wait'"}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- f.health().Check(ctx) }()
	text, err := os.ReadFile(fifo)
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	handle, err := unix.PidfdOpen(child, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(handle)
	cancel()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "killed") {
			t.Errorf("it ends with %v", err)
		}
	case <-time.After(agreeWithin):
		t.Fatal("the check is still waited for")
	}
	awaitEnd(t, handle)
}
