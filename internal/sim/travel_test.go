package sim_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/net/wire"
	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/draw"
	"github.com/batuta-dev/batuta/internal/sim/trace"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
)

// The simulator hands messages over as they are. Between processes they go over a wire, which
// ends the connection of who says what no honest member would: all that is said in the
// simulator arrives there too, and as what it was.
func TestWhatIsSaidTravels(t *testing.T) {
	said := map[election.MessageKind]int{}
	faults := append(sim.SoakFaults(), sim.MembershipFaults()...)
	for _, algorithm := range []string{"bully", "ring", "chang-roberts"} {
		c := sim.SoakConfig{Algorithm: algorithm, Draws: draw.Kinds(), Faults: faults}
		for seed := range fulltest.Size[uint64](8, 200) {
			fault := ""
			_, err := sim.Play(c.Schedule(seed+1), maker, func(e trace.Entry) {
				if e.What != "sends" || fault != "" {
					return
				}
				said[e.Message.Kind]++
				if e.Message.Ended {
					said[e.Message.Kind+", ended"]++
				}
				fault = strayed(e.Message)
			})
			if err != nil {
				t.Fatal(err)
			}
			if fault != "" {
				t.Fatalf("batuta sim soak --algorithm %s --seeds %d:%[2]d: %s", algorithm, seed+1, fault)
			}
		}
	}
	for _, kind := range []election.MessageKind{election.Relay, election.Relay + ", ended", election.Probe, election.Members, election.Resign} {
		if said[kind] == 0 {
			t.Errorf("nobody has said %s: %v", kind, said)
		}
	}
}

// strayed is what becomes of a message on its way, if anything does. The addresses of a list
// are names here, which no member would dial: it stays behind.
func strayed(m *election.Message) string {
	sent := *m
	sent.List = nil
	frame, err := new(wire.Encoder).Message(&sent)
	if err != nil {
		return err.Error()
	}
	arrived, err := wire.DecodeMessage(frame[wire.LengthSize:])
	if err != nil {
		return err.Error()
	}
	if again, err := new(wire.Encoder).Message(arrived); err != nil || !bytes.Equal(again, frame) {
		return fmt.Sprintf("%+v arrives as %+v", sent, *arrived)
	}
	return ""
}
