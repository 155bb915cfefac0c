package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/batuta-dev/batuta/internal/command/algorithm"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

// pause lets a reader follow, and the cluster come to rest, between two steps.
const pause = 250 * time.Millisecond

func newDemoCommand(e cli.Env) *cobra.Command {
	d := &demo{Env: e}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch five local members elect, lose and replace a leader",
		Long: `demo starts members as child processes on loopback ports. In each round it kills
the leader (kill -9), waits for the next, brings the killed one back, and has
the leader resign. It prints each step and its time, and leaves nothing behind.`,
		Example: `  batuta demo
  batuta demo --nodes 9 --rounds 1 --json`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().IntVar(&d.nodes, "nodes", 5, "`N` members, 2 to 50")
	cmd.Flags().StringVar(&d.algorithm, "algorithm", "bully", algorithm.Usage())
	cmd.Flags().IntVar(&d.rounds, "rounds", 3, "`N` rounds, 1 to 1000")
	cli.JSONFlag(cmd, &d.json)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := checkLab(d.algorithm, d.nodes, d.rounds); err != nil {
			return err
		}
		ctx, stop := cli.Interruptible(cmd.Context())
		defer stop()
		return d.run(ctx)
	}
	return cmd
}

// checkLab checks what demo and bench have in common.
func checkLab(algorithm string, nodes, rounds int) error {
	if nodes < 2 || nodes > 50 {
		return cli.Usagef("--nodes %d: give 2 to 50", nodes)
	}
	if rounds < 1 || rounds > 1000 {
		return cli.Usagef("--rounds %d: give 1 to 1000", rounds)
	}
	_, err := newAlgorithm(algorithm, "descending")
	return err
}

// demo is a run of the command.
type demo struct {
	cli.Env
	nodes, rounds int
	algorithm     string
	json          bool

	began   time.Time
	cluster *cluster
	now     agreement // what the members last agreed on
	steps   []demoStep
}

// demoStep is what was done, and what came of it.
type demoStep struct {
	Round  int     `json:"round"`  // 0: the start
	Step   string  `json:"step"`   // start, crash, return or resign
	Member string  `json:"member"` // the member to which it happened; empty at the start
	At     float64 `json:"at_ms"`  // when, after the start
	Leader string  `json:"leader"` // the leader of all running members afterward
	Epoch  uint64  `json:"epoch"`
	Agree  int     `json:"agree"` // how many they are
	Took   float64 `json:"ms"`    // from the step to the last of them naming it
}

func (d *demo) run(ctx context.Context) error {
	var err error
	if d.cluster, err = newCluster(d.nodes, "--algorithm", d.algorithm); err != nil {
		return err
	}
	defer d.cluster.close()
	if d.algorithm == "quorum" {
		if d.cluster.dataDir, err = os.MkdirTemp("", "batuta-demo-"); err != nil {
			return fmt.Errorf("make the members' data directories: %w", err)
		}
	}
	d.began = time.Now()
	d.say("%d members on loopback, algorithm %s, each a process of its own\n", d.nodes, d.algorithm)
	if err := d.start(ctx); err != nil {
		return err
	}
	for round := range d.rounds {
		if err := d.round(ctx, round+1); err != nil {
			return fmt.Errorf("round %d: %w", round+1, err)
		}
	}
	return d.conclude()
}

func (d *demo) start(ctx context.Context) error {
	d.tell(d.began, "start", "members 1 to %d", d.nodes)
	if err := d.cluster.startAll(); err != nil {
		return err
	}
	return d.outcome(ctx, demoStep{Step: "start"}, d.began, 1, d.nodes-1)
}

func (d *demo) round(ctx context.Context, round int) error {
	d.say("\nround %d\n", round)
	for _, step := range []func(context.Context, int) error{d.crash, d.comeBack, d.resign} {
		if err := d.cluster.settle(ctx, pause); err != nil {
			return err
		}
		var err error
		if d.now, err = d.cluster.await(ctx, d.now.epoch, ""); err != nil {
			return err
		}
		if err := step(ctx, round); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) crash(ctx context.Context, round int) error {
	victim := d.now.leader
	pid := victim.process.cmd.Process.Pid
	at, err := d.cluster.crash(victim)
	if err != nil {
		return err
	}
	d.tell(at, "kill -9", "%s, the leader (process %d)", victim.id, pid)
	return d.outcome(ctx, demoStep{Round: round, Step: "crash", Member: victim.id}, at, d.now.epoch+1, 0)
}

// comeBack starts the member that is down again; it takes over if it outranks the leader.
func (d *demo) comeBack(ctx context.Context, round int) error {
	i := slices.IndexFunc(d.cluster.members, func(m *member) bool { return m.process == nil })
	back := d.cluster.members[i]
	lowest, epoch := 0, d.now.epoch
	if i > slices.Index(d.cluster.members, d.now.leader) {
		lowest, epoch = i, epoch+1
	}
	at := d.cluster.mark()
	d.tell(at, "return", "%s starts again", back.id)
	if err := d.cluster.start(back); err != nil {
		return err
	}
	return d.outcome(ctx, demoStep{Round: round, Step: "return", Member: back.id}, at, epoch, lowest)
}

func (d *demo) resign(ctx context.Context, round int) error {
	leader := d.now.leader
	at, err := d.cluster.resign(ctx, leader)
	if err != nil {
		return err
	}
	d.tell(at, "resign", "%s steps down", leader.id)
	return d.outcome(ctx, demoStep{Round: round, Step: "resign", Member: leader.id}, at, d.now.epoch+1, 0)
}

// outcome waits for all to agree after a step that was taken at at, and reports it. The leader is
// the member at index lowest, or above it: that may have resigned and lead again.
func (d *demo) outcome(ctx context.Context, s demoStep, at time.Time, epoch uint64, lowest int) error {
	var err error
	if d.now, err = d.cluster.awaitLeader(ctx, epoch, func(m *member) bool { return slices.Index(d.cluster.members, m) >= lowest }); err != nil {
		return err
	}
	s.At = cli.Milliseconds(at.Sub(d.began))
	s.Leader, s.Epoch, s.Agree = d.now.leader.id, d.now.epoch, d.now.voices
	s.Took = cli.Milliseconds(d.now.all.Sub(at))
	d.steps = append(d.steps, s)
	d.tell(d.now.all, "", "%s leads, epoch %d: all %d agree %.1f ms later", s.Leader, s.Epoch, s.Agree, s.Took)
	return nil
}

// conclude ends the story with the figures of all rounds.
func (d *demo) conclude() error {
	if d.json {
		return json.NewEncoder(d.Stdout).Encode(map[string]any{
			"algorithm": d.algorithm, "nodes": d.nodes, "rounds": d.rounds, "steps": d.steps,
		})
	}
	d.say("\nto all agreeing, median of %d: kill -9 %.1f ms, resign %.1f ms\n"+
		"Next: batuta lab, in the browser; or members of your own: batuta agent, then batuta init --help\n",
		d.rounds, d.median("crash"), d.median("resign"))
	return nil
}

func (d *demo) median(step string) float64 {
	var took []float64
	for _, s := range d.steps {
		if s.Step == step {
			took = append(took, s.Took)
		}
	}
	return summarize(took).Median
}

func (d *demo) tell(at time.Time, what, format string, args ...any) {
	d.say("%9.4f s  %-8s  %s\n", at.Sub(d.began).Seconds(), what, fmt.Sprintf(format, args...))
}

// say prints a line of the demonstration, unless the output is JSON.
func (d *demo) say(format string, args ...any) {
	if !d.json {
		fmt.Fprintf(d.Stdout, format, args...)
	}
}
