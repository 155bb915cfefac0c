package scenario_test

import (
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// Bad scripts are refused with where and what was expected.
func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"nothing", "", `s:1:1: expected a line such as "members 1 2 3"`},
		{"a typo", "members 1 2\nrunn 1s", `s:2:1: expected a step or a setting, such as "run", found "runn"` + "\x00"},
		{"a typo of a setting", "member 1 2", `s:1:1: expected a step or a setting, such as "members", found "member"`},
		{"a typo of several words", "members 1 2\nresart 1", `s:2:1: expected a step (`},
		{"no word", "members 1 2\nxyz 1", `s:2:1: expected a step (`},
		{"a loop too often", "members 1 2\nrepeat 1000000000000\nrun 1ns\nend", `s:2:8: expected how often from 1 to 10000, found "1000000000000"` + "\x00"},
		{"loops in a loop", "members 1 2\nrepeat 10000\nrepeat 10000\nrun 1ns\nend\nend", `expected at most 100000 steps` + "\x00"},
		{"no duration", "members 1 2\nrun", `s:2:4: expected a time, such as 150ms, found the end of the line`},
		{"not a duration", "members 1 2\nrun fast", `s:2:5: expected a time, such as 150ms, found "fast"`},
		{"a long one", "members 1 2\nrun 24h1s", `s:2:5: expected a time of at most 24h0m0s, found 24h0m1s` + "\x00"},
		{"long ones", "members 1 2\nrun 23h\nrun 30m\nrun 30m\nrun 1ns", `s:5:1: expected a scenario of at most 24h0m0s, found 24h0m0.000000001s` + "\x00"},
		{"a long loop", "members 1 2\nrepeat 3\nrun 23h\nend", `s:3:1: expected a scenario of at most 24h0m0s, found 46h0m0s` + "\x00"},
		{"a late moment", "members 1 2\nat 99999h crash 1", `s:2:4: expected a time since the start of at most 24h0m0s, found 99999h0m0s` + "\x00"},
		{"a time that overflows", "members 1 2\nt_max 2562047h", `s:2:7: expected a time of at most 24h0m0s, found 2562047h0m0s` + "\x00"},
		{"a far jump", "members 1 2\nclock 1 jump -2562047h", `s:2:14: expected how far of at least -1281023h`},
		{"a negative one", "members 1 2\nrun -1s", `time does not run backwards`},
		{"an unknown member", "members 1 2 3\ncrash 4", `s:2:7: expected a member (1, 2, 3), found "4"`},
		{"time backwards", "members 1 2\nat 2s crash 2\nat 1s restart 2", `s:3:1: expected a time of at least 2s`},
		{"dies twice", "members 1 2\ncrash 2\ncrash 2", `s:3:1: expected to crash a member that is alive, found 2, which is dead`},
		{"lives twice", "members 1 2\nrestart 2", `s:2:1: expected to restart a member that is dead`},
		{"thawed warm", "members 1 2\nthaw 2", `expected to thaw a member that is frozen`},
		{"too many words", "members 1 2\ncampaign 1\nmark 7", `s:3:6: expected the end of the line, found "7"`},
		{"no link", "members 1 2\ncut 1", `s:2:5: expected a link between two of the members (1, 2)`},
		{"a loop of its own", "members 1 2\ncut 1-1", `s:2:5: expected a link`},
		{"on two sides", "members 1 2\npartition 1 | 1,2", `expected each member on one side, found 1 on two`},
		{"one side", "members 1 2\npartition 1", `expected "|" and another side`},
		{"mixed ids", "members 1 a", `s:1:11: expected an id of the same kind as 1 (integer), found "a" (name)`},
		{"the same id", "members 1 01", `expected each member once, found 1 again`},
		{"settings late", "members 1 2\nrun 1s\nseed 4", `s:3:1: expected a step: "seed" belongs before the first one`},
		{"settings twice", "members 1 2\nseed 4\nseed 5", `s:3:1: expected one line of "seed"`},
		{"heartbeat above T", "members 1 2\nheartbeat 10s", `heartbeat 10s is not below T`},
		{"suspect with a detector", "members 1 2\nsuspect 1 2", `s:2:1: expected "detector off" above`},
		{"no end", "members 1 2\nrepeat 3\nrun 1s", `s:2:1: expected an "end" for this repeat`},
		{"no repeat", "members 1 2\nend", `s:2:1: expected a "repeat" before this "end"`},
		{"an odd comparison", "members 1 2\nexpect changes ~ 1", `expected = or < or <= or > or >=, found "~"`},
		{"manual step", "members 1 2\ndeliver 1>2", `s:2:1: expected "manual" above`},
		{"no time", "members 1 2\nt_max 0s", `s:2:7: expected a time above 0, found 0s` + "\x00"},
		{"a range backwards", "members 3..1", `s:1:9: expected a range from a lower integer to a higher one, such as 1..50, found "3..1"`},
		{"heartbeat above T, in its line", "members 1 2\nheartbeat 1h\nrun 1s", `s:2:1: heartbeat 1h0m0s is not below T`},
		{"no algorithm", "members 1 2\nalgorithm\nrun 1s", `s:2:10: expected an algorithm's name`},
		{"an endless range", "members 1..99999999", `expected a range of at most 10000 integers`},
		{"a link's latency backwards", "members 1 2\nlatency 1-2 5ms 1ms", `s:2:17: expected the longest time of at least 5ms`},
		{"a second latency", "members 1 2\nlatency 1-2 5ms\nlatency 1>2 1ms\nlatency 5ms\nlatency 6ms", `s:5:1: expected one line of "latency"`},
		{"a settle without", "members 1 2\nsettle but", `s:2:11: expected cuts or disks`},
		{"a latency backwards", "members 1 2\nlatency 5ms 1ms", `s:2:13: expected the longest time of at least 5ms, found 1ms` + "\x00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := scenario.Parse("s", c.script)
			if err == nil {
				t.Fatalf("parsed, want %q:\n%s", c.want, s)
			}
			if !strings.Contains(err.Error()+"\x00", c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("members 1 2 3\nrun 1s\ncrash 3\nexpect leader 2\n----\n[0.000s] 1 inquires\n")
	f.Add("members 1..9\npartition 1,2 | 3\nrepeat 2\ncut 1>2\nend\nexpect messages election <= 4 on 1")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := scenario.Parse("f", text)
		if err != nil {
			return
		}
		if _, err := scenario.Parse("f", s.String()); err != nil {
			t.Errorf("%q was read, and is printed as %q, which is not: %v", text, s, err)
		}
	})
}
