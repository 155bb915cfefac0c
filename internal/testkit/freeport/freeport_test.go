package freeport

import "testing"

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
