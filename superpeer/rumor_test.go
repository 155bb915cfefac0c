package superpeer

import (
	"testing"

	rules "github.com/batuta-dev/batuta/internal/superpeer"
)

// gossips lets books pass on what they know for a round, each to others drawn by chance, and some
// compare all that they know, as nodes do that exchange their lists. Each has a clock of its own.
func gossips(books []*book, round rules.Round, draw *uint64) {
	clock := func(i int) rules.Round { return round + rules.Round(i) }
	chance := func() int {
		*draw = rules.Mix(*draw + 1)
		return int(*draw % uint64(len(books)))
	}
	for i, b := range books {
		b.expire(clock(i), 1, 4)
	}
	for _, b := range books {
		for range tellTimes {
			other := chance()
			for _, raw := range b.broadcasts(3, 1400, true) {
				if n, ok := decodeNotice(raw[1:], 64, 0); ok {
					books[other].learn(&n, clock(other))
				}
			}
		}
	}
	for range len(books) / minCompare {
		one, other := chance(), chance()
		for _, way := range [][2]int{{one, other}, {other, one}} {
			for _, n := range books[way[0]].snapshot() {
				books[way[1]].learn(&n, clock(way[1]))
			}
		}
	}
}

// TestAnOldAnnouncementIsNotToldForEver has an announcement that its holder does not repeat. Books drop it at
// different times, and whoever has dropped it hears it again from one that has not.
func TestAnOldAnnouncementIsNotToldForEver(t *testing.T) {
	still, rounds := 0, rules.Round(0)
	for seed := range uint64(10) {
		draw := rules.Mix(seed)
		books := make([]*book, 40)
		for i := range books {
			books[i] = newBook()
			books[i].core = true
		}
		books[0].learn(told(2, 2, 8), 0)
		rounds = 10 * (3*books[0].gap(4) + 2)
		for now := range rounds {
			gossips(books, now, &draw)
		}
		for _, b := range books {
			still += len(b.snapshot())
		}
	}
	if still > 0 {
		t.Errorf("of 400 books %d still say after %d rounds what was said once", still, rounds)
	}
}

// TestAHoldersLaterAnnouncementCounts: a token's record was lost and it began anew at its first version,
// with one who had held it before.
func TestAHoldersLaterAnnouncementCounts(t *testing.T) {
	b := newBook()
	b.learn(told(2, 5, 8), 1)
	again := told(2, 1, 8)
	again.seq, again.load = 9, 3
	if b.learn(again, 2); len(b.snapshot()) != 1 || b.snapshot()[0].load != 3 {
		t.Errorf("the book has %+v, want what its holder has said last", b.snapshot())
	}
	if b.learn(told(2, 5, 8), 3); b.snapshot()[0].load != 3 {
		t.Error("what its holder said before took its place")
	}
}
