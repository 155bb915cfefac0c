package batuta

import (
	"context"
	"errors"
	"testing"

	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/testkit/stalltest"
	"github.com/batuta-dev/batuta/quorum"
)

// A leadership has a fence under a quorum, whichever way it is led, and none with best effort.
func TestAFenceIsThereWhereItIsOne(t *testing.T) {
	over := errors.New("it is seen")
	for _, test := range []struct {
		algorithm Algorithm
		fences    bool
	}{{bully.New(), false}, {quorum.New(), true}} {
		t.Run(test.algorithm.Name(), func(t *testing.T) {
			n, err := Start(t.Context(), Config{ID: "1", Listen: "127.0.0.1:0", DataDir: stalltest.Dir(t), Algorithm: test.algorithm, Peers: []Peer{{ID: "1", Addr: "127.0.0.1:0"}}})
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			named := n.Election("report")
			type work = func(context.Context, Leadership) error
			for _, way := range []struct { // the cluster's own election last: without its leader no member assigns the named ones
				name string
				lead func(context.Context, work) error
			}{
				{"Election.Lead", named.Lead},
				{"LeadEach", func(ctx context.Context, fn work) error { return n.LeadEach(ctx, []*Election{named}, fn) }},
				{"Node.Lead", n.Lead},
			} {
				err := way.lead(t.Context(), func(_ context.Context, l Leadership) error {
					epoch, fences := l.Fence()
					if fences != test.fences || fences && epoch != l.Token.Epoch || !fences && epoch != 0 {
						t.Errorf("%s under %s: its fence is %d, %v", way.name, l.Token, epoch, fences)
					}
					return over
				})
				if err != over {
					t.Errorf("%s: %v", way.name, err)
				}
			}
		})
	}
}

// A Leadership that no election has given has no fence.
func TestAMadeUpLeadershipHasNoFence(t *testing.T) {
	if epoch, fences := (Leadership{Token: Token{Epoch: 7}}).Fence(); fences || epoch != 0 {
		t.Errorf("its fence is %d, %v", epoch, fences)
	}
}
