package outbox_test

import (
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/outbox"
)

var start = time.Unix(1000, 0)

func at(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

// filled is an outbox to which a message that needs proof went, and then one that does not.
func filled() (b outbox.Outbox, proof, plain *election.Message) {
	proof, plain = &election.Message{Kind: election.Election}, &election.Message{Kind: election.Probe}
	b.Sends(proof, start, start, at(1), true, true)
	b.Sends(plain, at(10), at(10), at(11), false, true)
	return b, proof, plain
}

func TestWhatIsKept(t *testing.T) {
	_, proof, plain := filled()
	for name, c := range map[string]struct {
		then func(b *outbox.Outbox)
		want int
		lost int
	}{
		"nothing":                       {func(*outbox.Outbox) {}, 2, 0},
		"the member is received":        {func(b *outbox.Outbox) { b.Received() }, 1, 0},
		"an answer to what left later":  {func(b *outbox.Outbox) { b.Confirms(at(5)) }, 1, 0},
		"an answer to what left before": {func(b *outbox.Outbox) { b.Confirms(start) }, 2, 0},
		"of the rest only the newest":   {func(b *outbox.Outbox) { b.Sends(plain, at(20), at(20), at(21), false, true) }, 2, 0},
		"the algorithm's, and the newest of the rest": {func(b *outbox.Outbox) {
			b.Sends(proof, at(20), at(20), at(21), true, false)
			b.Sends(proof, at(25), at(25), at(26), true, false)
			b.Sends(plain, at(30), at(30), at(31), false, false)
		}, 3, 0},
		"a dial fails":                           {func(b *outbox.Outbox) { b.DialLost(at(20), time.Second) }, 2, 2},
		"a second dial fails":                    {func(b *outbox.Outbox) { b.DialLost(at(20), time.Second); b.DialLost(at(30), time.Second) }, 1, 1},
		"a second dial fails when it is too old": {func(b *outbox.Outbox) { b.DialLost(at(20), time.Second); b.DialLost(at(2000), time.Second) }, 0, 0},
		"more than is kept": {func(b *outbox.Outbox) {
			for range 20 {
				b.Sends(proof, start, at(20), at(21), true, true)
			}
		}, 8, 0},
	} {
		b, _, _ := filled()
		was, list := b, b.Unconfirmed
		c.then(&b)
		if got := len(b.Unconfirmed); got != c.want {
			t.Errorf("%s: %d are kept, want %d", name, got, c.want)
		}
		if got := len(b.Which(outbox.IsLost)); got != c.lost {
			t.Errorf("%s: %d are lost, want %d", name, got, c.lost)
		}
		if len(was.Which(outbox.IsLost)) > 0 || len(list) != 2 {
			t.Errorf("%s: a copy has changed", name)
		}
	}
}

func TestWhatIsPending(t *testing.T) {
	b, _, _ := filled()
	if !b.Pending.Equal(start) || !b.Used.Equal(at(10)) || !b.Comes.Equal(at(11)) {
		t.Errorf("pending since %v, used %v, comes %v", b.Pending, b.Used, b.Comes)
	}
	if b.Received(); !b.Pending.IsZero() {
		t.Error("something is pending although the member was received")
	}
}

// A dial that was made as a relay is no concern of this member's own.
func TestOwnQuestions(t *testing.T) {
	for _, of := range []election.ID{"1", "2"} {
		var b outbox.Outbox
		b.Sends(&election.Message{Kind: election.Relay, Carried: &election.Message{From: of}}, start, start, start, false, false)
		b.DialLost(at(1), time.Second)
		if b.Asked("1") != (of == "1") {
			t.Errorf("a message of %s counts as asked by 1: %v", of, b.Asked("1"))
		}
	}
}
