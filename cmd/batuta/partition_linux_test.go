package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

// How long things may take at default settings.
var (
	defaults = election.Timing{Heartbeat: election.DefaultHeartbeat, TMax: election.DefaultTMax, TProcess: election.DefaultTProcess}

	// from the heal of a network to one leader, beside a round trip
	healTime = 2*defaults.TMax + time.Second + 2*defaults.Heartbeat
)

// roundTrip bounds a round trip and a save, on a machine that does other things too.
const roundTrip = 500 * time.Millisecond

// Two groups have a leader each while they are apart, and one afterwards: the larger group keeps
// its leader, which loses nothing.
func TestPartitionHeals(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		flags []string
	}{
		{"preempt", nil},
		{"no preempt", []string{"--preempt=false"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLAN(t, 5)
			l.bootAll(5, tt.flags...)
			one, two, five := l.members[0], l.members[1], l.members[4]
			old := five.epoch

			l.part(1, 2)
			l.until("2 leads its side", func() bool { return l.follow("2", one, two) })
			if two.epoch <= old {
				t.Errorf("2 leads under epoch %d, and epoch %d was before", two.epoch, old)
			}
			l.undisturbed(10*defaults.T(), "5", l.members[2:]...)

			healed := l.heal()
			l.until("one leads all", func() bool { return l.follow("5", l.members...) })
			l.within(healTime+roundTrip, healed)
			l.once(two)
			for _, m := range l.members[2:] {
				if m.count(lost("5")) > 0 && l.stall() < defaults.TMax {
					t.Errorf("%s, which is on the larger side, lost a leader", m.id)
				}
			}
			l.mark()
			l.undisturbed(2*time.Second, "5", l.members...)
			if five.epoch < two.epoch {
				t.Errorf("it did not last: %s", l.views())
			}
		})
	}
}

// One link of three is cut: the member that does not receive the leader is informed that another does.
// Nobody claims, and no epoch changes.
func TestCutBetweenTwoTopplesNobody(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	l.bootAll(3)
	one := l.members[0]
	l.cut(1, 3)
	l.until("1 finds 3 unreachable", func() bool { return one.count(state("3", "unreachable")) > 0 })
	l.undisturbed(10*defaults.T(), "3", l.members...)
	l.mend(1, 3)
	l.mark()
	l.until("1 hears 3 again", func() bool { return one.count(state("3", "up")) > 0 })
}

// The leader receives from all and none receives from it: the next one leads the rest,
// and is not disturbed. Once it can be heard, one leads all.
func TestMuteLeader(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 4)
	l.bootAll(4)
	rest := l.members[:3]
	four := l.members[3]
	l.mute(4)
	l.until("3 leads the rest", func() bool { return l.follow("3", rest...) })
	l.mark()
	l.undisturbed(10*defaults.T(), "3", rest...)
	three := rest[2]
	before := three.epoch
	healed := l.unmute(4)
	l.until("4 leads all", func() bool { return l.follow("4", l.members...) })
	l.within(healTime+roundTrip, healed)
	if four.epoch < before { // equal, if it took the lead of its group of one anew
		t.Errorf("4 leads under epoch %d, and 3 led under %d", four.epoch, before)
	}
	l.once(three)
	l.mark()
	l.undisturbed(2*time.Second, "4", l.members...)
}

// A leader is removed while it is cut off. It is told when it is back, and
// refused until it is added again.
func TestRemovedWhileAway(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 3)
	one := l.boot(1, "1")
	two := l.boot(2, "2", "--join", machineAddress(1))
	three := l.boot(3, "3", "--join", machineAddress(2))
	l.until("3 leads", func() bool { return l.follow("3", one, two, three) })

	l.part(3)
	l.until("2 leads the rest", func() bool { return l.follow("2", one, two) })
	l.tell(1, "members", "remove", "3")
	l.until("2 hears of the removal", func() bool { return two.count(state("3", "removed")) > 0 })
	away := three.process
	l.heal()
	l.ended(three, away, cli.Failed, "removed from the cluster")

	three = l.boot(3, "3")
	l.ended(three, three.process, cli.Failed, "removed from the cluster")
	l.tell(2, "members", "add", "3="+machineAddress(3))
	before := two.epoch
	three = l.boot(3, "3")
	l.until("3 leads again", func() bool { return l.follow("3", one, two, three) && three.epoch > before })
}

// A machine dies, and another takes its place under its id. The dead one, back
// again once the other is up, is refused and disturbs nobody.
func TestReplacedMember(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 4)
	one := l.boot(1, "1")
	two := l.boot(2, "2", "--join", machineAddress(1))
	three := l.boot(3, "3", "--join", machineAddress(1))
	l.until("3 leads", func() bool { return l.follow("3", one, two, three) })
	if _, err := l.crash(two); err != nil {
		t.Fatal(err)
	}
	l.mark()
	replacement := l.boot(4, "2", "--join", machineAddress(1))
	moved := func(e api.Line) bool {
		return state("2", "added")(e) && e.Address == machineAddress(4)
	}
	l.until("all know 2's new address, and it is up there", func() bool {
		return one.count(moved) > 0 && three.count(moved) > 0 && three.count(state("2", "up")) > 0 && replacement.leader == "3"
	})
	l.mark()
	old := l.boot(2, "2")
	l.ended(old, old.process, cli.Usage, "id 2 is in use by the process at "+machineAddress(4))
	l.undisturbed(0, "3", one, three, replacement)
	if _, err := l.crash(three); err != nil {
		t.Fatal(err)
	}
	l.until("the replacement leads", func() bool { return l.follow("2", one, replacement) })
}

// Three machines with one configuration, which listens everywhere, as in a container:
// each learns from its connections where the others reach it, the one whose network
// comes up late too.
func TestOneConfigurationThatListensEverywhere(t *testing.T) {
	l := newLAN(t, 3)
	flags := []string{"--listen", "0.0.0.0:7400", "--expect", "3"}
	for i := 1; i <= 3; i++ {
		flags = append(flags, "--join", machineAddress(i))
	}
	l.ip("3", "link", "set", "eth0", "down")
	three := l.boot(3, "3", flags...)
	l.until("3 runs", func() bool { return three.http != "" })
	l.ip("3", "link", "set", "eth0", "up")
	for other := 1; other < 3; other++ {
		l.route(3, other, machineMAC(other))
	}
	one, two := l.boot(1, "1", flags...), l.boot(2, "2", flags...)
	l.until("all follow 3", func() bool { return l.follow("3", one, two, three) })
	for _, m := range []*member{one, two, three} {
		if m.advertise != "" && m.advertise != m.listen || m.advertise == "" && m != three {
			t.Errorf("member %s says that it is reached at %q, want %s", m.id, m.advertise, m.listen)
		}
	}
	out, err := exec.Command("ip", l.in(1, "batuta", "status", "--http", "127.0.0.1:7500")[1:]...).Output()
	for i := 1; i <= 3; i++ {
		if err != nil || !strings.Contains(string(out), machineAddress(i)) {
			t.Errorf("no member at %s (%v):\n%s", machineAddress(i), err, out)
		}
	}
}
