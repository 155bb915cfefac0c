package lab

import (
	"fmt"
	"io"
	"math"

	"github.com/batuta-dev/batuta/internal/superpeer"
)

// Report is the result of a run. Figures are of the last round.
type Report struct {
	Method  superpeer.Method `json:"method"`
	Space   string           `json:"space"`
	Seed    uint64           `json:"seed"`
	Rounds  int              `json:"rounds"`
	Nodes   int              `json:"nodes"`
	Wanted  int              `json:"wanted"` // super peers
	Live    int              `json:"live"`
	Figures                  // of the method

	Capacity      int      `json:"capacity"`       // 0: no limit
	CapViolations int      `json:"cap_violations"` // super peers over capacity, total of all rounds
	RatioBound    *float64 `json:"ratio_bound"`    // mean latency over the space's bound; null if none is known
	Bound         *float64 `json:"bound"`          // milliseconds

	// SettledRound is the first round from which on, to the end or to the first churn, the number
	// of super peers is right and the mean latency stays within 3 % of its value at the end of that
	// time. It is null if that only holds in the last tenth.
	SettledRound  *int       `json:"settled_round"`
	NumberMissed  int        `json:"number_missed"` // rounds after settling, and not within 20 of churn, with live ≠ wanted
	MovesPerToken float64    `json:"moves_per_token"`
	Messages      float64    `json:"messages_per_node_round"` // mean over the rounds; gossip counts as a single message
	Recovery      []Recovery `json:"recovery"`
	Seconds       float64    `json:"seconds"`

	samples []Sample
	churned []int
	picture Map
}

// Recovery is the recovery from a change of many nodes at once.
type Recovery struct {
	Round   int     `json:"round"`
	Served  *int    `json:"served_after"`     // rounds until at least 99.9 % were served; null: never
	Latency float64 `json:"latency_after_20"` // mean latency 20 rounds later, relative to that before
}

func newReport(o Options) *Report {
	name := o.Space
	if o.RTT != nil {
		name = "rtt"
	}
	return &Report{Method: o.Method, Space: name, Seed: o.Seed, Rounds: o.Rounds, Capacity: o.Capacity, Recovery: []Recovery{}}
}

// Samples returns the sample of each round.
func (r *Report) Samples() []Sample { return r.samples }

func (r *Report) add(s Sample, cfg *superpeer.Config) {
	r.CapViolations += s.Over
	r.samples = append(r.samples, s)
	r.MovesPerToken += float64(s.Moves) / float64(max(cfg.Count(s.Nodes), 1))
	r.Messages += s.Messages / float64(r.Rounds)
}

// finish measures the last round and computes the remaining figures.
func (r *Report) finish(w *world) {
	holders := w.holders()
	o, _ := w.look(holders, true)
	r.Nodes, r.Wanted, r.Live = w.n, w.cfg.Wanted(w.n), len(holders)
	r.Figures = figures(o.lats, o.loads, w.n-len(holders))
	last := &r.samples[len(r.samples)-1]
	last.Mean, last.Unserved, last.measured = r.Mean, r.Unserved, true
	if b := w.space.bound(r.Wanted, w.live()); b > 0 {
		r.Bound, r.RatioBound = new(b), new(r.Mean/b)
	}
	r.settle(&w.cfg)
	for _, at := range r.churned {
		if len(r.churned) <= maxRecoveries {
			r.Recovery = append(r.Recovery, r.recover(at))
		}
	}
	r.picture = w.picture()
}

// maxRecoveries is the number of changes up to which each gets a Recovery; with more, churn is
// steady.
const maxRecoveries = 10

// settle finds the settled round and counts later rounds with a wrong number.
func (r *Report) settle(cfg *superpeer.Config) {
	end := len(r.samples)
	if len(r.churned) > 0 {
		end = r.churned[0]
	}
	if end == 0 {
		return
	}
	final := r.samples[end-1].Mean
	first := end
	for first > 0 {
		s := &r.samples[first-1]
		if s.Live != cfg.Count(s.Nodes) || math.Abs(s.Mean-final) > 0.03*final {
			break
		}
		first--
	}
	if first > end-max(1, end/10) {
		return
	}
	r.SettledRound = new(r.samples[first].Round)
	calm := first
	for i, s := range r.samples {
		for _, at := range r.churned {
			if i == at {
				calm = at + 20
			}
		}
		if i >= calm && s.Live != s.Wanted {
			r.NumberMissed++
		}
	}
}

func (r *Report) recover(at int) Recovery {
	v := Recovery{Round: at}
	for i := at; i < len(r.samples); i++ {
		if s := &r.samples[i]; s.measured && s.Unserved <= 0.001 {
			v.Served = new(i - at + 1)
			break
		}
	}
	if at > 0 && r.samples[at-1].Mean > 0 {
		v.Latency = r.samples[min(at+19, len(r.samples)-1)].Mean / r.samples[at-1].Mean
	}
	return v
}

// WriteTable prints r for a user, by the four requirements.
func (r *Report) WriteTable(out io.Writer) error {
	fmt.Fprintf(out, "%s in %s: %d nodes, %d super peers wanted, seed %d, %d rounds\n\n",
		r.Method, r.Space, r.Nodes, r.Wanted, r.Seed, r.Rounds)
	fmt.Fprintf(out, "1 low latency     mean %.3f ms, 95 %% within %.3f ms; %s × the space's bound (%s ms)\n",
		r.Mean, r.P95, maybe("%.3f", r.RatioBound), maybe("%.3f", r.Bound))
	fmt.Fprintf(out, "2 spread evenly   covering radius %.3f ms, load variation %.3f, Jain index %.3f\n", r.Radius, r.LoadCV, r.Jain)
	fmt.Fprintf(out, "3 share           %d live, %d wanted; wrong in %d rounds after settling\n", r.Live, r.Wanted, r.NumberMissed)
	limit := "no capacity set"
	if r.Capacity > 0 {
		limit = fmt.Sprintf("capacity %d, exceeded %d times", r.Capacity, r.CapViolations)
	}
	fmt.Fprintf(out, "4 bounded load    largest %d; %s; %.4f of the nodes unserved\n", r.LoadMax, limit, r.Unserved)
	fmt.Fprintf(out, "settled in round %s; %.1f moves a token, %.1f messages a node and round; %.1f s\n",
		maybe("%d", r.SettledRound), r.MovesPerToken, r.Messages, r.Seconds)
	for _, v := range r.Recovery {
		fmt.Fprintf(out, "churn in round %d: 99.9 %% served after %s rounds, latency after 20 rounds %.3f × that before\n",
			v.Round, maybe("%d", v.Served), v.Latency)
	}
	_, err := fmt.Fprintln(out)
	return err
}

func maybe[T any](format string, p *T) string {
	if p == nil {
		return "–"
	}
	return fmt.Sprintf(format, *p)
}

// WriteCSV prints a line per round.
func (r *Report) WriteCSV(out io.Writer) error {
	if _, err := fmt.Fprintln(out, "round,nodes,wanted,live,missing,mean_latency,load_max,capacity,over_capacity,unserved,moves,messages_per_node"); err != nil {
		return err
	}
	for _, s := range r.samples {
		_, err := fmt.Fprintf(out, "%d,%d,%d,%d,%d,%.4f,%d,%d,%d,%.6f,%d,%.3f\n", s.Round, s.Nodes, s.Wanted, s.Live,
			s.Live-s.Wanted, s.Mean, s.LoadMax, r.Capacity, s.Over, s.Unserved, s.Moves, s.Messages)
		if err != nil {
			return err
		}
	}
	return nil
}
