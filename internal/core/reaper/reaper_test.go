package reaper

import (
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
)

var start = time.Unix(1, 0)

// look has a leader look at voters; a capital letter is one that is away, x an observer, X one that is away.
func look(r *Reaper, at time.Duration, leader election.ID, members string) {
	var list []Member
	for _, c := range members {
		upper := c >= 'A' && c <= 'Z'
		if upper {
			c += 'a' - 'A'
		}
		list = append(list, Member{ID: election.ID(c), Away: upper, Votes: c != 'x'})
	}
	r.Look(start.Add(at), time.Second, leader, 0, list)
}

func wants(t *testing.T, r *Reaper, id election.ID) {
	t.Helper()
	if got := r.Due(); got != id {
		t.Errorf("due is %q, want %q", got, id)
	}
}

// each looks every second from one time to the next.
func each(r *Reaper, from, to time.Duration, leader election.ID, members string) {
	for at := from; at <= to; at += time.Second {
		look(r, at, leader, members)
	}
}

func TestAMemberIsReapedAfterItsTime(t *testing.T) {
	r := New(10 * time.Second)
	each(&r, 0, 9*time.Second, "a", "abC")
	wants(t, &r, election.None)
	if got := r.At("c"); !got.Equal(start.Add(10 * time.Second)) {
		t.Errorf("c is reaped at %v", got)
	}
	if got := r.At("b"); !got.IsZero() {
		t.Errorf("b is reaped at %v", got)
	}
	look(&r, 10*time.Second, "a", "abC")
	wants(t, &r, "c")
	look(&r, 11*time.Second, "a", "ab") // it is off the list
	wants(t, &r, election.None)
}

func TestTheTimeBeginsAnew(t *testing.T) {
	for name, between := range map[string]func(*Reaper){
		"it was back":          func(r *Reaper) { look(r, 9*time.Second, "a", "abc") },
		"there is none leader": func(r *Reaper) { look(r, 9*time.Second, election.None, "abC") },
		"another leader":       func(r *Reaper) { look(r, 9*time.Second, "b", "abC") },
	} {
		r := New(10 * time.Second)
		each(&r, 0, 8*time.Second, "a", "abC")
		between(&r)
		each(&r, 10*time.Second, 19*time.Second, "a", "abC")
		if got := r.Due(); got != election.None {
			t.Errorf("%s: due is %q", name, got)
		}
		look(&r, 20*time.Second, "a", "abC")
		wants(t, &r, "c")
	}
}

// A process that was stopped has received no member meanwhile.
func TestTimeWithoutALookDoesNotCount(t *testing.T) {
	r := New(10 * time.Second)
	each(&r, 0, 5*time.Second, "a", "abC")
	look(&r, time.Hour, "a", "abC")
	wants(t, &r, election.None)
	each(&r, time.Hour, time.Hour+4*time.Second, "a", "abC")
	wants(t, &r, election.None)
	look(&r, time.Hour+5*time.Second, "a", "abC")
	wants(t, &r, "c")
}

func TestReapingNeverLeavesTooFew(t *testing.T) {
	for members, want := range map[string]string{
		"aB":      "",    // half is no majority
		"abC":     "c",   // two of three
		"aBC":     "",    // the two may lead elsewhere
		"abcDE":   "d e", // three of five are left
		"abCDE":   "",    // two of five
		"abcdEFG": "e f g",
		"abX":     "x", // an observer counts for nothing
		"aBX":     "",
		"aX":      "x",
	} {
		r := New(time.Second)
		each(&r, 0, time.Second, "a", members)
		got := ""
		for _, m := range members {
			if id := election.ID(m + 'a' - 'A'); m < 'a' && !r.At(id).IsZero() {
				got += " " + string(id)
			}
		}
		if got = trim(got); got != want {
			t.Errorf("%s: reaps %q, want %q", members, got, want)
		}
	}
	r := New(time.Second)
	look(&r, 0, "a", "abcde")
	each(&r, 0, time.Second, "a", "abC") // two have gone since
	wants(t, &r, election.None)
}

func trim(s string) string {
	if s != "" {
		return s[1:]
	}
	return s
}

func TestTheZeroReapsNone(t *testing.T) {
	var r Reaper
	each(&r, 0, time.Hour, "a", "abC")
	wants(t, &r, election.None)
}
