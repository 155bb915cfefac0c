package batuta

import (
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/net/network"
	"github.com/batuta-dev/batuta/internal/testkit/stalltest"
)

// announced is a network that calls at each change of leadership, which is published then.
type announced struct {
	network.Network
	at func()
}

func (a announced) Lead(t Token) { a.at(); a.Network.Lead(t) }

// leaser is an algorithm that leases leadership, as a quorum does.
type leaser struct{ Algorithm }

func (a leaser) NewCore(c machine.Config) (machine.Core, error) {
	c.Algorithm = a.Algorithm
	m, err := machine.New(c)
	return leased{m}, err
}

type leased struct{ *machine.Machine }

var _ machine.Leaser = leased{}

func (c leased) Lease() (until time.Time, leads bool) {
	return time.Now().Add(time.Hour), c.View().Leader.ID == c.Self().ID
}

func (leased) Guard() time.Time { return time.Time{} }

func (leased) Earlier() time.Duration { return 0 }

// A watcher that receives its own leadership may be scheduled at once: IsLeader is true by then.
func TestALeadershipLastsWhenItIsPublished(t *testing.T) {
	for name, algorithm := range map[string]Algorithm{"bully": bully.New(), "with a lease": leaser{bully.New()}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, err := Start(t.Context(), Config{ID: "1", Listen: "127.0.0.1:0", DataDir: stalltest.Dir(t), Algorithm: algorithm, Peers: []Peer{{ID: "1", Addr: "127.0.0.1:0"}},
				TMax: 500 * time.Millisecond, TProcess: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			first := waitView(t, n, "it leads", View.Defined)
			published := 0
			n.call(t.Context(), func() {
				n.links.net = announced{n.links.net, func() {
					if v := n.view(); v.Token.Leader.ID == "1" {
						published++
						if !n.IsLeader() || n.Leader().Token != v.Token {
							t.Errorf("%v is published: IsLeader is %v, Leader %+v", v.Token, n.IsLeader(), n.Leader())
						}
					}
				}}
			})
			if err := n.Resign(t.Context()); err != nil {
				t.Fatal(err)
			}
			waitView(t, n, "it leads again", func(v View) bool { return v.Token.Epoch > first.Token.Epoch })
			n.call(t.Context(), func() {
				if published == 0 {
					t.Error("no leadership was published")
				}
			})
		})
	}
}
