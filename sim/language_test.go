package sim_test

import (
	"os"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/sim"
	"github.com/batuta-dev/batuta/sim/scenario"
)

// docs/scenarios.md tells of every setting and every step: an unknown word's error
// lists them all.
func TestTheLanguageIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	_, err = scenario.Parse("x", "members 1\nnonsense\n")
	if err == nil {
		t.Fatal("nonsense parses")
	}
	steps, settings, ok := strings.Cut(err.Error(), "a setting (")
	if !ok {
		t.Fatalf("the error does not list the settings: %v", err)
	}
	_, steps, _ = strings.Cut(steps, "a step (")
	for _, list := range []string{steps, settings} {
		list, _, _ = strings.Cut(list, ")")
		words := strings.Split(list, ", ")
		if len(words) < 10 {
			t.Fatalf("few words in %q", err)
		}
		for _, word := range words {
			if !strings.Contains(string(text), "`"+word) {
				t.Errorf("docs/scenarios.md does not tell of %q", word)
			}
		}
	}
}

// What the page shows as an example must play.
func TestTheLanguagesExamplePlays(t *testing.T) {
	text, err := os.ReadFile("../docs/scenarios.md")
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
