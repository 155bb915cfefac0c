package batuta

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
)

// A leadership is ready once its work has reported that, at each member, and the next is not by that.
func TestALeadershipIsReadyOnceItsWorkServes(t *testing.T) {
	c := newCluster(t, 3)
	c.startAll(func(cfg *Config) {
		cfg.AwaitReady, cfg.Meta = true, map[string]string{"url": "http://" + string(cfg.ID)}
	})
	first := c.agree("3")
	ready := func(want bool) {
		t.Helper()
		for _, n := range c.nodes {
			waitView(t, n, fmt.Sprintf("a leader that is ready: %v", want), func(v View) bool { return v.Defined() && v.Ready() == want })
		}
	}
	events := make(chan Event, 100)
	go func() {
		defer close(events)
		for e := range c.nodes["1"].Events(t.Context()) {
			if e.Kind == EventReady {
				events <- e
			}
		}
	}()
	ready(false)
	if err := c.nodes["1"].Ready(t.Context(), first); !errors.Is(err, ErrNotLeading) {
		t.Errorf("a follower reports that it is ready: %v", err)
	}
	if err := c.nodes["3"].Ready(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	ready(true)
	if e := <-events; e.View.Token != first || !e.View.Ready() {
		t.Errorf("the event is %+v", e)
	}
	if err := c.nodes["3"].SetMeta(t.Context(), map[string]string{"url": "http://new"}); err != nil {
		t.Fatal(err)
	}
	waitView(t, c.nodes["1"], "the new metadata", func(v View) bool { return v.Meta["url"] == "http://new" })
	ready(true)

	if err := c.nodes["3"].Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := c.agree("2")
	ready(false)
	if err := c.nodes["3"].Ready(t.Context(), first); !errors.Is(err, ErrNotLeading) {
		t.Errorf("a leadership that has ended is reported ready: %v", err)
	}
	if err := c.nodes["2"].Ready(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	ready(true)
	ended := false
	for e := range c.nodes["1"].Events(t.Context()) { // a reader that begins now
		if ended && e.Kind == EventMeta && e.Member == "2" && e.Meta[readyKey] == "0" && !e.View.Ready() {
			break
		}
		if e.Kind == EventReady {
			ended = true
			if err := c.nodes["2"].Ready(t.Context(), Token{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	ready(false)
}

// Without AwaitReady a leadership is ready as it begins, and metadata has room for the epoch with it.
func TestReadinessIsForThoseThatAskForIt(t *testing.T) {
	c := newCluster(t, 1)
	c.startAll()
	token := c.agree("1")
	if !c.nodes["1"].Leader().Ready() || c.nodes["1"].Ready(t.Context(), token) != nil || len(c.nodes["1"].Leader().Meta) != 0 {
		t.Errorf("the view is %+v", c.nodes["1"].Leader())
	}
	if (View{}).Ready() {
		t.Error("no leader is ready")
	}
	if err := c.nodes["1"].SetMeta(t.Context(), map[string]string{readyKey: "0"}); err == nil {
		t.Error("a client takes batuta's own key")
	}
	for epoch, want := range map[string]bool{"0": false, "6": false, "7": true, "8": true, "x": false, "": false} {
		v := View{Token: Token{Epoch: 7, Leader: Rank{ID: "1"}}, Meta: map[string]string{readyKey: epoch}}
		if v.waits() == want {
			t.Errorf("under epoch 7 a leader that is ready for %q is ready: %v", epoch, !want)
		}
	}
	full := map[string]string{"k": strings.Repeat("x", 1023)}
	for await, want := range map[bool]bool{false: true, true: false} {
		if err := (Config{AwaitReady: await}).checkMeta(maps.Clone(full)); (err == nil) != want {
			t.Errorf("AwaitReady %v: %v", await, err)
		}
	}
}
