package api_test

import (
	"bufio"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// A stream whose reader is too far behind tells it so, and goes on with what is so now.
func TestStreamGoesOnAfterItsReaderWasBehind(t *testing.T) {
	resp, err := http.Get("http://" + serve(t, &fakeNode{events: story, view: viewOf("3", 8), late: &sync.Map{}}) + "/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	in := bufio.NewScanner(resp.Body)
	want := []string{storyLines[0], `"event":"behind","id":"3"`}
	for _, line := range append(want, storyLines...) {
		for !strings.HasPrefix(in.Text(), "data: ") && in.Scan() {
		}
		if !strings.Contains(in.Text(), strings.TrimPrefix(line, "data: ")) {
			t.Fatalf("got %q, want %s", in.Text(), line)
		}
		in.Scan()
	}
}
