package tenure

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// docs/architecture.md has the table of moves that the Machine keeps to.
func TestTheTableOfMovesIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for p := PhaseStarting; p <= PhaseRemoved; p++ {
		var next []string
		for _, n := range p.Next() {
			next = append(next, n.String())
		}
		row := "| " + p.String() + " | "
		i := strings.Index(string(page), "\n"+row)
		if i < 0 {
			t.Errorf("docs/architecture.md has no line for %v", p)
			continue
		}
		line, _, _ := strings.Cut(string(page)[i+1:], "\n")
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if want := strings.Join(next, ", "); cells[len(cells)-1] != want && len(next) > 0 {
			t.Errorf("docs/architecture.md: %v may become %q, want %q", p, cells[len(cells)-1], want)
		}
	}
}

// A leadership that ends takes the renewal with it that is on its way to the disk.
func TestARenewalEndsWithItsLeadership(t *testing.T) {
	self := election.Rank{ID: "5"}
	lead := New(self.ID, election.Token{})
	lead.Claim(election.Token{Epoch: 1, Leader: self}, time.Time{})
	lead.Install(time.Time{})
	lead.Save(election.Token{Epoch: 3, Leader: self}, lead.Base())
	lead.End(PhaseElecting, election.CauseResigned, true)
	if lead.Next().Defined() {
		t.Errorf("its leadership has ended, and %v is still to be saved", lead.Next())
	}
}

// A leadership of which the end was announced lasts if its leader announces itself later than a message travels:
// it was stopped, or another process with its id has ended.
func TestALeaderThatAnnouncesItselfLaterLeads(t *testing.T) {
	const within = time.Second
	start := time.Unix(1000, 0)
	of := election.Token{Epoch: 2, Leader: election.Rank{ID: "5"}}
	follows := New("3", election.Token{})
	follows.Announced(of, start)
	for _, c := range []struct {
		itself bool
		after  time.Duration
		past   bool
	}{{true, within, true}, {true, within + 1, false}, {false, within + 1, true}} {
		if past := follows.Past(of, c.itself, start.Add(c.after), within); past != c.past {
			t.Errorf("announced by itself: %v, after %v: it is over: %v, want %v", c.itself, c.after, past, c.past)
		}
	}
}
