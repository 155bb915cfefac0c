package api_test

import (
	"context"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/api"
)

// frozen is a node that leads, and has lost leadership after it was asked some times: its process
// was stopped in between.
type frozen struct {
	*fakeNode
	asked, left int
}

func (n *frozen) ask() {
	if n.asked++; n.asked == n.left {
		n.view = batuta.View{Election: "default"}
	}
}

func (n *frozen) ID() batuta.ID { n.ask(); return n.fakeNode.ID() }

func (n *frozen) IsLeader() bool {
	defer n.ask()
	return n.fakeNode.IsLeader()
}

func (n *frozen) Leader() batuta.View {
	defer n.ask()
	return n.fakeNode.Leader()
}

func (n *frozen) Status(ctx context.Context) (batuta.Status, error) {
	defer n.ask()
	return n.fakeNode.Status(ctx)
}

// The clock is looked at last, whatever a handler has asked the node before, and the answer
// leaves the process then, not when its handler has returned.
func TestAnAnswerGoesByTheMomentItIsSent(t *testing.T) {
	for _, path := range []string{"/leader", "/v1/leader", "/readyz"} {
		var codes []int
		for left := 1; ; left++ {
			n := &frozen{fakeNode: &fakeNode{view: viewOf("3", 7)}, left: left}
			w := httptest.NewRecorder()
			api.Embedded(n, "", false).ServeHTTP(w, httptest.NewRequest("GET", path, nil))
			if w.Code == 200 && !w.Flushed {
				t.Errorf("%s: the answer waits until its handler returns", path)
			}
			if w.Code == 200 && n.asked > left {
				t.Errorf("%s: 200 by what was asked before leadership was lost; %d of %d", path, left, n.asked)
			}
			codes = append(codes, w.Code)
			if n.asked <= left {
				break // nothing was asked after the loss
			}
		}
		if !slices.Contains(codes, 503) && path != "/leader" || codes[len(codes)-1] != 200 {
			t.Errorf("%s: answers %v", path, codes)
		}
	}
}
