package live

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	rules "github.com/batuta-dev/batuta/internal/superpeer"
	"github.com/batuta-dev/batuta/internal/superpeer/fabric"
	"github.com/batuta-dev/batuta/superpeer"
)

// disturbance randomly chooses which packets are lost and which are late.
func disturbance(o Options) func(a, b int) (lost bool, late time.Duration) {
	var packets atomic.Uint64
	return func(int, int) (bool, time.Duration) {
		draw := rules.Mix(rules.Mix(o.Seed+31) + packets.Add(1))
		share := func(x uint64) float64 { return float64(x>>11) / (1 << 53) }
		if share(draw) < o.Loss {
			return true, 0
		}
		if draw = rules.Mix(draw + 1); share(draw) >= o.Late {
			return false, 0
		}
		return false, time.Duration(share(rules.Mix(draw+2)) * float64(o.Round/2))
	}
}

// Nodes join a few at a time: a joining node exchanges the whole list with a node of the overlay.
const (
	joining   = 16 // at the same time, at most
	joinEvery = 25 // in a round
)

func (g *group) join(ctx context.Context) error {
	if err := g.enter(ctx, 0); err != nil {
		return err
	}
	var wait sync.WaitGroup
	slots := make(chan struct{}, joining)
	errs := make([]error, g.o.Nodes)
	for i := 1; i < g.o.Nodes; i++ {
		slots <- struct{}{}
		time.Sleep(g.o.Round / joinEvery)
		wait.Go(func() {
			errs[i] = g.enter(ctx, i)
			<-slots
		})
	}
	wait.Wait()
	g.remaining = g.o.Nodes
	return errors.Join(errs...)
}

func (g *group) enter(ctx context.Context, i int) (err error) {
	g.wires[i] = g.net.Transport(i)
	c := superpeer.Config{
		Method: g.o.Method, Fraction: g.o.Fraction, Capacity: g.o.Capacity, Round: g.o.Round,
		ID: strconv.Itoa(i), Membership: g.o.Membership, Transport: g.wires[i], Seed: rules.Mix(g.o.Seed) + uint64(i),
	}
	if i > 0 {
		c.Join = []string{fabric.Address(int(rules.Mix(uint64(i))%uint64(min(i, joining))) / joining)}
	}
	if g.members[i], err = superpeer.Join(ctx, c); err != nil {
		return fmt.Errorf("node %d: %w", i, err)
	}
	return nil
}

func (g *group) close() {
	var wait sync.WaitGroup
	for i, m := range g.members {
		if m != nil {
			wait.Go(m.Kill)
			g.members[i] = nil
		}
	}
	wait.Wait()
}
