package overlay_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/internal/command/lab/player/overlay"
	"github.com/batuta-dev/batuta/internal/superpeer/lab"
)

// What the page shows round by round is the run of "batuta sim superpeers".
func TestRounds(t *testing.T) {
	c := overlay.Config{Nodes: 300, Fraction: 0.04, Seed: 3, Churn: "10%@20"}
	o, err := overlay.New(c)
	if err != nil {
		t.Fatal(err)
	}
	churn, err := lab.ParseChurn(c.Churn)
	if err != nil {
		t.Fatal(err)
	}
	run, err := lab.Run(lab.Options{Nodes: c.Nodes, Fraction: c.Fraction, Seed: c.Seed, Rounds: 40, Churn: churn})
	if err != nil {
		t.Fatal(err)
	}
	moved := 0
	for i, want := range run.Samples()[:39] { // the last is measured once more
		r := o.Round()
		got := []any{r.Round, r.Live, r.Wanted, r.Mean, r.LoadMax, r.Unserved, r.Moves}
		if want := []any{want.Round, want.Live, want.Wanted, want.Mean, want.LoadMax, want.Unserved, want.Moves}; !reflect.DeepEqual(got, want) {
			t.Fatalf("round %d: %v, want %v", i+1, got, want)
		}
		if len(r.Super) != r.Live || len(r.Nodes)+len(r.Super) != c.Nodes {
			t.Errorf("round %d: %d nodes and %d super peers are drawn", i+1, len(r.Nodes), len(r.Super))
		}
		for _, n := range r.Nodes {
			if n[0] < 0 || n[0] > 1 || n[1] < 0 || n[1] > 1 || n[2] < -1 || int(n[2]) >= len(r.Super) {
				t.Fatalf("round %d: a node at %v", i+1, n)
			}
		}
		moved += r.Moves
	}
	if moved == 0 {
		t.Error("no token moves")
	}
}

func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		c    overlay.Config
		says string
	}{
		{overlay.Config{Nodes: 3}, "nodes 3"},
		{overlay.Config{Nodes: 100, Space: "nowhere"}, "nowhere"},
		{overlay.Config{Nodes: 100, Churn: "lots"}, "churn"},
		{overlay.Config{Nodes: 100, Fraction: 0.01, Capacity: 2}, "capacity"},
	} {
		if _, err := overlay.New(tt.c); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%+v: %v, want %q", tt.c, err, tt.says)
		}
	}
}
