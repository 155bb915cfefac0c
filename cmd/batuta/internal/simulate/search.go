package simulate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta/internal/command/algorithm"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/draw"
	"github.com/batuta-dev/batuta/internal/sim/explore"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// labMemory: a search may use memory freely up to here; beyond, the collector works harder.
const labMemory = 7 << 30

func newSimSoakCommand(e cli.Env) *cobra.Command {
	var c sim.SoakConfig
	var seeds, faults, draws string
	var asJSON, list bool
	cmd := &cobra.Command{
		Use:   "soak",
		Short: "Play random schedules of faults and check every rule at every step",
		Long: `soak makes a random schedule of each seed, plays it, ends all faults and demands
agreement within the bound. It counts the schedules that broke each rule; the first
of them is shrunk to a short scenario, which is printed with the command that
replays it.`,
		Example: `  batuta sim soak --algorithm bully --nodes 5 --seeds 1:100000
  batuta sim soak --seeds 17:17 --faults crash,restart,partition,heal
  batuta sim soak --faults all,membership
  batuta sim soak --seeds 1:100000 --list`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&c.Algorithm, "algorithm", "bully", algorithm.Usage())
	f.StringVar(&c.Option, "probe", "", "ask higher members in `MODE` all or descending (default both in turn) [bully]")
	f.IntVar(&c.Nodes, "nodes", 5, "`N` members, 1 to 50")
	f.StringVar(&seeds, "seeds", "1:10000", "play the seeds `FROM:TO`, both included")
	f.StringVar(&faults, "faults", "", "draw faults from `LIST`: "+words(allFaults())+"; all for "+words(sim.SoakFaults())+"; membership for "+words(sim.MembershipFaults())+" (default all)")
	f.StringVar(&draws, "draw", "", "vary `LIST`: "+words(draw.Kinds())+"; all; or none (default "+words(draw.Defaults())+")")
	f.IntVar(&c.PerRun, "faults-per-run", 10, "`N` faults in a schedule, 1 to 1000")
	f.BoolVar(&list, "list", false, "print each seed that fails, up to 1000, and the rule that it broke")
	cli.JSONFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := soakFlags(&c, seeds, faults, draws); err != nil {
			return err
		}
		ctx, stop := cli.Interruptible(cmd.Context())
		defer stop()
		defer debug.SetGCPercent(debug.SetGCPercent(400))
		bar := newProgress(e.Stderr)
		c.Progress = func(r sim.SoakResult) {
			bar.show(float64(r.Schedules)/float64(c.To-c.From+1), func(seconds float64) string {
				return fmt.Sprintf("%d schedules, %.0f/s, %d violations", r.Schedules, float64(r.Schedules)/seconds, r.Violations)
			})
		}
		r, err := sim.Soak(ctx, algorithm.Maker, c)
		bar.done()
		if err != nil {
			return labError(err)
		}
		if err := reportSoak(e, c, r, bar.seconds(), asJSON, list); err != nil {
			return err
		}
		if all := c.To - c.From + 1; r.Schedules < all {
			return fmt.Errorf("interrupted: %d of %d schedules were played", r.Schedules, all)
		}
		return nil
	}
	return cmd
}

// These are verbs that a help text can break into lines.
func words[T ~string](list []T) string { return strings.ReplaceAll(verbs(list), ",", ", ") }

func verbs[T ~string](list []T) string {
	words := make([]string, len(list))
	for i, v := range list {
		words[i] = string(v)
	}
	return strings.Join(words, ",")
}

func soakFlags(c *sim.SoakConfig, seeds, faults, draws string) error {
	from, to, ok := strings.Cut(seeds, ":")
	if !ok {
		to = from
	}
	var errFrom, errTo error
	c.From, errFrom = strconv.ParseUint(from, 10, 63)
	c.To, errTo = strconv.ParseUint(to, 10, 63)
	switch {
	case errFrom != nil || errTo != nil || c.To < c.From:
		return cli.Usagef("--seeds %q: give FROM:TO, two numbers from 0 to 2^63-1 in order", seeds)
	case c.Nodes < 1 || c.Nodes > 50:
		return cli.Usagef("--nodes %d: give 1 to 50", c.Nodes)
	case c.PerRun < 1 || c.PerRun > 1000:
		return cli.Usagef("--faults-per-run %d: give 1 to 1000", c.PerRun)
	}
	if err := checkAlgorithm(c.Algorithm, c.Option); err != nil {
		return err
	}
	if c.Algorithm == "bully" && c.Option == "" {
		c.Options = []string{"descending", "all"}
	}
	if err := soakDraws(c, draws); err != nil || faults == "" {
		return err
	}
	for _, f := range strings.Split(faults, ",") {
		switch {
		case f == "all":
			c.Faults = append(c.Faults, sim.SoakFaults()...)
		case f == "membership":
			c.Faults = append(c.Faults, sim.MembershipFaults()...)
		case slices.Contains(allFaults(), scenario.Verb(f)):
			c.Faults = append(c.Faults, scenario.Verb(f))
		default:
			return cli.Usagef("--faults %q: use some of all, membership, %s", f, verbs(allFaults()))
		}
	}
	return nil
}

func soakDraws(c *sim.SoakConfig, draws string) error {
	switch draws {
	case "":
		return nil
	case "all":
		c.Draws = draw.Kinds()
		return nil
	case "none":
		c.Draws = []draw.Kind{}
		return nil
	}
	for _, d := range strings.Split(draws, ",") {
		if !slices.Contains(draw.Kinds(), draw.Kind(d)) {
			return cli.Usagef("--draw %q: use all, none, or some of %s", d, verbs(draw.Kinds()))
		}
		c.Draws = append(c.Draws, draw.Kind(d))
	}
	return nil
}

func allFaults() []scenario.Verb {
	return slices.Concat(sim.SoakFaults(), sim.MembershipFaults(), sim.TellingFaults())
}

func reportSoak(e cli.Env, c sim.SoakConfig, r sim.SoakResult, seconds float64, asJSON, list bool) error {
	if asJSON {
		answer := map[string]any{
			"schedules": r.Schedules, "violations": r.Violations, "seconds": seconds,
			"per_second": float64(r.Schedules) / seconds, "first_failing_seed": nil, "by_rule": r.ByRule,
			"simulated_seconds": r.Simulated.Seconds(), "longest_agreement_ms": r.Agreed.Seconds() * 1000, "share_of_bound": r.Share, "slowest_seed": r.Slowest,
		}
		if len(r.Failing) > 0 {
			answer["first_failing_seed"] = r.Failing[0].Seed
		}
		if list {
			answer["failing"] = r.Failing
		}
		if err := json.NewEncoder(e.Stdout).Encode(answer); err != nil {
			return err
		}
	} else {
		var b strings.Builder
		fmt.Fprintf(&b, "%d schedules in %.1f s (%.0f/s, %.0f simulated seconds a second): %d violations; agreement after %v at most; seed %d took %.0f %% of its bound\n",
			r.Schedules, seconds, float64(r.Schedules)/seconds, r.Simulated.Seconds()/seconds, r.Violations, r.Agreed.Round(time.Millisecond), r.Slowest, 100*r.Share)
		showFailing(&b, r, list)
		if _, err := io.WriteString(e.Stdout, b.String()); err != nil {
			return err
		}
	}
	if len(r.Failing) == 0 {
		return nil
	}
	first := r.Failing[0].Seed
	s, v := sim.Shrink(c.Schedule(first), algorithm.Maker)
	if v == nil {
		return fmt.Errorf("seed %d broke a rule once and does not again", first)
	}
	v.Replay = soakReplay(c, first)
	fmt.Fprintf(e.Stderr, "seed %d, shrunk; save it to a file and \"batuta sim run FILE --trace\" shows it:\n\n%s\n", first, s)
	return v
}

// showFailing prints how many schedules broke each rule, the most often broken first,
// and, as a list, which.
func showFailing(to io.Writer, r sim.SoakResult, list bool) {
	rules := slices.SortedFunc(maps.Keys(r.ByRule), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.ByRule[b], r.ByRule[a]), cmp.Compare(a, b))
	})
	for _, rule := range rules {
		fmt.Fprintf(to, "%8d broke: %s\n", r.ByRule[rule], rule)
	}
	if list {
		for _, f := range r.Failing {
			fmt.Fprintf(to, "seed %d: %s\n", f.Seed, f.Rule)
		}
	}
}

// soakReplay is the command that plays that seed's schedule again.
func soakReplay(c sim.SoakConfig, seed uint64) string {
	b := fmt.Sprintf("batuta sim soak --algorithm %s --nodes %d --faults-per-run %d --seeds %d:%d", c.Algorithm, c.Nodes, c.PerRun, seed, seed)
	if c.Option != "" {
		b += " --probe " + c.Option
	}
	if c.Draws != nil {
		b += " --draw " + cmp.Or(verbs(c.Draws), "none")
	}
	if len(c.Faults) > 0 {
		b += " --faults " + verbs(c.Faults)
	}
	return b
}

func newSimExploreCommand(e cli.Env) *cobra.Command {
	var c explore.Config
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explore",
		Short: "Search every order of events of a small cluster",
		Long: `explore goes, breadth first, through every order of deliveries, timers, crashes,
restarts and false suspicions within the budgets, from a settled cluster. What
breaks a rule comes out as the shortest scenario. For quorum a suspicion is a
member that is stopped, and goes on, at any moment.
Four members have 6.7 million states, in 3 GiB of memory. Bound a larger search by
--states, or end it by Ctrl-C: it prints how far it came.`,
		Example: `  batuta sim explore --algorithm bully --nodes 3 --crashes 2 --restarts 2 --suspicions 1
  batuta sim explore --nodes 4 --crashes 1 --restarts 1 --suspicions 1 --json
  batuta sim explore --algorithm quorum --crashes 1 --restarts 1 --suspicions 0`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&c.Algorithm, "algorithm", "bully", algorithm.Usage())
	f.StringVar(&c.Option, "probe", "descending", "ask higher members in `MODE` all or descending [bully]")
	f.IntVar(&c.Nodes, "nodes", 3, "`N` members, 1 to 8")
	f.IntVar(&c.Crashes, "crashes", 1, "`N` crashes at most")
	f.IntVar(&c.Restarts, "restarts", 1, "`N` restarts at most")
	f.IntVar(&c.Suspicions, "suspicions", 1, "`N` false suspicions and early timers at most")
	f.IntVar(&c.Initiators, "initiators", 0, "`N` elections at most that are called without a suspicion")
	f.IntVar(&c.Epochs, "epochs", 0, "stop where epochs lie `N` apart (default never)")
	f.Uint64Var(&c.States, "states", 0, "stop after `N` states (default never)")
	cli.JSONFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := exploreFlags(c, f); err != nil {
			return err
		}
		ctx, stop := cli.Interruptible(cmd.Context())
		defer stop()
		defer debug.SetGCPercent(debug.SetGCPercent(300))
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(labMemory))
		c.OwnRounds = c.Algorithm == "bully"
		if !c.OwnRounds && !cmd.Flags().Changed("probe") {
			c.Option = ""
		}
		bar := newProgress(e.Stderr)
		c.Progress = func(r explore.Result) {
			bar.show(-1, func(seconds float64) string {
				return fmt.Sprintf("%d states, depth %d, %.0f states/s", r.States, r.Depth, float64(r.States)/seconds)
			})
		}
		r, err := explore.Search(ctx, algorithm.Maker, c)
		bar.done()
		if err != nil {
			return labError(err)
		}
		return reportExplore(e, r, bar.seconds(), asJSON)
	}
	return cmd
}

// exploreFlags names the flag that has a wrong value.
func exploreFlags(c explore.Config, f *pflag.FlagSet) error {
	if c.Nodes < 1 || c.Nodes > 8 {
		return cli.Usagef("--nodes %d: give 1 to 8", c.Nodes)
	}
	for _, name := range []string{"crashes", "restarts", "suspicions", "initiators", "epochs"} {
		if n, _ := f.GetInt(name); n < 0 || n > 100 {
			return cli.Usagef("--%s %d: give 0 to 100", name, n)
		}
	}
	if c.Algorithm == "quorum" && c.Initiators > 0 {
		return cli.Usagef("--initiators %d does not go with --algorithm quorum, which refuses a call for an election while there is a leader: leave it out", c.Initiators)
	}
	return checkAlgorithm(c.Algorithm, c.Option)
}

// checkAlgorithm checks --algorithm and --probe.
func checkAlgorithm(name, probe string) error {
	if _, err := algorithm.New(name, probe); err != nil {
		return cli.Usagef("--%w", err)
	}
	return nil
}

func reportExplore(e cli.Env, r explore.Result, seconds float64, asJSON bool) error {
	violations := 0
	if r.Violation != nil {
		violations = 1
	}
	if asJSON {
		if err := json.NewEncoder(e.Stdout).Encode(map[string]any{
			"states": r.States, "depth": r.Depth, "complete": r.Complete, "violations": violations,
			"seconds": seconds, "per_second": float64(r.States) / seconds,
		}); err != nil {
			return err
		}
	} else {
		end := map[bool]string{true: "complete", false: "not to the end"}[r.Complete]
		if _, err := fmt.Fprintf(e.Stdout, "%d states, depth %d, %s, %d violations, %.1f s (%.0f states/s)\n",
			r.States, r.Depth, end, violations, seconds, float64(r.States)/seconds); err != nil {
			return err
		}
	}
	if r.Violation != nil {
		fmt.Fprintf(e.Stderr, "the shortest way there; save it to a file and \"batuta sim run FILE --trace\" shows it:\n\n%s\n", r.Scenario)
		return r.Violation
	}
	if !r.Complete {
		return errors.New("the search was not finished")
	}
	return nil
}

// progress is a line on a terminal that is written over, at most ten times a second.
type progress struct {
	mu    sync.Mutex
	to    io.Writer // nil: no output
	began time.Time
	ended time.Time
	last  time.Time
}

func newProgress(w io.Writer) *progress {
	p := &progress{began: time.Now()}
	if cli.IsTerminal(w) {
		p.to = w
	}
	return p
}

// show prints how far the work is (negative: unknown) and text.
func (p *progress) show(part float64, text func(seconds float64) string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.to == nil || now.Sub(p.last) < 100*time.Millisecond {
		return
	}
	p.last = now
	gone := now.Sub(p.began)
	line := text(gone.Seconds())
	if part > 0 {
		full := int(part * 20)
		left := time.Duration(float64(gone) * (1 - part) / part).Round(time.Second)
		line = fmt.Sprintf("[%s%s] %s, %v left", strings.Repeat("#", full), strings.Repeat(".", 20-full), line, left)
	}
	fmt.Fprintf(p.to, "\r\x1b[K%s", line)
}

func (p *progress) done() {
	p.ended = time.Now()
	if p.to != nil {
		fmt.Fprint(p.to, "\r\x1b[K")
	}
}

func (p *progress) seconds() float64 { return p.ended.Sub(p.began).Seconds() }
