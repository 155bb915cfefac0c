package sim_test

import (
	"os"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// What the page shows as an example must play.
func TestTheLanguagesExamplePlays(t *testing.T) {
	text, err := os.ReadFile("../../docs/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```\n")
	script, _, _ := strings.Cut(rest, "```")
	s, err := scenario.Parse("the example", script)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sim.Play(s, maker, nil); err != nil {
		t.Error(err)
	}
}
