package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
)

// away is a way to cut a machine off: commands of a shell in a namespace, and what undoes them.
type away struct {
	name  string
	space string // of machine 3, or of the switches
	cut   string
	heal  string
}

// filter is the nft commands that filter what members send each other, on the hooks with the verdict.
func filter(verdict string, hooks ...string) string {
	text := "nft 'add table inet cut; "
	for _, hook := range hooks {
		text += fmt.Sprintf("add chain inet cut %s { type filter hook %[1]s priority 0; }; ", hook)
		for _, port := range []string{"sport", "dport"} {
			text += fmt.Sprintf("add rule inet cut %s tcp %s 7400 tcp flags & rst == 0 %s; ", hook, port, verdict)
		}
	}
	return text + "'"
}

const noRules = "nft 'delete table inet cut'"

var aways = []away{
	{"nft drop", "3", filter("drop", "input", "output"), noRules},
	{"nft reset", "3", filter("reject with tcp reset", "input", "output"), noRules},
	{"nft drop of what arrives", "3", filter("drop", "input"), noRules},
	{"blackhole", "3", "tc qdisc add dev eth0 root blackhole", "tc qdisc del dev eth0 root"},
	{"link down", switchRoom, "ip link set " + wire(3) + " down", "ip link set " + wire(3) + " up"},
}

// A follower of five agents is cut off in every way, once and on and off at periods from T/4 to 4T. No
// other member loses its leader, and each cut costs one change of leader at most: the follower's
// own. The simulator plays more of them (TestAFlappingFollowerCostsNoLeader of internal/sim).
func TestAFlappingFollowerCostsNoLeader(t *testing.T) {
	t.Parallel()
	T := defaults.T()
	algorithms := []string{"bully", "ring", "chang-roberts"} // the simulator plays each in every way
	for i, way := range fulltest.Size(aways[:2], aways) {
		algorithm := algorithms[i%len(algorithms)]
		t.Run(algorithm+" "+way.name, func(t *testing.T) {
			t.Parallel()
			l := newLAN(t, 5)
			l.tries(way)
			l.bootAll(5, "--algorithm", algorithm)
			l.flaps(way, 1, 4*T)
			l.flaps(way, 8, T/4)
			l.flaps(way, 4, T)
			l.flaps(way, 3, 4*T)
		})
	}
}

// tries skips the test where the kernel, or a missing nft, cannot cut a machine off so, unless
// BATUTA_TEST_NETNS requires it.
func (l *lan) tries(way away) {
	l.t.Helper()
	unavailable := l.t.Skipf
	if os.Getenv("BATUTA_TEST_NETNS") != "" {
		unavailable = l.t.Fatalf
	}
	argv := []string{"netns", "exec", l.prefix + way.space, "sh", "-ec", way.cut + "\n" + way.heal}
	if out, err := exec.Command("ip", argv...).CombinedOutput(); err != nil {
		unavailable("%s: %v: %s", way.name, err, out)
	}
}

// flaps cuts machine 3 off so many times, for half a period each, and fails the test if that costs more
// than it may. If the machine stalled for t_max or longer, a suspicion is no fault: it looks again.
func (l *lan) flaps(way away, cuts int, period time.Duration) {
	l.t.Helper()
	script := filepath.Join(l.t.TempDir(), "flaps")
	half := fmt.Sprintf("sleep %.3f", period.Seconds()/2)
	text := fmt.Sprintf("set -e\nfor i in $(seq %d); do\n%s\n%s\n%s\n%s\ndone\n", cuts, way.cut, half, way.heal, half)
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
	const looks = 10
	for range looks {
		l.mark()
		flapping := make(chan error, 1)
		go func() {
			out, err := exec.Command("ip", "netns", "exec", l.prefix+way.space, "sh", script).CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			flapping <- err
		}()
		for over := false; !over; {
			select {
			case line := <-l.lines:
				l.note(line)
			case err := <-flapping:
				if over = true; err != nil {
					l.t.Fatal(err)
				}
			}
		}
		l.until("all follow 5", func() bool { return l.follow("5", l.members...) })
		third := l.members[2]
		own := third.count(func(e api.Line) bool { return e.Event == "leader" && e.Leader == "3" })
		seen, stall := l.disturbances([]*member{l.members[0], l.members[1], l.members[3], l.members[4]}), l.stall()
		if own <= cuts && len(seen) == 0 {
			l.t.Logf("%s, %d times in %v: 3 led %d times, its side alone", way.name, cuts, period, own)
			return
		}
		if stall < defaults.TMax {
			l.explain()
			l.t.Fatalf("%s, %d times in %v: 3 led %d times; the machine stalled for %v at most: %q", way.name, cuts, period, own, stall, seen)
		}
		l.t.Logf("the machine stalled for %v: 3 led %d times: %q", stall, own, seen)
	}
	l.t.Fatalf("the machine stalled each of %d times: nothing can be said on it", looks)
}
