package journal_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/batuta-dev/batuta/internal/api/journal"
)

func every(string) bool { return true }

// read gives what a reader has at this moment: name, and JSON or what it has missed.
func read(r *journal.Reader) (list []string, last string) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for {
		e, ok := r.Next(ctx)
		if !ok {
			return list, last
		}
		text := e.Name + " " + string(e.JSON)
		if e.Missed > 0 {
			text += fmt.Sprint(e.Missed)
		}
		list, last = append(list, text), e.Index
	}
}

func add(j *journal.Journal, election string, list ...string) {
	for _, e := range list {
		name, text, _ := strings.Cut(e, " ")
		j.Add(journal.Event{Election: election, Name: name, JSON: []byte(text)})
	}
}

func expect(t *testing.T, r *journal.Reader, want ...string) (last string) {
	t.Helper()
	got, last := read(r)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
	return last
}

// After each index, of the view too, a reader has all that it had not before.
func TestAReaderGoesOnAfterEachIndex(t *testing.T) {
	j := journal.New()
	add(j, "", "leader 1", "member 2", "lost 3")
	add(j, "a", "leader 4")
	add(j, "", "member 5", "leader 6", "lost 7", "meta 8")
	all := []string{"leader 4", "leader 6", "lost 7"}
	for n, rest := range [][]string{{"member 5", "leader 6", "lost 7", "meta 8"}, {"lost 7", "meta 8"}, {}} {
		r := j.Read("", every)
		last := ""
		for _, want := range all[:n+1] {
			e, _ := r.Next(t.Context())
			if got := e.Name + " " + string(e.JSON); got != want {
				t.Errorf("the view has %s, not %s", got, want)
			}
			last = e.Index
		}
		expect(t, j.Read(last, every), rest...)
	}
	_, last := read(j.Read("", func(election string) bool { return election == "a" }))
	add(j, "", "leader 9")
	add(j, "a", "lost 10")
	expect(t, j.Read(last, func(election string) bool { return election == "a" }), "lost 10")
	expect(t, j.Read(last, func(election string) bool { return election == "b" }))
	j.Amend([]byte("9b"))
	expect(t, j.Read("", every), "leader 4", "leader 9b", "lost 10")
	j.Forget(func(election string) bool { return election == "a" })
	expect(t, j.Read("", every), "leader 9b")
}

// An index of another process, and of what is still to come, gives the view behind a reset.
func TestAnotherProcessIsReset(t *testing.T) {
	j, other := journal.New(), journal.New()
	add(other, "", "leader 1")
	add(j, "", "leader 1")
	_, last := read(other.Read("", every))
	for _, index := range []string{last, strings.Replace(last, "-1", "-18446744073709551615", 1), "x-1", "x", "-"} {
		expect(t, j.Read(index, every), "reset ", "leader 1")
	}
	_, mine := read(j.Read("", every))
	expect(t, j.Read(mine[:len(mine)-1]+"2", every), "reset ", "leader 1")
	r := j.Read("x-1", every)
	e, _ := r.Next(t.Context()) // and no more of it
	expect(t, j.Read(e.Index, every), "leader 1")
	if !journal.Valid(mine) || journal.Valid("x") || journal.Valid("-1") || journal.Valid("x-y") {
		t.Error("what an index is")
	}
}

// What is kept has a bound. A reader behind it learns how much it has missed, and goes on at the present.
func TestWhatIsNoLongerKeptIsReported(t *testing.T) {
	j := journal.New()
	add(j, "", "leader 1", "member 2")
	_, last := read(j.Read("", every))
	live := j.Read(last, every)
	long := strings.Repeat("x", 1000)
	n := 0
	for ; n < 10_000; n++ {
		add(j, "a", "member "+long)
	}
	want := fmt.Sprintf("behind %d", n)
	expect(t, live, want, "leader 1")
	now := expect(t, j.Read(last, every), want, "leader 1")
	expect(t, j.Read(now, every))
	add(j, "", "lost 3")
	expect(t, j.Read(now, every), "lost 3")
	if got, _ := read(j.Read(now[:strings.Index(now, "-")]+"-6000", every)); len(got) < 4000 {
		t.Errorf("after 6,000 of 10,000 events of 1 KB there are %d", len(got))
	}
}

// A reader that waits is woken, and told the end.
func TestAReaderWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := journal.New()
		got := make(chan string, 3)
		go func() {
			r := j.Read("", every)
			for {
				e, ok := r.Next(t.Context())
				got <- fmt.Sprint(e.Name, ok, r.Over())
				if !ok {
					return
				}
			}
		}()
		synctest.Wait()
		add(j, "", "leader 1")
		synctest.Wait()
		j.End()
		for _, want := range []string{"leadertrue false", "false true"} {
			if g := <-got; g != want {
				t.Errorf("got %s, want %s", g, want)
			}
		}
	})
}
