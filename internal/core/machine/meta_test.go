package machine_test

import (
	"slices"
	"testing"

	. "github.com/batuta-dev/batuta/election"
)

func pairs(value string) map[string]string { return map[string]string{"url": value} }

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
