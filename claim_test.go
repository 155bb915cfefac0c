package batuta

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/testkit/memnet"
)

// stateless is an algorithm with nothing in it that two nodes could both change.
type stateless struct{}

func (*stateless) Name() string                          { return "stateless" }
func (*stateless) Step(election.Event, election.Actions) {}

// single is an algorithm that no node can copy.
type single struct {
	Algorithm
	_ int
}

// A Config can be used again: each node steps a copy of its algorithm.
func TestAConfigCanBeUsedAgain(t *testing.T) {
	virtually(t, func(t *testing.T) {
		network := memnet.New()
		c := Config{Algorithm: bully.New()}
		var nodes []*Node
		for _, addr := range []string{"10.0.0.1:7400", "10.0.0.2:7400"} {
			c.Listen, c.Transport, c.Logger = addr, network.Host(addr), testLog(t, ID(addr))
			n, err := Start(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
		}
		for _, n := range nodes {
			waitView(t, n, "it leads its own cluster", func(v View) bool { return v.Token.Leader.ID == n.ID() })
		}
	})
}

// Two nodes that step one Algorithm race: the second does not start. What runs no more, or
// has never run, holds none.
func TestAnAlgorithmBelongsToOneNode(t *testing.T) {
	virtually(t, func(t *testing.T) {
		network := memnet.New()
		start := func(addr string, a Algorithm) (*Node, error) {
			n, err := Start(context.Background(), Config{Listen: addr, Algorithm: a, Transport: network.Host(addr), Logger: testLog(t, ID(addr))})
			if err == nil {
				t.Cleanup(func() { n.Close() })
			}
			return n, err
		}
		one := &single{Algorithm: bully.New()}
		first, err := start("10.0.0.1:7400", one)
		if err != nil {
			t.Fatal(err)
		}
		_, err = start("10.0.0.2:7400", one)
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "a value of its own") {
			t.Errorf("a second node with the first one's algorithm: %v", err)
		}
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		taken := errors.New("the port is taken")
		if _, err := Start(context.Background(), Config{Algorithm: one, Transport: deafTransport{taken}}); !errors.Is(err, taken) {
			t.Errorf("a node that cannot start: %v", err)
		}
		for addr, a := range map[string]Algorithm{"10.0.0.3:7400": one, "10.0.0.4:7400": &stateless{}, "10.0.0.5:7400": &stateless{}} {
			if _, err := start(addr, a); err != nil {
				t.Errorf("%T: %v", a, err)
			}
		}
	})
}

// deafTransport cannot listen.
type deafTransport struct{ err error }

func (d deafTransport) Listen(string) (net.Listener, error)            { return nil, d.err }
func (d deafTransport) Dial(context.Context, string) (net.Conn, error) { return nil, d.err }
