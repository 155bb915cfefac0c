package vip

import (
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	list, err := Parse([]string{"10.0.0.100/24", "2001:db8::100/64", "10.1.0.1/32"})
	if err != nil || len(list) != 3 || list[0].Addr().String() != "10.0.0.100" || list[0].Bits() != 24 {
		t.Errorf("%v, %v", list, err)
	}
	for given, want := range map[string]string{
		"10.0.0.100":         "such as /24",
		"10.0.0.100/33":      "10.0.0.100/33",
		"eth0":               `"eth0"`,
		"0.0.0.0/0":          "give one that",
		"10.0.0.1/0":         "give one that",
		"127.0.0.1/8":        "give one that",
		"224.0.0.1/24":       "give one that",
		"::ffff:1.2.3.4/120": "give one that",
		"fe80::1%eth0/64":    "fe80::1%eth0/64",
	} {
		if _, err := Parse([]string{given}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want an error with %q", given, err, want)
		}
	}
	if _, err := Parse([]string{"10.0.0.1/24", "10.0.0.1/32", "x"}); err == nil || !strings.Contains(err.Error(), "twice") || !strings.Contains(err.Error(), `"x"`) {
		t.Errorf("not every fault is told: %v", err)
	}
}

// A neighbour that misses all announcements of the first second hears of the address
// soon after, for as long as it is held.
func TestWhenItIsAnnounced(t *testing.T) {
	if first := announced(0); first != 0 {
		t.Errorf("first after %v, want at once", first)
	}
	for n := 1; n < 100; n++ {
		if wait := announced(n) - announced(n-1); wait <= 0 || wait > announceEvery {
			t.Errorf("announcement %d comes %v after the one before", n, wait)
		}
	}
	if announced(3) > time.Second {
		t.Errorf("the fourth after %v, want a second at most", announced(3))
	}
}
