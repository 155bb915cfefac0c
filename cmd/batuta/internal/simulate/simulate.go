// Package simulate has the commands that play elections without agents: the simulator, the lab in the browser, and
// overlays of super peers.
package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/ring"
	"github.com/batuta-dev/batuta/internal/command/algorithm"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
	"github.com/batuta-dev/batuta/internal/sim/trace"
	"github.com/spf13/cobra"
)

// NewCommand makes "batuta sim".
func NewCommand(e cli.Env) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "sim",
		Short: "Simulate elections and faults",
		Long: `sim runs exactly the state machines that agents run, under virtual time, on a network,
disks and clocks that fail on purpose. The same seed gives the same trace on
every machine.`,
		Example: `  batuta sim run election/bully/testdata/leader_crash.txt --trace
  batuta sim soak --seeds 1:100000
  batuta sim count --algorithm bully --nodes 9 --probe all --crashed 9
  batuta sim explore --nodes 3 --crashes 1 --restarts 1 --suspicions 1`,
	}, newSimRunCommand(e), newSimSoakCommand(e), newSimExploreCommand(e), newSimCountCommand(e), NewSuperpeersCommand(e))
}

// labError maps the lab's errors to exit codes: a broken rule or
// expectation is a failure, everything else wrong usage.
func labError(err error) error {
	_, violated := errors.AsType[*invariant.Violation](err)
	_, unmet := errors.AsType[*scenario.Unmet](err)
	_, coded := errors.AsType[*cli.Error](err)
	if err == nil || violated || unmet || coded {
		return err
	}
	return cli.Usagef("%w", err)
}

func newSimCountCommand(e cli.Env) *cobra.Command {
	var c sim.CountConfig
	var start, crashed []string
	var order string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "count",
		Short: "Count an algorithm's messages as the textbooks do",
		Long: `count lets members elect once and counts what they send: every message takes one
unit of time, t_max is two, there is no failure detector, and what is sent to a
crashed member counts too; on a ring the sender detects that and passes it by.
All begin as followers of the highest member.`,
		Example: `  batuta sim count --algorithm bully --nodes 9 --probe all --start 1 --crashed 9
  batuta sim count --algorithm bully --nodes 100 --crashed 100 --json`,
		Args: cobra.NoArgs,
	}
	f := cmd.Flags()
	f.StringVar(&c.Algorithm, "algorithm", "bully", "elect by algorithm `NAME`: "+strings.Join(counted(), ", "))
	f.IntVar(&c.Nodes, "nodes", 5, "`N` members, 1 to 10000")
	f.StringVar(&c.Option, "probe", "descending", "ask higher members in `MODE` all or descending [bully]")
	cli.ListVar(f, &start, "start", "`LIST` of the IDs that start, or all (default the lowest alive)")
	cli.ListVar(f, &crashed, "crashed", "`LIST` of the IDs that have crashed unnoticed")
	f.StringVar(&order, "order", "ascending", "order of the IDs on the ring, `MODE` ascending, descending or random")
	f.Uint64Var(&c.Seed, "seed", 1, "`N` that the random order comes from")
	cli.JSONFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := countFlags(c); err != nil {
			return err
		}
		maker, err := orderedMaker(c, order)
		if err != nil {
			return err
		}
		c.Start, c.Crashed = memberIDs(start, c), memberIDs(crashed, c)
		c.Start = slices.DeleteFunc(c.Start, func(id election.ID) bool {
			return len(start) == 1 && start[0] == "all" && slices.Contains(c.Crashed, id)
		})
		r, err := sim.Count(maker, c)
		if err != nil {
			return labError(err)
		}
		if asJSON {
			return json.NewEncoder(e.Stdout).Encode(map[string]any{
				"leader": r.Leader, "messages": r.Messages, "rounds": r.Rounds, "units": r.Units})
		}
		var b strings.Builder
		fmt.Fprintf(&b, "leader %s after %d units of time\n", r.Leader, r.Units)
		total := 0
		for _, kind := range slices.Sorted(maps.Keys(r.Messages)) {
			fmt.Fprintf(&b, "%-12s %d\n", strings.ToUpper(string(kind)), r.Messages[kind])
			total += r.Messages[kind]
		}
		fmt.Fprintf(&b, "%-12s %d\n", "in all", total)
		_, err = io.WriteString(e.Stdout, b.String())
		return err
	}
	return cmd
}

// countFlags names the flag that has a wrong value.
func countFlags(c sim.CountConfig) error {
	if c.Algorithm == "quorum" {
		return cli.Usagef("--algorithm quorum: its elections need heartbeats and a disk, which this count leaves out; use %s", strings.Join(counted(), ", "))
	}
	if c.Nodes < 1 || c.Nodes > scenario.MaxMembers {
		return cli.Usagef("--nodes %d: give 1 to %d", c.Nodes, scenario.MaxMembers)
	}
	return checkAlgorithm(c.Algorithm, c.Option)
}

// counted returns the names of the algorithms that sim count takes.
func counted() []string {
	return slices.DeleteFunc(algorithm.Names(), func(name string) bool { return name == "quorum" })
}

// orderedMaker makes rings of members in that order; the rest rank their members themselves.
func orderedMaker(c sim.CountConfig, order string) (scenario.Maker, error) {
	if !slices.Contains([]string{"ascending", "descending", "random"}, order) {
		return nil, cli.Usagef("--order %q: use ascending, descending or random", order)
	}
	ids := memberIDs([]string{"all"}, c)
	switch order {
	case "descending":
		slices.Reverse(ids)
	case "random":
		rand.New(rand.NewPCG(c.Seed, c.Seed)).Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	}
	return func(name, probe string) (func() election.Algorithm, error) {
		switch name {
		case "ring":
			return func() election.Algorithm { return ring.New(ring.WithOrder(ids)) }, nil
		case "chang-roberts":
			return func() election.Algorithm { return ring.NewChangRoberts(ring.WithOrder(ids)) }, nil
		}
		return algorithm.Maker(name, probe)
	}, nil
}

// memberIDs reads a list of ids; "all" is everyone.
func memberIDs(list []string, c sim.CountConfig) (ids []election.ID) {
	if len(list) == 1 && list[0] == "all" {
		for i := range c.Nodes {
			ids = append(ids, election.ID(fmt.Sprint(i+1)))
		}
		return ids
	}
	for _, s := range list {
		ids = append(ids, election.ID(s))
	}
	return ids
}

type simRun struct {
	cli.Env
	trace, json          bool
	svg, mermaid, shiviz string
}

func newSimRunCommand(e cli.Env) *cobra.Command {
	r := &simRun{Env: e}
	cmd := &cobra.Command{
		Use:   "run FILE…",
		Short: "Play scenario files",
		Long: `run plays each scenario and compares its trace with the one in the file, if it
holds one. It ends with exit code 1 at the first broken rule, expectation or
trace. FILE - is standard input. The pictures are of the last scenario.

A file names the members, then line by line what happens and what must follow.
Links are 1-3 for both ways and 1>3 for one; # begins a comment.

` + scenario.Help(),
		Example: `  printf 'members 1 2 3\nagree\ncrash 3\nagree\nexpect leader 2\n' | batuta sim run - --trace
  batuta sim run election/bully/testdata/*.txt
  batuta sim run election/bully/testdata/leader_crash.txt --trace --svg election.svg`,
		Args: cli.Several("FILE", "election/bully/testdata/leader_crash.txt"),
	}
	f := cmd.Flags()
	f.BoolVar(&r.trace, "trace", false, "print the trace")
	f.StringVar(&r.svg, "svg", "", "draw a space-time diagram into `FILE`")
	f.StringVar(&r.mermaid, "mermaid", "", "write a Mermaid sequence diagram into `FILE`")
	f.StringVar(&r.shiviz, "shiviz", "", "write a ShiViz log into `FILE`")
	cli.JSONFlag(cmd, &r.json)
	cmd.RunE = func(cmd *cobra.Command, files []string) error {
		for _, file := range files {
			if err := r.play(cmd, file); err != nil {
				return labError(err)
			}
		}
		return nil
	}
	return cmd
}

// played is a line of --json.
type played struct {
	File     string   `json:"file"`
	OK       bool     `json:"ok"`
	Failure  string   `json:"failure,omitempty"`
	Leader   string   `json:"leader,omitempty"`
	Seconds  float64  `json:"simulated_seconds"`
	AgreedMS float64  `json:"longest_agreement_ms"`
	Trace    []string `json:"trace,omitempty"`
}

// lineOf returns the number of the first line of a script that has a name of the list first; 1: none has.
func lineOf(text string, names ...string) int {
	for i, line := range strings.Split(text, "\n") {
		if first := strings.Fields(line); len(first) > 0 && slices.Contains(names, first[0]) {
			return i + 1
		}
	}
	return 1
}

func (r *simRun) play(cmd *cobra.Command, file string) error {
	text, err := readScript(cmd, file)
	if err != nil {
		return err
	}
	s, err := scenario.Parse(file, text)
	if err != nil {
		return err
	}
	if _, err := algorithm.Maker(s.Setup.Algorithm, s.Setup.Option); err != nil {
		return fmt.Errorf("%s:%d:1: %w", file, lineOf(text, "algorithm", "option", "probe"), err)
	}
	log := trace.Log{Messages: s.Messages}
	var story trace.Story
	outcome, failure := sim.Play(s, algorithm.Maker, func(e trace.Entry) {
		log.Add(e)
		story.Add(e)
	})
	if failure == nil && s.Golden != "" {
		if d := trace.Differs(s.Golden, log.Text()); d != "" {
			failure = cli.Exit(cli.Failed, fmt.Errorf("%s: %s", file, d))
		}
	}
	if err := r.print(file, outcome, &log, failure); err != nil {
		return err
	}
	if err := r.draw(s, &story); err != nil {
		return err
	}
	return failure
}

func readScript(cmd *cobra.Command, file string) (string, error) {
	if file == "-" {
		var b strings.Builder
		_, err := io.Copy(&b, cmd.InOrStdin())
		return b.String(), err
	}
	text, err := os.ReadFile(file)
	return string(text), cli.Unread(err)
}

func (r *simRun) print(file string, o sim.Outcome, log *trace.Log, failure error) error {
	if r.json {
		p := played{File: file, OK: failure == nil, Leader: string(o.Leader), Seconds: o.Elapsed.Seconds(),
			AgreedMS: o.Agreed.Seconds() * 1000}
		if failure != nil {
			p.Failure = failure.Error()
		}
		if r.trace {
			p.Trace = log.Lines
		}
		return json.NewEncoder(r.Stdout).Encode(p)
	}
	text := ""
	if r.trace {
		text = log.Text()
	}
	if failure == nil {
		text += fmt.Sprintf("ok    %s  (%v simulated)\n", file, o.Elapsed)
	} else {
		text += fmt.Sprintf("FAIL  %s\n", file)
	}
	_, err := io.WriteString(r.Stdout, text)
	return err
}

func (r *simRun) draw(s *scenario.Scenario, story *trace.Story) error {
	for path, draw := range map[string]func() string{
		r.svg:     func() string { return story.SVG(s) },
		r.mermaid: func() string { return story.Mermaid(s) },
		r.shiviz:  func() string { return story.ShiViz(s) },
	} {
		if path == "" {
			continue
		}
		if err := os.WriteFile(path, []byte(draw()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
