package boss_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/compat/boss"
)

// pace is how fast the nodes of a town live.
type pace struct {
	check, beat, death            time.Duration // of the original
	answer, find, connect         time.Duration
	following, presenting, settle time.Duration
	heartbeat, tMax, tProcess     time.Duration // of batuta
	short, long                   time.Duration // of a link's outage
	quiet                         time.Duration // of a calm town
	patience                      time.Duration
}

// original are the original's constants, quickened ones that keep their order:
// a short outage is longer than batuta's T, and over well before a node's death: TCP takes as
// long again to repeat what was lost, and a beat may have been due.
var (
	original = pace{30 * time.Second, 30 * time.Second, 90 * time.Second, 3 * time.Second, 5 * time.Second, 5 * time.Second,
		time.Second, 300 * time.Millisecond, 2 * time.Second, 0, 0, 0, 10 * time.Second, 100 * time.Second, 35 * time.Second, 400 * time.Second}
	quickened = pace{time.Second, time.Second, 5 * time.Second, time.Second, 1500 * time.Millisecond, 1500 * time.Millisecond,
		300 * time.Millisecond, 100 * time.Millisecond, 600 * time.Millisecond,
		200 * time.Millisecond, 500 * time.Millisecond, 300 * time.Millisecond, 1500 * time.Millisecond, 9 * time.Second, 2500 * time.Millisecond, 40 * time.Second}
)

// town is three nodes on a bridge, each an original (O) or batuta's (B).
type town struct {
	*bridge
	program string    // the original
	kinds   string    // such as OOB, lowest address first
	alone   []outcome // of originals alone; nil: this is them
	becomes byte      // the kind that replaces another; 0: the same
	text    bool      // originals rank addresses as text
	pace
	patience time.Duration
	late     time.Duration // for how much longer than meant a link has been down

	mu    sync.Mutex
	folk  []folk
	since time.Time     // two lead since; zero: they do not
	two   time.Duration // how long two have led, in all
}

// folk is what is known of a node.
type folk struct {
	*program
	up, frozen, cut bool
	boss            string
	leads           bool
}

func newTown(t *testing.T, program, kinds string, text bool, p pace) *town {
	ips := []string{"172.18.0.3", "172.18.0.4", "172.18.0.5"}
	if text {
		ips = []string{"172.18.0.8", "172.18.0.9", "172.18.0.10"} // text has .10 lowest
	}
	return &town{bridge: newSpaces(t, ips...), program: program, kinds: kinds, text: text, pace: p, folk: make([]folk, len(ips))}
}

func (w *town) start(i int) {
	w.t.Helper()
	ip := w.ips[i]
	command := w.in(ip, w.originally(i)...)
	if w.kinds[i] == 'B' {
		command = w.in(ip, "env", memberSpec+"="+w.batutas(ip), os.Args[0])
	}
	w.change(func() { w.folk[i].up, w.folk[i].boss, w.folk[i].leads = true, "", false })
	p := &program{t: w.t, name: ip, heard: func(line string) { w.heard(i, line) }}
	p.start(command)
	w.change(func() { w.folk[i].program = p })
	p.waitFrom(0, `"listening`)
	// Originals that start at the same instant may each lead, alone, too.
	for began := time.Now(); !w.placed(i) && time.Since(began) < w.find+w.answer; {
		time.Sleep(time.Millisecond)
	}
}

// placed reports whether a node leads or has a boss.
func (w *town) placed(i int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.folk[i].boss != ""
}

// originally is the command that runs an original. Of originals that check at the
// same instant two may each find that their boss is gone, and one announce itself
// twice to the other: alone, too, they come apart by that.
func (w *town) originally(i int) []string {
	ip := w.ips[i]
	var peers []string
	for _, other := range w.ips {
		if other != ip {
			peers = append(peers, other+":8080")
		}
	}
	return []string{w.program, "-ip", ip, "-peers", strings.Join(peers, ","), fmt.Sprintf("-text=%v", w.text),
		"-phase", (time.Duration(i) * w.check / 3).String(), "-check", w.check.String(), "-beat", w.beat.String(), "-death", w.death.String(),
		"-answer", w.answer.String(), "-find", w.find.String(), "-connect", w.connect.String(),
		"-before-following", w.following.String(), "-before-presenting", w.presenting.String(), "-settle", w.settle.String()}
}

func (w *town) batutas(ip string) string {
	m := member{IP: ip, Heartbeat: w.heartbeat, TMax: w.tMax, TProcess: w.tProcess,
		Options: boss.Options{NodeType: "scrapper", Heartbeat: w.beat, Silence: w.death}}
	for _, other := range w.ips {
		m.Members = append(m.Members, batuta.Peer{ID: batuta.ID(other), Addr: other + ":8080"})
	}
	b, _ := json.Marshal(m)
	return string(b)
}

// heard takes note of what a node tells.
func (w *town) heard(i int, line string) {
	var said struct {
		Boss  *string `json:"boss"`
		Leads *bool   `json:"i_am_boss"`
	}
	if json.Unmarshal([]byte(line), &said) != nil || said.Leads == nil {
		return
	}
	w.change(func() {
		w.folk[i].boss, w.folk[i].leads = "", *said.Leads
		if said.Boss != nil {
			w.folk[i].boss = *said.Boss
		}
	})
}

// change changes what is known, and keeps count of how long two have led.
func (w *town) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	leading := 0
	for _, n := range w.folk {
		if n.leads && n.up && !n.frozen {
			leading++
		}
	}
	switch {
	case leading > 1 && w.since.IsZero():
		w.since = time.Now()
	case leading < 2 && !w.since.IsZero():
		w.two += time.Since(w.since)
		w.since = time.Time{}
	}
}

// reachable reports whether anyone can hear what the node says.
func (n *folk) reachable() bool { return n.up && !n.frozen && !n.cut }

func (n *folk) isBoss() bool { return n.leads }

func (w *town) end(i int, s syscall.Signal) {
	p := w.folk[i].program
	w.change(func() { w.folk[i].up, w.folk[i].leads = false, false })
	p.cmd.Process.Signal(s)
	<-p.reading
}

func (w *town) kill(i int)      { w.end(i, syscall.SIGKILL) }
func (w *town) terminate(i int) { w.end(i, syscall.SIGTERM) }

func (w *town) freeze(i int) {
	w.change(func() { w.folk[i].frozen = true })
	w.folk[i].cmd.Process.Signal(syscall.SIGSTOP)
}

func (w *town) thaw(i int) {
	w.change(func() { w.folk[i].frozen = false })
	w.folk[i].cmd.Process.Signal(syscall.SIGCONT)
}

func (w *town) cut(i int) {
	w.ip("-n", w.space("br"), "link", "set", port(i), "down")
	w.change(func() { w.folk[i].cut = true })
}

func (w *town) mend(i int) {
	w.ip("-n", w.space("br"), "link", "set", port(i), "up")
	w.change(func() { w.folk[i].cut = false })
}

// agreed gives the place of the one node that every reachable node takes for the
// boss; -1: they do not agree.
func (w *town) agreed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	boss := -1
	for i := range w.folk {
		if n := &w.folk[i]; n.reachable() && n.leads {
			if boss >= 0 {
				return -1
			}
			boss = i
		}
	}
	for i := range w.folk {
		if n := &w.folk[i]; n.reachable() && (boss < 0 || n.boss != w.ips[boss]) {
			return -1
		}
	}
	return boss
}

// orphans counts the reachable nodes that follow nobody who leads and is reachable.
func (w *town) orphans() (count int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.folk {
		if n := &w.folk[i]; n.reachable() && !n.leads && !slices.ContainsFunc(w.ips, func(ip string) bool {
			boss := &w.folk[slices.Index(w.ips, ip)]
			return ip == n.boss && boss.leads && boss.reachable()
		}) {
			count++
		}
	}
	return count
}

// calm waits until all agree and have done so for a while. It gives the boss, or
// -1 if they never do, and how long it took.
func (w *town) calm() (boss int, took time.Duration) {
	began, since, last := time.Now(), time.Now(), -1
	for time.Since(began) < w.patience {
		switch boss := w.agreed(); {
		case boss != last:
			last, since = boss, time.Now()
		case boss >= 0 && time.Since(since) >= w.quiet:
			return boss, time.Since(began) - w.quiet
		}
		time.Sleep(10 * time.Millisecond)
	}
	return -1, time.Since(began)
}

// state is what each node says.
func (w *town) state() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b strings.Builder
	for i, n := range w.folk {
		fmt.Fprintf(&b, "%c %s up=%v frozen=%v cut=%v boss=%q leads=%v; ", w.kinds[i], w.ips[i], n.up, n.frozen, n.cut, n.boss, n.leads)
	}
	return b.String()
}

// takeTwo gives how long two have led since it was last called.
func (w *town) takeTwo() time.Duration {
	w.change(func() {})
	w.mu.Lock()
	defer w.mu.Unlock()
	two := w.two
	if !w.since.IsZero() {
		two += time.Since(w.since)
		w.since = time.Now()
	}
	w.two = 0
	return two
}
