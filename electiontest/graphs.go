package electiontest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// Graphs tests that members agree on a leader wherever each two have a link, or links to a common
// third member (diameter 2). It plays every such graph of n members, or, with stride k, every k-th.
// The cuts of a graph stay. setup is lines for each scenario, such as "algorithm ring". On each
// graph the members start, the links are cut, the highest member crashes, and it returns.
func Graphs(t *testing.T, maker Maker, n, stride int, setup string) {
	t.Helper()
	links, failed := n*(n-1)/2, 0
	for g, no := uint(0), 0; g < 1<<links; g++ {
		if !withinTwo(n, g) {
			continue
		}
		if no++; no%stride != 0 {
			continue
		}
		for _, text := range onGraph(n, g) {
			text = fmt.Sprintf("members 1..%d\nseed %d\n%s\n%s", n, g+1, setup, text)
			s, err := scenario.Parse("graph", text)
			if err == nil {
				_, err = sim.Play(s, maker, nil)
			}
			if err != nil {
				t.Errorf("%v\n%s", err, text)
				if failed++; failed >= 3 {
					t.Fatal("and more")
				}
			}
		}
	}
}

// onGraph returns the steps of a scenario on a graph.
func onGraph(n int, g uint) []string {
	var cuts []string
	for a := 1; a < n; a++ {
		for b := a + 1; b <= n; b++ {
			if !linked(g, a, b) {
				cuts = append(cuts, fmt.Sprintf("%d-%d", a, b))
			}
		}
	}
	if len(cuts) == 0 {
		return nil
	}
	cut := "cut " + strings.Join(cuts, " ") + "\n"
	born, later := cut+"agree\n", "run 3s\n"+cut+"agree\n"
	if withinTwo(n-1, withoutTop(n, g)) {
		later += fmt.Sprintf("crash %d\nagree\nrestart %d\nagree\n", n, n)
	}
	return []string{born, later}
}

// bit returns the index of the link between a and b in a graph.
func bit(a, b int) uint {
	if a > b {
		a, b = b, a
	}
	return uint((b-1)*(b-2)/2 + a - 1)
}

func linked(g uint, a, b int) bool { return a == b || g>>bit(a, b)&1 == 1 }

// withoutTop returns the graph without its highest member, the links of which come last.
func withoutTop(n int, g uint) uint { return g & (1<<uint((n-1)*(n-2)/2) - 1) }

// withinTwo reports whether each two members have a link, or links to a common third member.
func withinTwo(n int, g uint) bool {
	for a := 1; a < n; a++ {
		for b := a + 1; b <= n; b++ {
			met := false
			for c := 1; c <= n && !met; c++ {
				met = linked(g, a, c) && linked(g, c, b)
			}
			if !met {
				return false
			}
		}
	}
	return true
}
