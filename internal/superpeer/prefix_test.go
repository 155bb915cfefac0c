package superpeer

import (
	"testing"
)

// prefixKey is the rule itself: the key p with all but its first k bits cleared. The node
// responsible for that key serves p.
func prefixKey(p uint64, k int) uint64 { return p &^ (1<<(64-k) - 1) }

func TestPrefixBits(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 0, 2: 1, 3: 2, 4: 2, 5: 3, 25: 5, 32: 5, 33: 6, 10000: 14} {
		if got := PrefixBits(n); got != want {
			t.Errorf("PrefixBits(%d) = %d, want %d", n, got, want)
		}
	}
}

// The exact-N ranges are the source's prefixes when N is a power of two.
func TestRangesArePrefixesForPowersOfTwo(t *testing.T) {
	d := Draw(1)
	for range 1000 {
		p := d.Next()
		r := RangeOf(p, 32)
		if r != int(p>>59) {
			t.Fatalf("RangeOf(%#x, 32) = %d, want the first five bits, %d", p, r, p>>59)
		}
		if RangeStart(r, 32) != prefixKey(p, 5) {
			t.Fatalf("range %d starts at %#x, but %#x has the prefix key %#x", r, RangeStart(r, 32), p, prefixKey(p, 5))
		}
	}
}

func TestRangesPartitionTheIdentifiers(t *testing.T) {
	for _, count := range []int{1, 2, 3, 7, 100, 997} {
		for r := range count {
			start := RangeStart(r, count)
			if got := RangeOf(start, count); got != r {
				t.Errorf("range %d of %d starts at %#x, which is in range %d", r, count, start, got)
			}
			if r > 0 && RangeOf(start-1, count) != r-1 {
				t.Errorf("before range %d of %d comes range %d", r, count, RangeOf(start-1, count))
			}
		}
	}
}

func TestRingOwner(t *testing.T) {
	ring := NewRing([]Place{{30, 3}, {10, 1}, {20, 2}})
	for key, want := range map[uint64]Peer{0: 1, 10: 1, 11: 2, 30: 3, 31: 1} {
		if got, ok := ring.Owner(key); !ok || got != want {
			t.Errorf("Owner(%d) = %d, %v, want %d", key, got, ok, want)
		}
	}
	ring.Change(func(p Peer) bool { return p == 2 }, []Place{{25, 5}, {5, 4}})
	for key, want := range map[uint64]Peer{0: 4, 6: 1, 11: 5, 26: 3, 31: 4} {
		if got, _ := ring.Owner(key); got != want {
			t.Errorf("after the change, Owner(%d) = %d, want %d", key, got, want)
		}
	}
	if _, ok := NewRing(nil).Owner(1); ok {
		t.Error("an empty ring has an owner")
	}
}
