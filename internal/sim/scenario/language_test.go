package scenario

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/internal/testkit/page"
)

var update = flag.Bool("update", false, "write the tables of the language into docs/scenarios.md")

// docs/scenarios.md tells the language as the tables have it; -update writes that.
func TestTheLanguageIsDocumented(t *testing.T) {
	page.Hold(t, "../../../docs/scenarios.md", map[string]string{
		"settings": table(settingEntries(), true), "steps": table(stepEntries(false), false), "demands": table(stepEntries(true), false),
	}, *update, "go test ./internal/sim/scenario -run Documented -update")
}

func table(entries []entry, defaults bool) string {
	var b strings.Builder
	b.WriteString("| line | meaning |" + map[bool]string{true: " default |"}[defaults] + "\n")
	b.WriteString("| --- | --- |" + map[bool]string{true: " --- |"}[defaults] + "\n")
	for _, e := range entries {
		fmt.Fprintf(&b, "| `%s` | %s |", strings.ReplaceAll(e.usage, "|", `\|`), e.does)
		if defaults {
			fmt.Fprintf(&b, " %s |", e.normal)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// Each line says what it does, and help keeps to the width of a terminal.
func TestHelpTellsTheLanguage(t *testing.T) {
	for _, e := range append(append(settingEntries(), stepEntries(false)...), stepEntries(true)...) {
		if e.usage == "" || e.does == "" {
			t.Errorf("%+v: a line of the language without a word of what it does", e)
		}
		if !strings.Contains(Help(), "\n  "+e.usage+" ") {
			t.Errorf("help does not tell of %q:\n%s", e.usage, Help())
		}
	}
	for line := range strings.Lines(Help()) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > width {
			t.Errorf("%d columns: %q", n, line)
		}
	}
}

// What a table prints it also reads: one script with every word of the language.
func TestEveryWordReadsBack(t *testing.T) {
	scripts := []string{everyWord, everyManualWord, everyQuorumWord}
	for i := range steps {
		if word := string(steps[i].verb); !strings.Contains("\n"+strings.Join(scripts, ""), "\n"+word) {
			t.Errorf("no script here has %q", word)
		}
	}
	for i := range settings {
		if word := settings[i].word; !strings.Contains("\n"+strings.Join(scripts, ""), "\n"+word) {
			t.Errorf("no script here has %q", word)
		}
	}
	for _, text := range scripts {
		s, err := Parse("words", text)
		if err != nil {
			t.Fatal(err)
		}
		earlier, err := Parse("words", strings.Replace(text, "\noption ", "\nprobe ", 1))
		if err != nil || earlier.String() != s.String() {
			t.Errorf("with the word of earlier files: %v\n%s", err, earlier)
		}
		again, err := Parse("words", s.String())
		if err != nil {
			t.Fatalf("%v\n%s", err, s)
		}
		if s.String() != again.String() {
			t.Errorf("%s\nis read back as\n%s", s, again)
		}
		if text != everyWord {
			continue
		}
		printed, _, _ := strings.Cut(text, "at 0s") // what follows is unrolled, or spelled otherwise
		if !strings.HasPrefix(s.String(), printed) {
			t.Errorf("%s\nis printed as\n%s", printed, s)
		}
	}
}

const everyWord = `members 1 2 3
priority 1 -2
algorithm ring
option all
preempt off
seed 7
heartbeat 50ms
t_max 75ms
t_process 150ms
silence 900ms
tls on
latency 2ms 3ms
latency 1>3 4ms 6ms
fsync 1ms 9ms
work 0s
absent 2
newcomers 3
observers 1
lists 1 2
lists 2 1 3
founding 2
min_members 2
reap_after 1m0s
lead_unhealthy on
settled
trace messages
run 0s
start 2
pause 1 1m0s
candidacy 1 off
crash 2 torn
restart 2 rollback
freeze 1
thaw 1
cut 1-2 1>3
heal
heal 1-2
partition 1,2 | 3
reset 1-2
reject 1-2 1>3
delay 1-2 5ms
disk 1 slow 5ms
disk 1 hang
disk 1 fail
disk 1 full
disk 1 ok
clock 1 drift -7
clock 1 jump 0s
campaign 1
resign 1
transfer 1 to 2
stand 1 shard-1
stand 1 shard-1 weight 3 seats 2 prefer
stand 2 shard-1 prefer
give 1 shard-1 to 2
yield 2 shard-1
withdraw 1 shard-1
drain 2 at 1
undrain 2 at 1
health 1 unhealthy
tell 2 word
expect told 2 word on 1,2
tell 2 -
join 3 via 1 2
crash 3
restart 3 moved
add 3 at 1 priority -1
add 3 at 2
duplicate 1
poweroff 2
leave 3
agree
agree within 5s
settle
settle but cuts
settle but disks
mark
expect leader 1 on 2,3
expect undefined
expect epoch 3
expect state 1 up on 2
expect refused 1
expect halted 1
expect members 1,2
expect changes = 0
expect lost 1 >= 2
expect messages election < 3
remove 2 at 1
at 0s
repeat 2
run 1s
end
`

const everyQuorumWord = `members 1 2
algorithm quorum
compact 9
late_writes on
times 1 200ms 2s
`

const everyManualWord = `members 1 2
detector off
manual
fsync none
suspect 1 2
trust 1 2
deliver 1>2
fire 1 answer
beat 2>1
pass
freeze 1
thaw 1
`
