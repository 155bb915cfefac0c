package api_test

import (
	"context"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election/bully"
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

// A load balancer finds a leader with [batuta.Config.AwaitReady] once a client has reported that its work serves.
func TestALeaderThatIsNotReadyIsNotFound(t *testing.T) {
	n, err := batuta.Start(t.Context(), batuta.Config{ID: "1", Listen: "127.0.0.1:0", Algorithm: bully.New(), AwaitReady: true})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	for v := range n.Watch(t.Context()) {
		if v.Defined() {
			break
		}
	}
	h := api.Embedded(n, "", true)
	ask := func(method, path, body string) (int, string) {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for _, step := range []struct {
		method, path, body string
		code               int
		part               string
	}{
		{"GET", "/leader", "", 503, "leads, and its work does not serve yet"},
		{"GET", "/v1/status", "", 200, `"ready":false`},
		{"POST", "/v1/ready", `{"epoch":9}`, 409, "not the leader"},
		{"POST", "/v1/ready", `{"epoch":-1}`, 400, "epoch"},
		{"GET", "/leader", "", 503, ""},
		{"POST", "/v1/ready", "", 200, `{"epoch":1}`},
		{"GET", "/v1/status", "", 200, `"ready":true`},
		{"GET", "/leader", "", 200, `"leader"`},
	} {
		if code, text := ask(step.method, step.path, step.body); code != step.code || !strings.Contains(text, step.part) {
			t.Errorf("%s %s %s: %d %s, want %d %s", step.method, step.path, step.body, code, text, step.code, step.part)
		}
	}
}
