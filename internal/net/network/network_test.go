package network

import "testing"

func TestAnInboxTakesNothingOnceItIsOver(t *testing.T) {
	over := make(chan struct{})
	i := NewInbox(over)
	for range inboxSize {
		if !i.Post(func() {}) {
			t.Fatal("there is room, and it takes nothing")
		}
	}
	waiting := make(chan bool)
	go func() { waiting <- i.Post(func() {}) }() // there is no room
	close(over)
	if <-waiting {
		t.Error("it says that what nobody takes in was posted")
	}
}

func TestAPosterIsFreeWhileAllIsDiscarded(t *testing.T) {
	i := NewInbox(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 3 * inboxSize {
			i.Post(func() { t.Error("it is called") })
		}
	}()
	i.Discard(done)
}

func TestWhatIsCounted(t *testing.T) {
	var c Counters
	if received, refused, bad := c.Counts(); received == nil || refused == nil || bad == nil {
		t.Error("a count is nil")
	}
	c.Received("beat")
	c.Refused("cluster")
	c.Refused("cluster")
	c.Bad("slow")
	received, refused, bad := c.Counts()
	if received["beat"] != 1 || refused["cluster"] != 2 || bad["slow"] != 1 || len(received)+len(refused)+len(bad) != 3 {
		t.Errorf("received %v, refused %v, bad %v", received, refused, bad)
	}
}
