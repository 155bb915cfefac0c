package meta_test

import (
	"maps"
	"slices"
	"testing"

	. "github.com/batuta-dev/batuta/election"
	. "github.com/batuta-dev/batuta/internal/core/meta"
)

func pairs(value string) map[string]string { return map[string]string{"url": value} }

func anyone(ID) bool { return true }

// told gives one copy what the other knows, and what came of it.
func told(k *Metas, list ...Meta) []Meta { return k.Merge(list, anyone) }

func TestOnlyAMemberItselfChangesWhatItTells(t *testing.T) {
	k := New("1", 7, pairs("a"))
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
	k := New("1", 8, nil)
	if k.Digest() != 0 || k.Own() != nil {
		t.Fatal("a member that tells nothing has something to tell")
	}
	old := Meta{ID: "1", Incarnation: 7, Version: 3, Pairs: pairs("a")}
	if news := told(&k, old); len(news) != 1 || !news[0].Supersedes(old) || len(news[0].Pairs) > 0 {
		t.Errorf("it answers %+v", news)
	}
}

func TestTheLatestWordHolds(t *testing.T) {
	k := New("1", 8, nil)
	list := []Meta{
		{ID: "2", Incarnation: 1, Version: 9, Pairs: pairs("a")},
		{ID: "2", Incarnation: 2, Pairs: pairs("b")},
		{ID: "2", Incarnation: 1, Version: 10, Pairs: pairs("c")},
		{ID: "3", Incarnation: 1, Pairs: pairs("d")},
	}
	told(&k, list...)
	other := New("4", 8, nil)
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
