package electiontest

import (
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// chatty is an algorithm that sends one message to all when it begins; and, if it has
// kinds of its own, declares them.
type chatty struct{ says election.Message }

func (*chatty) Name() string { return "chatty" }

func (c *chatty) Step(ev election.Event, out election.Actions) {
	if ev.Kind != election.Started {
		return
	}
	for _, r := range out.Members() {
		out.Send(r.ID, c.says)
	}
}

type declared struct{ chatty }

func (*declared) Kinds() []election.MessageKind { return []election.MessageKind{"dance"} }

// What would not arrive in production is told, and what would is not.
func TestWhatWouldNotArriveIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		fresh func() election.Algorithm
		want  string
	}{
		"a kind of the papers": {func() election.Algorithm { return &chatty{election.Message{Kind: election.Answer}} }, ""},
		"a kind of its own":    {func() election.Algorithm { return &chatty{election.Message{Kind: "dance"}} }, "declare it"},
		"one that it declares": {func() election.Algorithm { return &declared{chatty{election.Message{Kind: "dance"}}} }, ""},
		"a payload":            {func() election.Algorithm { return &chatty{election.Message{Kind: election.Answer, Data: []byte{1}}} }, ""},
		"too large a payload": {func() election.Algorithm {
			return &chatty{election.Message{Kind: election.Answer, Data: make([]byte, election.MaxData+1)}}
		}, "refuse"},
		"an absurd round": {func() election.Algorithm {
			return &chatty{election.Message{Kind: election.Answer, Round: election.Round{Number: 1 << 63}}}
		}, "refuse"},
		"somebody who cannot be": {func() election.Algorithm {
			return &chatty{election.Message{Kind: election.Answer, Round: election.Round{Initiator: "a b"}}}
		}, "refuse"},
		"an empty list for a nil": {func() election.Algorithm {
			return &chatty{election.Message{Kind: election.Answer, Ring: []election.Rank{}}}
		}, "another"},
	} {
		t.Run(name, func(t *testing.T) {
			l := new(listener)
			maker := func(string, string) (func() election.Algorithm, error) {
				return func() election.Algorithm { return observed{c.fresh(), l} }, nil
			}
			s, err := scenario.Parse("", "members 1 2 3\nrun 5s")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := sim.Play(s, maker, nil); err != nil {
				t.Fatal(err)
			}
			if (l.fault == "") != (c.want == "") || !strings.Contains(l.fault, c.want) {
				t.Errorf("told: %q, want something with %q", l.fault, c.want)
			}
		})
	}
}
