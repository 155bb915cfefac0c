package peeragent

import (
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/superpeer"
)

func TestAChartSaysWhenItDoesNotShowAll(t *testing.T) {
	groups := []superpeer.Group{{Clients: make([]superpeer.Placed, 2)}, {Clients: make([]superpeer.Placed, 1)}}
	for live, want := range map[int]string{
		2: "x: 2 super peers serve 3 of 8 others,",
		5: "x: 2 of 5 super peers (all that n7 knows; ask a super peer for the rest) serve 3 of 5 others,",
	} {
		c := Chart{superpeer.Status{ID: "n7", Overlay: "x", Nodes: 10, Live: live}, groups}
		var out strings.Builder
		if err := c.WriteSVG(&out); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%d live: %v, %s; want %q", live, err, out.String(), want)
		}
	}
}
