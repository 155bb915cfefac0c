package superpeer

import (
	"errors"
	"strings"
	"testing"
)

func TestWanted(t *testing.T) {
	for _, c := range []struct {
		fraction float64
		n, want  int
	}{{0.01, 10000, 100}, {0.01, 10001, 101}, {0.051, 490, 25}, {1, 7, 7}, {0.001, 10, 1}, {0.5, 0, 0}} {
		cfg := Config{Fraction: c.fraction}
		if got := cfg.Wanted(c.n); got != c.want {
			t.Errorf("%v of %d nodes: %d super peers, want %d", c.fraction, c.n, got, c.want)
		}
	}
}

func TestTheKBitRuleOvershoots(t *testing.T) {
	cfg := Config{Fraction: 0.01, Method: Prefix}
	if got := cfg.Count(10000); got != 128 {
		t.Errorf("100 wanted make %d by the k-bit rule, want 128", got)
	}
}

func TestImpossibleCapacityShowsTheSum(t *testing.T) {
	cfg := Config{Fraction: 0.01, Capacity: 98}
	err := cfg.Feasible(10000)
	if !errors.Is(err, ErrImpossible) {
		t.Fatalf("98 × 100 places for 9900 nodes: %v", err)
	}
	for _, part := range []string{"100 super peers", "capacity 98", "9800 places", "9900 other nodes", "capacity to 99"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	cfg.Capacity = 99
	if err := cfg.Feasible(10000); err != nil {
		t.Errorf("99 × 100 places for 9900 nodes: %v", err)
	}
}

func TestValidateReportsEveryFault(t *testing.T) {
	err := Config{Fraction: 2, Capacity: -1, Method: "none"}.Validate()
	if err == nil {
		t.Fatal("no fault found")
	}
	for _, part := range []string{"fraction 2", "capacity -1", `method "none"`, "no router"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}
