package stalltest

import (
	"os/exec"
	"testing"
	"time"
)

// Processes that wait to start or to end count for as long as they do, and others do not.
func TestHeldProcesses(t *testing.T) {
	began := time.Now()
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	p := &Processes{began: at(-30_000)}
	for _, ms := range []int{-29_990, -29_970, -29_000, -28_980, -28_900, -26_000} { // two are held: for 970 ms and 2.9 s, of which 200 ms each are usual
		p.next(at(ms))
	}
	for _, test := range []struct{ from, to, held int }{
		{-30_000, -29_970, 0},
		{-29_970, -29_000, 770},
		{-29_500, -29_400, 100},
		{-29_000, -28_900, 0},
		{-30_000, -26_000, 770 + 2700},
		{-30_000, -27_000, 770 + 1700},
		{-26_000, -25_000, 800}, // that has not ended
	} {
		if got := p.Held(at(test.from), at(test.to)).Milliseconds(); got != int64(test.held) {
			t.Errorf("from %d to %d: %d ms, want %d", test.from, test.to, got, test.held)
		}
	}
	watch := StartProcesses(t, time.Millisecond, func() *exec.Cmd { return exec.Command("sleep", "60") })
	for i := 0; i < 3; {
		watch.mu.Lock()
		if !watch.began.Equal(began) {
			i, began = i+1, watch.began
		}
		watch.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
}
