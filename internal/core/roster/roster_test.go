package roster_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/roster"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func member(id election.ID) election.Member {
	return election.Member{Rank: election.Rank{ID: id}, Address: "10.0.0." + string(id) + ":7400"}
}

// entries are news of four members, of every sort, in which versions are equal often.
func entries(random *rand.Rand) (all []election.Member) {
	for range 1 + random.IntN(12) {
		e := member(election.ID(strconv.Itoa(1 + random.IntN(4))))
		e.Version = 1 + random.Uint64N(3) // 0 is a configuration's, each operator's own
		e.Departure = election.Departure(random.IntN(3))
		e.Priority = random.IntN(3)
		e.Address = fmt.Sprintf("10.0.0.%s:%d", e.ID, 1+random.IntN(2))
		all = append(all, e)
	}
	return all
}

// Lists are the same everywhere once members have told each other, whatever came first.
func TestTheOrderOfNewsDoesNotMatter(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 0))
		news := entries(random)
		a, b := roster.New(member("9"), nil, nil), roster.New(member("9"), nil, nil)
		for _, e := range news {
			a.Merge(noon, []election.Member{e})
		}
		for _, i := range random.Perm(len(news)) {
			b.Merge(noon, []election.Member{news[i]})
		}
		if !slices.Equal(a.All(), b.All()) || a.Digest() != b.Digest() {
			t.Fatalf("seed %d: %v\nand in another order\n%v", seed, a.All(), b.All())
		}
		if again, _ := a.Merge(noon, b.All()); len(again) > 0 {
			t.Fatalf("seed %d: the same list has news: %v", seed, again)
		}
	}
}

// What is given out stays as it is: a message that is on its way has it, too.
func TestAListThatWasGivenOutStays(t *testing.T) {
	r := roster.New(member("1"), nil, []election.Member{member("2")})
	before := r.All()
	copied, clone := slices.Clone(before), r.Clone()
	gone, _ := r.Above(noon, func() election.Member { e := member("2"); e.Departure = election.Left; return e }())
	if news, _ := r.Merge(noon, []election.Member{gone}); len(news) != 1 {
		t.Fatalf("news: %v", news)
	}
	if !slices.Equal(before, copied) || !slices.Equal(clone.All(), copied) {
		t.Errorf("it has become %v, its clone's %v", before, clone.All())
	}
	if clone.Digest() == r.Digest() {
		t.Error("the lists differ, their digests do not")
	}
}

// An entry that was forgotten does not come back from one that has not heard of it, and
// that one is told.
func TestWhoWasForgottenStaysForgotten(t *testing.T) {
	r := roster.New(member("1"), nil, nil)
	came := member("2")
	came.Version = 1
	r.Merge(noon, []election.Member{came})
	forgotten := came
	forgotten.Version, forgotten.Departure, forgotten.New = 2, election.Left, true
	r.Merge(noon, []election.Member{forgotten})
	if _, ok := r.Entry("2"); ok {
		t.Fatal("it is on the list")
	}
	news, stale := r.Merge(noon.Add(time.Second), []election.Member{came})
	if len(news) > 0 || len(stale) != 1 || stale[0] != forgotten {
		t.Errorf("news %v, stale %v", news, stale)
	}
	if news, _ := r.Merge(noon.Add(2*roster.ForgetAfter), []election.Member{came}); len(news) != 1 {
		t.Error("it is not let in when that is long ago")
	}
}

func TestWhoMayEnter(t *testing.T) {
	removed := member("3")
	removed.Version, removed.Departure = 1, election.Removed
	r := roster.New(member("1"), []election.Member{removed}, []election.Member{member("2")})
	for _, c := range []struct {
		id     election.ID
		closed bool
		want   error
	}{
		{"2", true, nil}, {"4", false, nil}, {"4", true, election.ErrNotMember}, {"3", false, election.ErrRemoved}, {"x", false, election.ErrMixedKind},
	} {
		if err := r.MayEnter(member(c.id), c.closed); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s, closed %v: %v, want %v", c.id, c.closed, err, c.want)
		}
	}
}

// A burst may join at once; after that one waits.
func TestJoinsAreBounded(t *testing.T) {
	r := roster.New(member("1"), nil, nil)
	n := 0
	for ; !r.Crowded(noon); n++ {
		r.CountJoin(noon)
	}
	if n != 256 {
		t.Errorf("%d join at once", n)
	}
	if r.Crowded(noon.Add(time.Second)) {
		t.Error("nobody may join a second later")
	}
}

// A member that was reaped, and lives, passes its tombstone on as it is: it does not turn into that of a
// member that a user has removed, which is never forgotten.
func TestAReapedMemberKeepsItsTombstone(t *testing.T) {
	reaped := member("1")
	reaped.Version, reaped.Departure, reaped.New = election.RemovalLead, election.Removed, true
	own, other := roster.New(member("1"), nil, nil), roster.New(member("2"), nil, []election.Member{reaped})
	passedOn, _ := own.Merge(noon, []election.Member{reaped})
	if news, _ := other.Merge(noon, passedOn); len(news) > 0 {
		t.Errorf("the list has it as %+v, and then as %+v", reaped, news[0])
	}
}

func ExampleRoster_Merge() {
	now := time.Now()
	here := roster.New(member("1"), nil, []election.Member{member("2")})
	there := roster.New(member("2"), nil, []election.Member{member("1")})

	e, _ := here.Above(now, member("3")) // 3 joins through 1
	news, _ := here.Merge(now, []election.Member{e})
	fmt.Println(len(news), here.Digest() == there.Digest())

	there.Merge(now, here.All())
	fmt.Println(here.Digest() == there.Digest())
	// Output:
	// 1 false
	// true
}

// What is remembered of forgotten entries is bounded, whatever a member sends: the latest stay forgotten.
func TestForgottenEntriesAreBounded(t *testing.T) {
	r := roster.New(member("1"), nil, nil)
	entry := func(i int, version uint64) election.Member {
		return election.Member{Rank: election.Rank{ID: election.ID(strconv.Itoa(1000 + i))}, Version: version, New: version > 1, Departure: election.Left}
	}
	for i := range election.MaxMembers + 1 {
		r.Merge(noon, []election.Member{entry(i, 2)})
	}
	for _, i := range []int{0, 1, election.MaxMembers} {
		r.Merge(noon, []election.Member{entry(i, 1)}) // a member still has it
		if _, back := r.Entry(entry(i, 1).ID); back != (i == 0) {
			t.Errorf("entry %d of %d that were forgotten is back: %v", i, election.MaxMembers+1, back)
		}
	}
}
