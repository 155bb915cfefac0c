package named

import (
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/election"
)

// A frame that no honest member sends moves nothing: it is not decoded.
func TestAnImpossibleFrameIsRefused(t *testing.T) {
	sound := func() *frame {
		return &frame{Op: opReport, Parts: 2, Part: 1, Claims: []claim{{Name: "a", Weight: 1, Seats: 1}}, Seats: []Seat{{Name: "a", Leader: "1"}},
			Drained: []election.ID{"1"}, Alike: &claim{Weight: 1}, Request: &Request{Do: DoTransfer, Name: "a", Member: "1"}}
	}
	if _, err := decode(sound().encode()); err != nil {
		t.Fatalf("a sound frame is refused: %v", err)
	}
	many := make([]election.ID, election.MaxMembers+1)
	for i := range many {
		many[i] = "1"
	}
	for what, change := range map[string]func(f *frame){
		"a part below 0":                   func(f *frame) { f.Part = -1 },
		"parts below 0":                    func(f *frame) { f.Parts = -1 },
		"more parts than there are":        func(f *frame) { f.Parts = maxParts + 1 },
		"a part behind the last":           func(f *frame) { f.Part = 2 },
		"a version out of range":           func(f *frame) { f.Version = 1<<62 + 1 },
		"a base out of range":              func(f *frame) { f.Base = 1<<62 + 1 },
		"a long error":                     func(f *frame) { f.Error = strings.Repeat("x", 4097) },
		"more drained than members":        func(f *frame) { f.Drained = many },
		"a drained id that is none":        func(f *frame) { f.Drained = []election.ID{"\x00"} },
		"a claim without a name":           func(f *frame) { f.Claims[0].Name = "" },
		"a claim of a name that is a path": func(f *frame) { f.Claims[0].Name = ".." },
		"a weight below 0":                 func(f *frame) { f.Claims[0].Weight = -1 },
		"too great a weight":               func(f *frame) { f.Claims[0].Weight = MaxWeight + 1 },
		"seats below 0":                    func(f *frame) { f.Claims[0].Seats = -1 },
		"too many seats":                   func(f *frame) { f.Claims[0].Seats = MaxSeats + 1 },
		"a claimed seat below 0":           func(f *frame) { f.Claims[0].Seat = -1 },
		"a claimed seat out of range":      func(f *frame) { f.Claims[0].Seat = MaxSeats },
		"a claimed epoch out of range":     func(f *frame) { f.Claims[0].Epoch = maxEpoch + 1 },
		"an ended epoch out of range":      func(f *frame) { f.Claims[0].Done = maxEpoch + 1 },
		"a last epoch out of range":        func(f *frame) { f.Claims[0].Last = maxEpoch + 1 },
		"a default with too many seats":    func(f *frame) { f.Alike.Seats = MaxSeats + 1 },
		"a seat without a name":            func(f *frame) { f.Seats[0].Name = "" },
		"a seat below 0":                   func(f *frame) { f.Seats[0].Seat = -1 },
		"a seat out of range":              func(f *frame) { f.Seats[0].Seat = MaxSeats },
		"a seat's epoch out of range":      func(f *frame) { f.Seats[0].Epoch = maxEpoch + 1 },
		"a cause that does not print":      func(f *frame) { f.Seats[0].Cause = "\n" },
		"a leader that is no id":           func(f *frame) { f.Seats[0].Leader = "\x00" },
		"a raised seat out of range":       func(f *frame) { f.Raise = []Seat{{Name: "a", Seat: MaxSeats}} },
		"a request that does not print":    func(f *frame) { f.Request.Do = "\n" },
		"a request of a bad name":          func(f *frame) { f.Request.Name = "." },
		"a request about no id":            func(f *frame) { f.Request.Member = "\x00" },
		"a pause below 0":                  func(f *frame) { f.Request.Length = -1 },
		"too long a pause":                 func(f *frame) { f.Request.Length = election.MaxPause + 1 },
	} {
		f := sound()
		change(f)
		if _, err := decode(f.encode()); err == nil {
			t.Errorf("%s is taken in", what)
		}
	}
}
