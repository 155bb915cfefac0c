package lab

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/batuta-dev/batuta/internal/superpeer"
	"github.com/batuta-dev/batuta/internal/superpeer/coordinate"
)

// Options describe a run. The zero value of each field is its default.
type Options struct {
	Method   superpeer.Method // default superpeer.Tokens
	Space    string           // an entry of Spaces; default plane2
	RTT      *Matrix          // measured round trips, instead of Space
	Nodes    int              // default 10,000; with a matrix only the number of its hosts
	Fraction float64          // share of super peers; default 0.01
	Capacity int              // most nodes that a super peer serves, without itself; default 0: no limit
	Rounds   int              // default 120
	Churn    []Change
	Seed     uint64
	Progress func(round int) // called after each round; may be nil
}

// Spaces returns the names of the spaces: "torus2", "plane2", "plane3", "clustered" and "internet".
func Spaces() []string { return []string{"torus2", "plane2", "plane3", "clustered", "internet"} }

// Limits of Options.
const (
	MinNodes  = 10
	MaxNodes  = 2_000_000
	MaxRounds = 100_000

	// MaxEstimated is the largest number of nodes in the space internet, where
	// coordinates are estimated.
	MaxEstimated = 100_000
)

// Defaults returns o with its zero fields replaced.
func (o Options) Defaults() Options {
	o.Method = cmp.Or(o.Method, superpeer.Tokens)
	if o.Space == "" && o.RTT == nil {
		o.Space = "plane2"
	}
	if o.RTT != nil && o.Nodes == 0 {
		o.Nodes = o.RTT.n
	}
	o.Nodes = cmp.Or(o.Nodes, 10_000)
	o.Fraction = cmp.Or(o.Fraction, 0.01)
	o.Rounds = cmp.Or(o.Rounds, 120)
	return o
}

// Validate returns every fault of o, or nil. For a capacity that cannot work the error wraps
// superpeer.ErrImpossible.
func (o Options) Validate() error {
	o = o.Defaults()
	var faults []error
	fault := func(format string, a ...any) { faults = append(faults, fmt.Errorf(format, a...)) }
	limit, least := MaxNodes, MinNodes
	if !coordinate.Estimates && (o.RTT != nil || o.Space == "internet") {
		fault("space %q: where its nodes are is estimated, and not in a browser; want another, or batuta sim superpeers", "internet")
	}
	switch {
	case o.RTT != nil:
		limit, least = o.RTT.n, o.RTT.n
	case o.Space == "internet":
		limit = MaxEstimated
	case !slices.Contains(Spaces(), o.Space):
		fault("space %q: want one of %s", o.Space, strings.Join(Spaces(), ", "))
	}
	if o.Nodes < least || o.Nodes > limit {
		fault("nodes %d: want %d to %d here", o.Nodes, least, limit)
	}
	if o.Rounds < 1 || o.Rounds > MaxRounds {
		fault("rounds %d: want 1 to %d", o.Rounds, MaxRounds)
	}
	cfg := o.config(superpeer.Metric{Dims: 2})
	cfg.Router = superpeer.NewRing(nil)
	if err := cfg.Validate(); err != nil {
		faults = append(faults, err)
	} else if err := cfg.Feasible(o.Nodes); err != nil {
		faults = append(faults, err)
	}
	for _, c := range o.Churn {
		if c.At >= o.Rounds {
			fault("churn in round %d: want a round before %d", c.At, o.Rounds)
		}
	}
	return errors.Join(faults...)
}

func (o Options) config(m superpeer.Metric) superpeer.Config {
	return superpeer.Config{Method: o.Method, Fraction: o.Fraction, Capacity: o.Capacity, Metric: m}.Defaults()
}

func (o Options) space() space {
	switch {
	case o.RTT != nil:
		return measured{o.RTT}
	case o.Space == "torus2":
		return newGeometric(o.Nodes, 2, true, o.Seed)
	case o.Space == "plane3":
		return newGeometric(o.Nodes, 3, false, o.Seed)
	case o.Space == "clustered":
		return newClustered(o.Nodes, o.Seed)
	case o.Space == "internet":
		return newInternet(o.Nodes, o.Seed)
	}
	return newGeometric(o.Nodes, 2, false, o.Seed)
}

// Run runs and measures the rounds. It returns the faults of o, if any.
func Run(o Options) (*Report, error) {
	r, _, err := play(o)
	return r, err
}

// play is Run, and also returns the overlay after the last round.
func play(o Options) (*Report, *world, error) {
	began := time.Now()
	v, err := NewWatch(o)
	if err != nil {
		return nil, nil, err
	}
	r := newReport(v.o)
	for range v.o.Rounds {
		s := v.Play()
		if v.churned {
			r.churned = append(r.churned, s.Round-1)
		}
		r.add(s, &v.w.cfg)
		if o.Progress != nil {
			o.Progress(s.Round)
		}
	}
	r.finish(v.w)
	r.Seconds = time.Since(began).Seconds()
	return r, v.w, nil
}
