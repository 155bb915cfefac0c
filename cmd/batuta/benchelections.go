package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/core/named"
)

func newBenchElectionsCommand(e cli.Env) *cobra.Command {
	b := &electionsBench{benchCluster: benchCluster{Env: e}, breath: time.Second}
	cmd := &cobra.Command{
		Use:   "elections",
		Short: "Measure many elections on one cluster on loopback",
		Long: `elections starts members as child processes on loopback, each a candidate for all of
many elections, and measures until each is led again, as every other member sees it, and
the new leader's work has begun: after a cold start of all, counted from before the first
process begins; in each round after kill -9 of one member, after kill -9 of the
coordinator, and after a drain of one member is asked for, counted from just before that.
Then the cluster is left idle: what the busiest member takes of one core, the resident
memory of the largest, and the bytes that all of them together send in a second.
Progress goes to standard error.`,
		Example: `  batuta bench elections --nodes 5 --count 10000
  batuta bench elections --count 100 --algorithm quorum --rounds 3 --json`,
		Args: cobra.NoArgs,
	}
	b.register(cmd, 5)
	cmd.Flags().IntVar(&b.elections, "count", 10000, fmt.Sprintf("`N` elections, as many as members to %d", named.MaxElections))
	cli.Alias(cmd.Flags(), "count", "elections")
	cmd.Flags().DurationVar(&b.rest, "rest", 10*time.Second, "measure the idle cluster for `DURATION`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := b.check(); err != nil {
			return err
		}
		if b.elections < b.nodes || b.elections > named.MaxElections {
			return cli.Usagef("--count %d: give %d, one for each member, to %d", b.elections, b.nodes, named.MaxElections)
		}
		if b.rest < time.Second {
			return cli.Usagef("--rest %v: give a second or more", b.rest)
		}
		ctx, stop := cli.Interruptible(cmd.Context())
		defer stop()
		return b.run(ctx)
	}
	return cmd
}

// electionsBench is a run of the command.
type electionsBench struct {
	benchCluster
	elections int
	rest      time.Duration
	breath    time.Duration // for which the members rest before a fault, and before they are measured

	member, coordinator, drain []float64
}

// electionsFigures is the answer, times in milliseconds.
type electionsFigures struct {
	Elections       int     `json:"elections"`
	Nodes           int     `json:"nodes"`
	AllLed          float64 `json:"all_led_ms"`
	MemberLoss      summary `json:"member_loss_ms"`
	CoordinatorLoss summary `json:"coordinator_loss_ms"`
	Drain           float64 `json:"drain_ms"`            // the median
	CPU             float64 `json:"cpu_percent"`         // of a core, of the busiest member
	RSS             float64 `json:"rss_mib"`             // of the largest
	Bytes           float64 `json:"bytes_per_s_at_rest"` // that all send
}

// ledWithin is how long until all are led and the shares are even; longer is broken.
const ledWithin = 60 * time.Second

func (b *electionsBench) run(ctx context.Context) error {
	if err := b.open(); err != nil {
		return err
	}
	defer b.cluster.close()
	b.cluster.command = []string{"bench", "member"}
	b.cluster.flags = append(b.cluster.flags, "--names", strconv.Itoa(b.elections))
	began := b.cluster.mark()
	if err := b.cluster.startAll(); err != nil {
		return err
	}
	allLed, err := b.led(ctx, began, nil)
	if err != nil {
		return err
	}
	fmt.Fprintf(b.Stderr, "cold start: all are led after %.0f ms\n", cli.Milliseconds(allLed))
	if err := b.calm(ctx); err != nil {
		return err
	}
	for round := range b.rounds {
		if err := b.round(ctx); err != nil {
			return fmt.Errorf("round %d: %w", round+1, err)
		}
		last := func(v []float64) float64 { return v[len(v)-1] }
		fmt.Fprintf(b.Stderr, "round %d/%d: all are led %.1f ms after a member was killed, %.1f ms after the coordinator was, %.0f ms after a drain was asked for\n",
			round+1, b.rounds, last(b.member), last(b.coordinator), last(b.drain))
	}
	f := electionsFigures{Elections: b.elections, Nodes: b.nodes, AllLed: cli.Milliseconds(allLed),
		MemberLoss: summarize(b.member), CoordinatorLoss: summarize(b.coordinator), Drain: summarize(b.drain).Median}
	if err := b.atRest(ctx, &f); err != nil {
		return err
	}
	return b.print(f)
}

// round loses a member, then the coordinator, then drains a member.
func (b *electionsBench) round(ctx context.Context) error {
	lose := func(victim *member, figures *[]float64) error {
		at, err := b.cluster.crash(victim)
		if err != nil {
			return err
		}
		took, err := b.led(ctx, at, victim)
		if err != nil {
			return err
		}
		*figures = append(*figures, cli.Milliseconds(took))
		if err := b.cluster.start(victim); err != nil {
			return err
		}
		return b.calm(ctx)
	}
	first, last := b.cluster.members[0], b.cluster.members[b.nodes-1]
	if err := lose(first, &b.member); err != nil {
		return fmt.Errorf("a member is lost: %w", err)
	}
	if err := lose(last, &b.coordinator); err != nil {
		return fmt.Errorf("the coordinator is lost: %w", err)
	}
	took, err := b.drained(ctx, first)
	if err != nil {
		return fmt.Errorf("a member is drained: %w", err)
	}
	b.drain = append(b.drain, cli.Milliseconds(took))
	return b.calm(ctx)
}

// drained has a member drained until it leads nothing, and ends that.
func (b *electionsBench) drained(ctx context.Context, m *member) (time.Duration, error) {
	client, err := api.NewClient(m.http, api.Access{})
	if err != nil {
		return 0, err
	}
	if err := client.Get(ctx, "/healthz", nil); err != nil {
		return 0, err // and the connection stands before the clock runs
	}
	at := b.cluster.mark()
	if err := client.Call(ctx, "POST", "/v1/drain", api.Drain{ID: m.id}, nil); err != nil {
		return 0, err
	}
	took, err := b.led(ctx, at, m)
	return took, cmp.Or(err, client.Call(ctx, "POST", "/v1/undrain", api.Drain{ID: m.id}, nil))
}

// led waits until each election has a leader other than that member, as all members report, and the work
// for it has begun, and returns how long after since.
func (b *electionsBench) led(ctx context.Context, since time.Time, not *member) (time.Duration, error) {
	var at time.Time
	err := b.until(ctx, "is led", func() bool {
		working := 0
		for _, m := range b.cluster.members {
			if m.process == nil || m.frozen {
				continue
			}
			if m.spread.Led != b.elections || not != nil && m.spread.By[batuta.ID(not.id)] > 0 {
				return false
			}
			working += m.spread.Working
			for _, t := range []time.Time{m.spread.Full.Time, m.spread.Worked.Time} {
				if t.After(at) {
					at = t
				}
			}
		}
		return working == b.elections
	})
	return at.Sub(since), err
}

// calm waits until all members are there, the highest coordinates and no share is more
// than one apart, and then a moment.
func (b *electionsBench) calm(ctx context.Context) error {
	if _, err := b.led(ctx, time.Time{}, nil); err != nil {
		return err
	}
	if _, err := b.cluster.await(ctx, 1, b.highest()); err != nil {
		return err
	}
	err := b.until(ctx, "is led evenly", func() bool {
		for _, m := range b.cluster.members {
			for _, other := range b.cluster.members {
				if n := m.spread.By[batuta.ID(other.id)]; n < b.elections/b.nodes || n > b.elections/b.nodes+1 {
					return false
				}
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	return b.cluster.settle(ctx, b.breath)
}

func (b *electionsBench) until(ctx context.Context, what string, wanted func() bool) error {
	err := b.cluster.until(ctx, ledWithin, wanted)
	if errors.Is(err, errInVain) {
		var seen []string
		for _, m := range b.cluster.members {
			if m.process != nil {
				seen = append(seen, fmt.Sprintf("%s sees %d led, of which by each %v, and works for %d", m.id, m.spread.Led, m.spread.By, m.spread.Working))
			}
		}
		return fmt.Errorf("not every election %s within %v: %s", what, ledWithin, strings.Join(seen, "; "))
	}
	return err
}

// usage is what a member has used up since it began, and the memory it has now.
type usage struct{ cpu, rss, sent float64 }

// atRest measures the members while nothing happens.
func (b *electionsBench) atRest(ctx context.Context, f *electionsFigures) error {
	before, began := make([]usage, b.nodes), time.Now()
	for i, m := range b.cluster.members {
		var err error
		if before[i], err = usageOf(ctx, m); err != nil {
			return err
		}
	}
	if err := b.cluster.settle(ctx, b.rest); err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	for i, m := range b.cluster.members {
		now, err := usageOf(ctx, m)
		if err != nil {
			return err
		}
		f.CPU = max(f.CPU, 100*(now.cpu-before[i].cpu)/took)
		f.RSS = max(f.RSS, now.rss/(1<<20))
		f.Bytes += (now.sent - before[i].sent) / took
	}
	return nil
}

// usageOf reads a member's metrics.
func usageOf(ctx context.Context, m *member) (u usage, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.http+"/metrics", nil)
	if err != nil {
		return u, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return u, err
	}
	defer resp.Body.Close()
	wanted := map[string]*float64{"process_cpu_seconds_total": &u.cpu, "process_resident_memory_bytes": &u.rss, "batuta_sent_bytes_total": &u.sent}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if into := wanted[name]; into != nil {
			*into, err = strconv.ParseFloat(value, 64)
			delete(wanted, name)
		}
		if err != nil {
			return u, fmt.Errorf("metrics of member %s: %w", m.id, err)
		}
	}
	return u, nil
}

func (b *electionsBench) print(f electionsFigures) error {
	if b.json {
		return json.NewEncoder(b.Stdout).Encode(f)
	}
	_, err := fmt.Fprintf(b.Stdout, `%d elections, %d members, %s, %d rounds

                       median      p99      max
a member is lost     %s
coordinator is lost  %s

cold start  %.0f ms until all are led
drain       %.0f ms until a member leads none
idle        %.1f %% of one core (the busiest member), %.0f MiB (the largest), %.0f bytes a second (all)
`, f.Elections, f.Nodes, b.algorithm, b.rounds, f.MemberLoss, f.CoordinatorLoss, f.AllLed, f.Drain, f.CPU, f.RSS, f.Bytes)
	return err
}
