package ring_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
	"github.com/batuta-dev/batuta/internal/sim/trace"
)

// A ring's contest changes nothing at the members that pass it on: it is drawn whole
// all the same, and the legend tells the messages that are in the picture.
func TestSVGOfARing(t *testing.T) {
	for algorithm, told := range map[string]string{"ring": "COORDINATOR", "chang-roberts": "ELECTED"} {
		s, err := scenario.Parse("round", "members 1 2 3 4\nalgorithm "+algorithm+"\nrun 1s\ncampaign 1\nrun 1s")
		if err != nil {
			t.Fatal(err)
		}
		var story trace.Story
		if _, err := sim.Play(s, maker, story.Add); err != nil {
			t.Fatal(err)
		}
		picture := story.SVG(s)
		for _, hop := range []string{"1 to 2", "2 to 3", "3 to 4", "4 to 1"} {
			for _, kind := range []string{"ELECTION", told} {
				if !regexp.MustCompile(kind + "[^<]* from " + hop).MatchString(picture) {
					t.Errorf("%s: the %s from %s is not drawn", algorithm, kind, hop)
				}
			}
		}
		for label, want := range map[string]bool{">ELECTION<": true, ">" + told + "<": true, ">ANSWER<": false, "PING": false} {
			if strings.Contains(picture, label) != want {
				t.Errorf("%s: %s is in the picture: %v, want %v", algorithm, label, !want, want)
			}
		}
	}
}
