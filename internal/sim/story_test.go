package sim_test

import (
	"encoding/xml"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
	"github.com/batuta-dev/batuta/internal/sim/trace"
)

func told(t *testing.T) (*scenario.Scenario, *trace.Story) {
	s, err := scenario.Parse("crash", "members 1 2 3\nrun 1s\ncrash 3\nrun 1s")
	if err != nil {
		t.Fatal(err)
	}
	var story trace.Story
	if _, err := sim.Play(s, maker, story.Add); err != nil {
		t.Fatal(err)
	}
	return s, &story
}

func TestSVG(t *testing.T) {
	s, story := told(t)
	picture := story.SVG(s)
	for d := xml.NewDecoder(strings.NewReader(picture)); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("it is no XML: %v", err)
		}
	}
	for _, part := range []string{"member 1", "member 3", "crashes", "claims epoch 2", "2 leads, epoch 2", "COORDINATOR", "marker-end"} {
		if !strings.Contains(picture, part) {
			t.Errorf("it lacks %q", part)
		}
	}
}

func TestMermaid(t *testing.T) {
	s, story := told(t)
	text := story.Mermaid(s)
	for _, part := range []string{"sequenceDiagram\n", "participant m3", "Note over m3: 1.000s crashes", "m2->>m1: COORDINATOR 2:2"} {
		if !strings.Contains(text, part) {
			t.Errorf("it lacks %q:\n%s", part, text)
		}
	}
}

// Every event of a ShiViz log is two lines, and a receiver's clock has seen the sender's.
func TestShiViz(t *testing.T) {
	s, story := told(t)
	head, log, _ := strings.Cut(story.ShiViz(s), "\n\n")
	if !strings.Contains(head, "(?<clock>") {
		t.Errorf("the first line does not say how to parse it: %q", head)
	}
	lines := strings.Split(strings.TrimSuffix(log, "\n"), "\n")
	if len(lines)%2 != 0 {
		t.Fatalf("%d lines, want two an event", len(lines))
	}
	clock := regexp.MustCompile(`^[123] \{("[123]":\d+,?)+\}$`)
	for i := 0; i < len(lines); i += 2 {
		if !clock.MatchString(lines[i]) {
			t.Errorf("line %d is no host and clock: %q", i+1, lines[i])
		}
		if strings.Contains(lines[i+1], "receives COORDINATOR 2:2") && !strings.Contains(lines[i], `"2":`) {
			t.Errorf("1 hears 2 and its clock does not: %q", lines[i])
		}
	}
}
