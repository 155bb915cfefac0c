package electiontest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// Graphs demands that members agree on one leader wherever each two have a link or a
// member that has one to both (diameter 2): on every such graph of n members, whose
// cuts stay; stride n plays every nth of them. setup is lines for each scenario, such
// as "algorithm ring". On each graph the members are born, the cuts come later, the
// highest crashes, and it returns.
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

// onGraph gives the steps of what members may live through on a graph.
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

// bit is where a graph of n members has the link between a and b.
func bit(a, b int) uint {
	if a > b {
		a, b = b, a
	}
	return uint((b-1)*(b-2)/2 + a - 1)
}

func linked(g uint, a, b int) bool { return a == b || g>>bit(a, b)&1 == 1 }

// withoutTop is the graph without its highest member, whose links come last.
func withoutTop(n int, g uint) uint { return g & (1<<uint((n-1)*(n-2)/2) - 1) }

// withinTwo says that each two have a link, or a member that has one to both.
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
