package lab

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/batuta-dev/batuta/internal/superpeer"
)

// Baselines are arrangements chosen with full knowledge; nil where they would
// take too long.
type Baselines struct {
	Random   *Figures
	KCenter  *Figures
	KMedoids *Figures // where there is a cap, capacitated
}

// baselines chooses k of the nodes that live.
func baselines(w *world, live []int32, k int) (b Baselines) {
	capacity := w.cfg.Capacity
	random := randomCenters(live, k, w.seed)
	b.Random = new(chosen(w.space, live, random, capacity))
	if c := kcenter(w.space, live, k, w.seed); c != nil {
		b.KCenter = new(chosen(w.space, live, c, capacity))
	}
	if len(live) <= medoidLimit {
		m := kmedoids(w.space, live, random)
		if capacity > 0 {
			m = cappedReference(w.space, live, m, capacity, w.seed)
		}
		b.KMedoids = new(chosen(w.space, live, m, capacity))
	}
	return b
}

// compared is a run beside its baselines.
type compared struct {
	*Report
	Baselines
}

// ratio is the mean latency over that of k-medoids; 0 where there is none.
func (c *compared) ratio() float64 {
	if c.KMedoids == nil || c.KMedoids.Mean <= 0 {
		return 0
	}
	return c.Mean / c.KMedoids.Mean
}

func compare(t *testing.T, o Options) *compared {
	t.Helper()
	r, w, err := play(o)
	if err != nil {
		t.Fatal(err)
	}
	return &compared{r, baselines(w, w.live(), r.Wanted)}
}

func (c *compared) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s in %s: %d nodes, %d super peers wanted, seed %d, %d rounds\n",
		c.Method, c.Space, c.Nodes, c.Wanted, c.Seed, c.Rounds)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\t%s\trandom\tk-center\tk-medoids\t\n", c.Method)
	row := func(name, format string, value func(*Figures) any) {
		cells := []string{name}
		for _, f := range []*Figures{&c.Figures, c.Random, c.KCenter, c.KMedoids} {
			cell := "–"
			if f != nil {
				cell = fmt.Sprintf(format, value(f))
			}
			cells = append(cells, cell)
		}
		fmt.Fprintln(t, strings.Join(cells, "\t")+"\t")
	}
	row("mean latency ms", "%.3f", func(f *Figures) any { return f.Mean })
	row("p95 latency ms", "%.3f", func(f *Figures) any { return f.P95 })
	row("covering radius ms", "%.3f", func(f *Figures) any { return f.Radius })
	row("largest load", "%d", func(f *Figures) any { return f.LoadMax })
	row("load variation", "%.3f", func(f *Figures) any { return f.LoadCV })
	row("Jain index", "%.3f", func(f *Figures) any { return f.Jain })
	row("unserved", "%.4f", func(f *Figures) any { return f.Unserved })
	t.Flush()
	fmt.Fprintf(&b, "%.3f × k-medoids\n", c.ratio())
	return b.String()
}

// given are the flags after -args, which are those of "batuta sim superpeers".
var given struct {
	options            Options
	method, rtt, churn string
}

func init() {
	o := &given.options
	flag.StringVar(&given.method, "method", "", "choose super peers by method `NAME`")
	flag.StringVar(&o.Space, "space", "", "place the nodes in space `NAME`")
	flag.StringVar(&given.rtt, "rtt", "", "`FILE` with a square matrix of round trips in milliseconds")
	flag.IntVar(&o.Nodes, "nodes", 0, "`N` nodes; of a matrix with fewer hosts, spread on them (default 1000, of a matrix its hosts)")
	flag.Float64Var(&o.Fraction, "fraction", 0.01, "`N`, the share of super peers")
	flag.IntVar(&o.Capacity, "capacity", 0, "`N` nodes at most are served by a super peer")
	flag.IntVar(&o.Rounds, "rounds", 200, "play `N` rounds")
	flag.StringVar(&given.churn, "churn", "none", "nodes that come and go, a `LIST` of SHARE@ROUND")
	flag.Uint64Var(&o.Seed, "seed", 1, "`N` that everything random comes from")
}

// TestBaselines prints a run beside its baselines. Choices made with full knowledge
// have an order: swaps for the better never end above the random choice that they
// begin from.
func TestBaselines(t *testing.T) {
	o := given.options
	o.Method = superpeer.Method(given.method)
	o.Churn = churn(t, given.churn)
	if given.rtt != "" {
		f, err := os.Open(given.rtt)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if o.RTT, err = ReadMatrix(f); err != nil {
			t.Fatal(err)
		}
		if o.Nodes > 0 {
			o.RTT = o.RTT.Spread(o.Nodes, o.Seed)
		}
	} else if o.Nodes == 0 {
		o.Nodes = 1000
	}
	c := compare(t, o)
	t.Log(c)
	if m := c.KMedoids; m != nil && m.Mean > c.Random.Mean {
		t.Errorf("k-medoids has a mean of %.3f ms, random choice %.3f", m.Mean, c.Random.Mean)
	}
}
