package player

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/batuta-dev/batuta/internal/command/algorithm"
	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
	"github.com/batuta-dev/batuta/internal/sim/trace"
)

//go:embed tours
var tourFiles embed.FS

// Text is the same in each language of the lab.
type Text struct {
	EN string `json:"en"`
	ES string `json:"es"`
}

// Tour is a scenario with stops that have a text.
type Tour struct {
	Name     string `json:"name"`
	Title    Text   `json:"title"`
	Scenario string `json:"scenario"`
	Stops    []Stop `json:"stops"`
}

// Stop is a moment of a tour.
type Stop struct {
	When string  `json:"when"` // "start", "end", or the beginning of a line of the trace
	At   float64 `json:"at"`   // in ms
	Text Text    `json:"text"`
	Ask  []Ask   `json:"ask,omitempty"` // what is to be predicted of the next stop

	later time.Duration // than the line
}

// Ask is a question about a run, as it is at the next stop.
type Ask struct {
	What string `json:"what"`         // leader, epoch, leaders (how many lead) or messages (of the election, since this stop)
	On   string `json:"on,omitempty"` // leader and epoch as this member has them; empty: as the leader has
}

// Tours gives every tour, in the order in which they are to be taken. Their stops have no
// moments before [Tour.Place].
func Tours() ([]Tour, error) {
	files, err := fs.Glob(tourFiles, "tours/*.txt")
	if err != nil {
		return nil, err
	}
	var list []Tour
	for _, file := range files {
		text, err := tourFiles.ReadFile(file)
		if err != nil {
			return nil, err
		}
		t, err := ParseTour(strings.TrimSuffix(path.Base(file), ".txt"), string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		list = append(list, *t)
	}
	return list, nil
}

// ParseTour reads a tour: its title, the scenario between the lines "scenario" and
// "end", and stops.
//
//	en: The leader dies
//	es: Muere el líder
//	scenario
//	members 1 2 3
//	run 1s
//	crash 3
//	agree
//	end
//	stop * 3 crashes
//	en: Member 3 is gone, and nobody knows.
//	es: El miembro 3 ha caído y nadie lo sabe.
//	ask leader
//	ask epoch on 2
//	stop end
//
// A stop is at the first line of the trace behind the last stop that begins so, or so much later as
// "+5ms" at its end sets; "? leads" is of the member that does. A line that begins with a blank
// continues the text.
func ParseTour(name, text string) (*Tour, error) {
	t := &Tour{Name: name}
	to := &t.Title
	var last *string
	inside := false
	for n, line := range strings.Split(text, "\n") {
		key, rest, _ := strings.Cut(line, " ")
		switch {
		case inside && line == "end":
			inside = false
		case inside:
			t.Scenario += line + "\n"
		case line == "" || key == "#":
		case line == "scenario":
			inside = true
		case key == "stop":
			t.Stops = append(t.Stops, stopOf(rest))
			to = &t.Stops[len(t.Stops)-1].Text
		case key == "ask" && len(t.Stops) > 0:
			stop := &t.Stops[len(t.Stops)-1]
			what, on, _ := strings.Cut(rest, " on ")
			if !slices.Contains(questions, what) {
				return nil, fmt.Errorf("line %d: %q is none of the questions %v", n+1, rest, questions)
			}
			stop.Ask = append(stop.Ask, Ask{what, on})
		case key == "en:":
			to.EN, last = rest, &to.EN
		case key == "es:":
			to.ES, last = rest, &to.ES
		case key == "" && last != nil:
			*last += " " + strings.TrimSpace(rest)
		default:
			return nil, fmt.Errorf("line %d: expected scenario, stop, ask, en: or es:, found %q", n+1, line)
		}
	}
	if t.Title.EN == "" || t.Title.ES == "" || len(t.Stops) == 0 || t.Stops[len(t.Stops)-1].Ask != nil {
		return nil, errors.New("a tour has a title in English and Spanish, and stops, of which the last asks nothing")
	}
	return t, nil
}

var questions = []string{"leader", "epoch", "leaders", "messages"}

func stopOf(when string) Stop {
	s := Stop{When: when}
	if i := strings.LastIndex(when, " +"); i > 0 {
		if d, err := time.ParseDuration(when[i+2:]); err == nil {
			s.When, s.later = when[:i], d
		}
	}
	return s
}

// Place plays the tour's scenario and finds the moment of each stop.
func (t *Tour) Place() error {
	s, err := scenario.Parse(t.Name, t.Scenario)
	if err != nil {
		return err
	}
	var entries []trace.Entry
	o, err := sim.Play(s, algorithm.Maker, func(e trace.Entry) { entries = append(entries, e) })
	if err != nil {
		return err
	}
	next := 0
	for i := range t.Stops {
		stop := &t.Stops[i]
		if stop.Text.EN == "" || stop.Text.ES == "" {
			return fmt.Errorf("stop %q: give its text in English and Spanish", stop.When)
		}
		switch stop.When {
		case "start":
			continue
		case "end":
			stop.At = ms(o.Elapsed)
			continue
		}
		k := slices.IndexFunc(entries[next:], func(e trace.Entry) bool {
			_, said, _ := strings.Cut(e.String(), "] ")
			if what, anyone := strings.CutPrefix(stop.When, "? "); anyone {
				_, said, _ = strings.Cut(said, " ")
				return strings.HasPrefix(said, what)
			}
			return strings.HasPrefix(said, stop.When)
		})
		if k < 0 {
			return fmt.Errorf("stop %q: the trace has no such line behind the last stop", stop.When)
		}
		next += k + 1
		stop.At = ms(entries[next-1].At + stop.later)
	}
	return nil
}

// Exercise reads a tour and finds the moments of its stops.
func Exercise(name, text string) (*Tour, error) {
	t, err := ParseTour(name, text)
	if err == nil {
		err = t.Place()
	}
	return t, err
}

// Placed gives the tour of that name with the moments of its stops.
func Placed(name string) (*Tour, error) {
	tours, err := Tours()
	if err != nil {
		return nil, err
	}
	for i := range tours {
		if tours[i].Name == name {
			return &tours[i], tours[i].Place()
		}
	}
	return nil, fmt.Errorf("there is no tour %q", name)
}
