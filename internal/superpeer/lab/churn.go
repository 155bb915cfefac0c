package lab

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/batuta-dev/batuta/internal/superpeer"
)

// Change is a share of the nodes that comes, goes or is replaced. Nodes go without an announcement,
// as in a crash.
type Change struct {
	Join, Leave float64 // of the present nodes; if equal, nodes are replaced
	At          int     // round; -1: every round
}

// ParseChurn reads changes, separated by commas: "10%@60" replaces a tenth of the nodes in round
// 60, "+10%@60" adds and "-10%@60" removes as many, and "0.5%" replaces that share every round.
func ParseChurn(text string) ([]Change, error) {
	if text == "" || text == "none" {
		return nil, nil
	}
	var list []Change
	for part := range strings.SplitSeq(text, ",") {
		c, err := parseChange(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("churn %q: %w; want a share and a round like 10%%@60, +10%%@60, -10%%@60, or 0.5%% for every round", part, err)
		}
		list = append(list, c)
	}
	return list, nil
}

func parseChange(text string) (c Change, err error) {
	share, round, once := strings.Cut(text, "@")
	c.At = -1
	if once {
		if c.At, err = strconv.Atoi(round); err != nil || c.At < 0 {
			return c, fmt.Errorf("%q is no round", round)
		}
	}
	sign := strings.TrimLeft(share, "+-")
	percent, isPercent := strings.CutSuffix(sign, "%")
	x, err := strconv.ParseFloat(percent, 64)
	if isPercent {
		x /= 100
	}
	if err != nil || !(x > 0 && x <= 1) || len(share)-len(sign) > 1 {
		return c, fmt.Errorf("%q is no share from 0 to 100%%", share)
	}
	switch share[0] {
	case '+':
		c.Join = x
	case '-':
		c.Leave = x
	default:
		c.Join, c.Leave = x, x
	}
	return c, nil
}

func (c Change) due(round int) bool { return c.At < 0 || c.At == round }

// churn applies the changes of the round that begins and reports whether there were any.
func (w *world) churn(changes []Change) bool {
	any := false
	for i, c := range changes {
		if !c.due(int(w.round)) {
			continue
		}
		r := seeded(w.seed, 7, uint64(w.round)<<8+uint64(i))
		leave, join := w.portion(c.Leave, &r), w.portion(c.Join, &r)
		if c.Leave == c.Join {
			join = leave
		}
		w.change(min(leave, w.n-2), join, &r)
		any = true
	}
	return any
}

// portion returns share of the nodes, rounded up or down at random, so that the mean of a small
// share every round is exact.
func (w *world) portion(share float64, r *superpeer.Draw) int {
	x := share * float64(w.n)
	k := int(math.Floor(x))
	if r.Unit() < x-float64(k) {
		k++
	}
	return k
}

func (w *world) change(leave, join int, r *superpeer.Draw) {
	live := w.live()
	for i := range leave {
		j := i + r.Below(len(live)-i)
		live[i], live[j] = live[j], live[i]
		w.leave(live[i])
	}
	slots := w.vacant(join)
	w.relocate(slots, r)
	places := make([]superpeer.Place, 0, len(slots))
	for _, s := range slots {
		places = append(places, w.join(s))
	}
	w.ring.Change(func(p superpeer.Peer) bool { return !w.alive(p) }, places)
	w.recharge()
}

// live returns the slots that have a node.
func (w *world) live() []int32 {
	list := make([]int32, 0, w.n)
	for s, p := range w.peerOf {
		if p != superpeer.None {
			list = append(list, int32(s))
		}
	}
	return list
}

// vacant returns k empty slots, or as many as the space can have.
func (w *world) vacant(k int) []int32 {
	var list []int32
	for s, p := range w.peerOf {
		if p == superpeer.None && len(list) < k {
			list = append(list, int32(s))
		}
	}
	if more := w.space.grow(k - len(list)); more > 0 {
		from := len(w.nodes)
		w.nodes = append(w.nodes, make([]superpeer.Node, more)...)
		w.due = append(w.due, make([]superpeer.Round, more)...)
		w.peerOf = append(w.peerOf, slices.Repeat([]superpeer.Peer{superpeer.None}, more)...)
		w.repartition()
		for i := range more {
			list = append(list, int32(from+i))
		}
	}
	return list
}

// repartition drops waiting messages: the parts have new bounds.
func (w *world) repartition() {
	for b := range w.boxes {
		for from := range shards {
			for to := range shards {
				w.boxes[b][from][to] = nil
			}
		}
	}
}
