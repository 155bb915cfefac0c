package freeport

import (
	"net"
	"strconv"
	"testing"
	"time"
)

// A port that was given and is not listened on yet is given to nobody else.
func TestAPortIsGivenOnce(t *testing.T) {
	given := map[int]bool{}
	for range 300 {
		ports, err := FindOn("127.0.0.1", "127.0.0.1", "127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		for _, port := range ports {
			if given[port] {
				t.Fatalf("%d is given twice among the first %d", port, len(given)+1)
			}
			given[port] = true
		}
	}
}

// A process that has asked for many is given its own ports again: it takes no more
// from the others, and never goes without.
func TestPortsDoNotRunOut(t *testing.T) {
	before := len(owned.held)
	for range most*block + 1 {
		if _, err := Find(1); err != nil {
			t.Fatal(err)
		}
	}
	if held := len(owned.held); held > max(before, most) {
		t.Errorf("holds %d blocks, want %d at most", held, most)
	}
	if _, err := Find(most * block); err != nil {
		t.Errorf("more at once than it holds: %v", err)
	}
}

// A listener that was closed, and that a child has for a moment, is waited for.
func TestAgainWaitsForAChild(t *testing.T) {
	ports, err := Find(1)
	if err != nil {
		t.Fatal(err)
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	child, err := l.(*net.TCPListener).File() // a second descriptor of the socket, as a child has it
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	time.AfterFunc(50*time.Millisecond, func() { child.Close() })
	err = Again(func() (err error) {
		l, err = net.Listen("tcp", addr)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}
