package election_test

import (
	"slices"
	"strings"
	"testing"

	. "github.com/batuta-dev/batuta/election"
)

func TestIDsAreOrderedWithinTheirKind(t *testing.T) {
	for _, ordered := range [][]ID{
		{"0", "2", "9", "10", "99", "100", "18446744073709551616"},
		{"9.0.0.1", "172.18.0.3", "172.18.0.9", "172.18.0.10", "172.18.1.0", "::1", "fe80::1"},
		{"00000000-0000-4000-8000-000000000000", "0fffffff-ffff-4fff-bfff-ffffffffffff", "a0000000-0000-4000-8000-000000000000"},
		{"a", "b", "ba", "ñandú", "白"},
	} {
		shuffled := slices.Clone(ordered)
		slices.Reverse(shuffled)
		slices.SortFunc(shuffled, ID.Compare)
		if !slices.Equal(shuffled, ordered) {
			t.Errorf("sorted to %q, want %q", shuffled, ordered)
		}
	}
}

func TestParseIDGivesTheCanonicalForm(t *testing.T) {
	for s, want := range map[string]struct {
		id   ID
		kind Kind
	}{
		"007":                                  {"7", Integer},
		"000":                                  {"0", Integer},
		"172.18.0.10":                          {"172.18.0.10", Address},
		"::ffff:172.18.0.10":                   {"172.18.0.10", Address},
		"0:0:0:0:0:0:0:1":                      {"::1", Address},
		"A0000000-0000-4000-8000-00000000000F": {"a0000000-0000-4000-8000-00000000000f", UUID},
		"Málaga-1":                             {"Málaga-1", Name},
		"-5":                                   {"-5", Name},
	} {
		id, err := ParseID(s)
		if err != nil || id != want.id || id.Kind() != want.kind {
			t.Errorf("ParseID(%q) = %q (%v), %v; want %q (%v)", s, id, id.Kind(), err, want.id, want.kind)
		}
	}
}

func TestParseIDRefuses(t *testing.T) {
	for s, why := range map[string]string{
		"":                       "empty",
		"a b":                    "white space",
		"a=b":                    "'='",
		"a\x00b":                 "control",
		"a\u200bb":               "print",
		"\u0301a":                "combining",
		"a/b":                    "'/'",
		".":                      "path of the HTTP API",
		"..":                     "path of the HTTP API",
		"\xff":                   "UTF-8",
		strings.Repeat("x", 129): "too long",
	} {
		if id, err := ParseID(s); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("ParseID(%.20q) = %q, %v; want an error about %q", s, id, err, why)
		}
	}
}

func FuzzParseID(f *testing.F) {
	for _, s := range []string{"7", "007", "1.2.3.4", "::1", "fe80::1%eth0", "x", "a0000000-0000-4000-8000-000000000000"} {
		f.Add(s, "9")
	}
	for _, s := range append([]string{"<script>", "Ma\u0301laga", "\u212a"}, hostile...) {
		f.Add(s, "a")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, err := ParseID(a)
		if err != nil {
			return
		}
		if !isNFC(x) || !Printable(string(x), MaxID) || strings.ContainsAny(string(x), " =/") {
			t.Fatalf("%+q is taken as %+q", a, x)
		}
		if again, err := ParseID(string(x)); err != nil || again != x {
			t.Fatalf("%q is canonical for %q, but parses to %q, %v", x, a, again, err)
		}
		if y, err := ParseID(b); err == nil && (x.Compare(y) != -y.Compare(x) || (x.Compare(y) == 0) != (x == y)) {
			t.Fatalf("%q and %q: no total order", x, y)
		}
	})
}

func TestTokensAreOrderedByEpochThenRank(t *testing.T) {
	low := Token{Epoch: 1, Leader: Rank{ID: "9"}}
	byRank := Token{Epoch: 2, Leader: Rank{ID: "3"}}
	byPriority := Token{Epoch: 2, Leader: Rank{Priority: 1, ID: "2"}}
	if !byRank.Above(low) || !byPriority.Above(byRank) || low.Above(Token{Epoch: 1, Leader: Rank{ID: "10"}}) {
		t.Error("want epoch first, then priority, then id by value")
	}
	if (Token{}).Defined() || (Token{}).String() != "" || low.String() != "1:9" {
		t.Errorf("got %q and %q", Token{}.String(), low.String())
	}
}
