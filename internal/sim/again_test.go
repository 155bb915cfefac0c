package sim_test

import (
	"testing"

	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/draw"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
	"github.com/batuta-dev/batuta/internal/sim/trace"
)

// What a schedule prints is read back as the same schedule.
func TestScriptsReadBack(t *testing.T) {
	c := sim.SoakConfig{Algorithm: "bully", Options: []string{"", "all"}, Draws: draw.Kinds()}
	for seed := uint64(1); seed <= 300; seed++ {
		text := c.Schedule(seed).String()
		s, err := scenario.Parse("again", text)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		if again := s.String(); again != text {
			t.Fatalf("seed %d:\n%s\nis read back as\n%s", seed, text, again)
		}
	}
}

// The same seed gives the same trace, also when the script was printed and read.
func TestSameSeedSameTrace(t *testing.T) {
	c := sim.SoakConfig{Algorithm: "bully", Draws: []draw.Kind{draw.Times, draw.Latencies, draw.Duplicates}}
	for seed := uint64(1); seed <= 50; seed++ {
		s := c.Schedule(seed)
		again, err := scenario.Parse(s.Name, s.String())
		if err != nil {
			t.Fatal(err)
		}
		a, b := trace.Log{Messages: true}, trace.Log{Messages: true}
		if _, err := sim.Play(s, maker, a.Add); err != nil {
			t.Fatal(err)
		}
		if _, err := sim.Play(again, maker, b.Add); err != nil {
			t.Fatal(err)
		}
		if d := trace.Differs(a.Text(), b.Text()); d != "" {
			t.Fatalf("seed %d: %s", seed, d)
		}
	}
}
