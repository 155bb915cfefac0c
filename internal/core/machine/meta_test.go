package machine_test

import (
	"maps"
	"slices"
	"testing"

	. "github.com/batuta-dev/batuta/election"
	. "github.com/batuta-dev/batuta/internal/core/machine"
)

func pairs(value string) map[string]string { return map[string]string{"url": value} }

func anyone(ID) bool { return true }

// told gives one copy what the other knows, and what came of it.
func told(k *Metas, list ...Meta) []Meta { return k.Merge(list, anyone) }

func TestOnlyAMemberItselfChangesWhatItTells(t *testing.T) {
	k := NewMetas("1", 7, pairs("a"))
	for what, forged := range map[string]Meta{
		"a later word":    {ID: "1", Incarnation: 7, Version: 5, Pairs: pairs("x")},
		"a later process": {ID: "1", Incarnation: 90, Pairs: pairs("x")},
		"the same word":   {ID: "1", Incarnation: 90, Version: 1, Pairs: pairs("x")},
		"an earlier one":  {ID: "1", Incarnation: 2, Pairs: pairs("x")},
	} {
		news := told(&k, forged)
		if got := k.Of("1"); !maps.Equal(got, pairs("a")) {
			t.Errorf("%s: it tells %v of itself", what, got)
		}
		for _, e := range news {
			if !e.Supersedes(forged) || !maps.Equal(e.Pairs, pairs("a")) {
				t.Errorf("%s: it answers %+v, which does not hold over it", what, e)
			}
		}
	}
	if news := told(&k, k.Own()...); len(news) > 0 {
		t.Errorf("its own word, come back, is news: %v", news)
	}
}

func TestAProcessTakesBackWhatTheOneBeforeItTold(t *testing.T) {
	k := NewMetas("1", 8, nil)
	if k.Digest() != 0 || k.Own() != nil {
		t.Fatal("a member that tells nothing has something to tell")
	}
	old := Meta{ID: "1", Incarnation: 7, Version: 3, Pairs: pairs("a")}
	if news := told(&k, old); len(news) != 1 || !news[0].Supersedes(old) || len(news[0].Pairs) > 0 {
		t.Errorf("it answers %+v", news)
	}
}

func TestTheLatestWordHolds(t *testing.T) {
	k := NewMetas("1", 8, nil)
	list := []Meta{
		{ID: "2", Incarnation: 1, Version: 9, Pairs: pairs("a")},
		{ID: "2", Incarnation: 2, Pairs: pairs("b")},
		{ID: "2", Incarnation: 1, Version: 10, Pairs: pairs("c")},
		{ID: "3", Incarnation: 1, Pairs: pairs("d")},
	}
	told(&k, list...)
	other := NewMetas("4", 8, nil)
	slices.Reverse(list)
	told(&other, list...)
	if got := k.Of("2"); !maps.Equal(got, pairs("b")) {
		t.Errorf("2 tells %v", got)
	}
	if k.Digest() == 0 || k.Digest() != other.Digest() {
		t.Errorf("digests %d and %d of the same", k.Digest(), other.Digest())
	}
	if k.Drop("2"); k.Of("2") != nil || k.Digest() == other.Digest() {
		t.Error("a dropped member is still known")
	}
	if k.Merge(list, func(id ID) bool { return id == "3" }); k.Of("2") != nil {
		t.Error("a stranger's word is kept")
	}
}

// learned are those whose word is told to the driver.
func learned(actions []Action) (ids []ID) {
	for _, a := range actions {
		if a.Kind == Learn {
			ids = append(ids, a.Member)
		}
	}
	return ids
}

// sentMeta is whose word goes to whom.
func sentMeta(actions []Action) (list []string) {
	for _, a := range actions {
		if a.Kind == Send && a.Message.Kind == Members {
			for _, e := range a.Message.Meta {
				list = append(list, string(e.ID+">"+a.To))
			}
		}
	}
	return list
}

func TestAMemberTellsWhomItIsConnectedTo(t *testing.T) {
	m := follow(t, "2")
	out := m.Step(start, Event{Kind: Tells, Meta: pairs("a")})
	if got := sentMeta(out); !slices.Equal(got, []string{"2>5"}) || !slices.Equal(learned(out), []ID{"2"}) {
		t.Errorf("it sends %v and tells its driver of %v", got, learned(out))
	}
	if out = m.Step(start, Event{Kind: Tells, Meta: pairs("a")}); len(out) > 0 {
		t.Errorf("the same again: %v", kinds(out))
	}
	if got := sentMeta(m.Step(start, Event{Kind: LinkUp, Rank: rank("4"), Incarnation: 1})); !slices.Equal(got, []string{"2>4"}) {
		t.Errorf("a new link: it sends %v", got)
	}
}

// One of an earlier version says nothing of what members tell, and is not asked.
func TestAMemberOfAnEarlierVersionIsNotAsked(t *testing.T) {
	m := follow(t, "2")
	m.Step(start, Event{Kind: Tells, Meta: pairs("a")})
	d := Digest(m.List())
	now := start.Add(Timing{}.WithDefaults().T())
	if got := kinds(m.Step(now, from("5", Message{Kind: Beat, Token: token(3, rank("5")), Digest: d}))); slices.Contains(got, "get-members>5") {
		t.Errorf("one that has no digest of it: %v", got)
	}
	if got := kinds(m.Step(now, from("5", Message{Kind: Beat, Token: token(3, rank("5")), Digest: d, MetaDigest: 99}))); !slices.Contains(got, "get-members>5") {
		t.Errorf("one that knows something else: %v", got)
	}
}
