package election_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/election"
)

func TestCheckMeta(t *testing.T) {
	many := map[string]string{}
	for i := range election.MaxMetaPairs + 1 {
		many[fmt.Sprintf("k%d", i)] = ""
	}
	for _, test := range []struct {
		pairs map[string]string
		want  string // empty: it is fine
	}{
		{nil, ""},
		{map[string]string{"url": "http://10.0.0.5:8080/a?b=c,d", "zone": "eu-1", "note": "a b", "empty": ""}, ""},
		{map[string]string{"ciudad": "Logroño"}, ""},
		{map[string]string{"k": strings.Repeat("x", election.MaxMetaBytes-1)}, ""},
		{map[string]string{"k": strings.Repeat("x", election.MaxMetaBytes)}, "1025 bytes of keys and values: at most 1024"},
		{many, "17 pairs: the metadata of a member has at most 16"},
		{map[string]string{"": "x"}, `key "": begin with a letter`},
		{map[string]string{"1a": "x"}, "begin with a letter"},
		{map[string]string{"a b": "x"}, "begin with a letter"},
		{map[string]string{"a\x1b[2J": "x"}, `key "a\\x1b[2J"`},
		{map[string]string{strings.Repeat("k", election.MaxMetaKey+1): "x"}, "of 65 bytes: at most 64"},
		{map[string]string{"url": "http://a\nSet-Cookie: b"}, "value of url: it holds what does not print"},
		{map[string]string{"url": "a\u202eb"}, "does not print"},
		{map[string]string{"url": "a\xff"}, "does not print"},
		{map[string]string{"a-b": "1", "a.b": "2"}, "would both be BATUTA_META_A_B"},
	} {
		err := election.CheckMeta(test.pairs)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%v: %v", test.pairs, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%v: got %v, want: %s", test.pairs, err, test.want)
		}
	}
}
