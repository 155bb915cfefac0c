package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/algorithm"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/testkit/freeport"
	"github.com/spf13/cobra"
)

// agreeWithin is how long a cluster may take to agree before it counts as broken.
const agreeWithin = 20 * time.Second

// cluster is a set of agents that run as child processes on loopback, seen
// through the event lines they print. Its methods belong to a single goroutine.
type cluster struct {
	executable string
	command    []string // that each member is; see [cluster.start] for its flags
	flags      []string // of every agent
	dataDir    string   // theirs are below it, and go with the cluster; empty: they save nothing
	members    []*member
	lines      chan childLine
	closing    chan struct{} // closed: lines have no reader any more
	pipe       chan os.Signal

	since time.Time // see mark
	claim time.Time // the first claim after since; zero: none yet
}

// member is a place in the cluster and the process that fills it now.
type member struct {
	id, listen string
	process    *process  // nil: none runs
	frozen     bool      // stopped by SIGSTOP
	http       string    // address of its API, once it is ready
	ready      time.Time // when it was
	advertise  string    // the published address, from its event ready

	leader string // in its view; empty: it knows none
	epoch  uint64
	at     time.Time  // when it came to this view
	events []api.Line // since the last mark
	spread spread     // what it sees of the named elections
}

// newCluster prepares n members with the ids 1 to n; nothing runs yet. flags are
// added to every agent's.
func newCluster(n int, flags ...string) (*cluster, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find this program to start members: %w", err)
	}
	ports, err := freeport.Find(n)
	if err != nil {
		return nil, err
	}
	// Without a handler SIGPIPE would end this process before close, when its output is read no longer.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	// The kernel ends a child when the thread that started it ends: stay on one until close.
	runtime.LockOSThread()
	c := &cluster{executable: executable, command: []string{"agent"}, flags: flags, lines: make(chan childLine, 64), closing: make(chan struct{}), pipe: pipe}
	for i, port := range ports {
		c.members = append(c.members, &member{
			id: strconv.Itoa(i + 1), listen: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		})
	}
	return c, nil
}

// startAll starts every member.
func (c *cluster) startAll() error {
	for _, m := range c.members {
		if err := c.start(m); err != nil {
			return err
		}
	}
	return nil
}

// start runs an agent in m's place.
func (c *cluster) start(m *member) error {
	args := append(append([]string{"batuta"}, c.command...),
		"--id", m.id, "--listen", m.listen,
		"--events", "json", "--log-level", "warn", "--http", "127.0.0.1:0")
	for _, other := range c.members {
		args = append(args, "--member", other.id+"="+other.listen)
	}
	if c.dataDir != "" {
		args = append(args, "--data-dir", filepath.Join(c.dataDir, m.id))
	}
	p, err := startProcess(c.executable, "", append(args, c.flags...))
	if err != nil {
		return fmt.Errorf("start member %s: %w", m.id, err)
	}
	m.process, m.frozen = p, false
	m.leader, m.epoch, m.http, m.spread = "", 0, "", spread{}
	go p.read(m, c.lines, c.closing)
	return nil
}

// crash kills m as kill -9 does, and returns the time. It returns once m is gone.
func (c *cluster) crash(m *member) (time.Time, error) {
	p := m.process
	m.process = nil
	at := c.mark()
	p.kill()
	for {
		select {
		case <-p.ended:
			return at, nil
		case l := <-c.lines:
			if err := c.take(l); err != nil {
				return at, err
			}
		}
	}
}

// freeze stops m as kill -STOP does, and returns the time.
func (c *cluster) freeze(m *member) (time.Time, error) {
	m.frozen = true
	at := c.mark()
	return at, m.process.stop()
}

// mark gives the time: claims and events are counted from here.
func (c *cluster) mark() time.Time {
	c.since, c.claim = time.Now(), time.Time{}
	for _, m := range c.members {
		m.events = nil
	}
	return c.since
}

// thaw lets m run on.
func (c *cluster) thaw(m *member) error {
	m.frozen = false
	return m.process.cont()
}

// connect returns a client of m with an open connection: the time of a request has no dialing in it.
func (m *member) connect(ctx context.Context) (*api.Client, error) {
	client, err := api.NewClient(m.http, api.Access{})
	if err != nil {
		return nil, err
	}
	return client, client.Get(ctx, "/healthz", nil)
}

// resign has m step down, and returns the time of the request.
func (c *cluster) resign(ctx context.Context, m *member) (time.Time, error) {
	client, err := m.connect(ctx)
	if err != nil {
		return time.Time{}, err
	}
	at := c.mark()
	return at, client.Call(ctx, "POST", "/v1/resign", nil, nil)
}

// close ends every process and waits for it. The cluster is of no use then.
func (c *cluster) close() {
	close(c.closing)
	for _, m := range c.members {
		if m.process != nil {
			m.process.kill()
		}
	}
	for _, m := range c.members {
		if m.process != nil {
			<-m.process.ended
			m.process = nil
		}
	}
	if c.dataDir != "" {
		os.RemoveAll(c.dataDir)
	}
	signal.Stop(c.pipe)
	runtime.UnlockOSThread() // else the thread ends with this goroutine, and with it the processes that were started on it
}

// agreement is what all running members report together.
type agreement struct {
	leader *member
	epoch  uint64
	first  time.Time // the first claim since [cluster.mark]; zero: no member has claimed
	all    time.Time // when the last of them reported it
	voices int       // how many they are
}

// await returns once all running members name the same leader, which runs too, under an epoch
// of minEpoch at least; the leader of that name, if it is not empty.
func (c *cluster) await(ctx context.Context, minEpoch uint64, leader string) (agreement, error) {
	return c.awaitLeader(ctx, minEpoch, func(m *member) bool { return leader == "" || m.id == leader })
}

// awaitLeader is await for a leader that fits.
func (c *cluster) awaitLeader(ctx context.Context, minEpoch uint64, fits func(*member) bool) (agreement, error) {
	var a agreement
	err := c.until(ctx, agreeWithin, func() (ok bool) {
		a, ok = c.agreed()
		return ok && a.epoch >= minEpoch && fits(a.leader)
	})
	if errors.Is(err, errInVain) {
		err = fmt.Errorf("no agreement within %v: %s", agreeWithin, c.views())
	}
	return a, err
}

// errInVain is the error of [cluster.until] when its time is over.
var errInVain = errors.New("waited in vain")

// until takes in what the members print until it is as wanted.
func (c *cluster) until(ctx context.Context, within time.Duration, wanted func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, errInVain)
	defer cancel()
	for !wanted() {
		select {
		case l := <-c.lines:
			if err := c.take(l); err != nil {
				return err
			}
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) {
				return errors.New("interrupted")
			}
			return context.Cause(ctx)
		}
	}
	return nil
}

func (c *cluster) agreed() (agreement, bool) {
	var a agreement
	for _, m := range c.members {
		if m.process == nil || m.frozen {
			continue
		}
		switch {
		case m.leader == "" || m.http == "":
			return agreement{}, false
		case a.voices == 0:
			a.leader, a.epoch = c.find(m.leader), m.epoch
		case m.leader != a.leader.id || m.epoch != a.epoch:
			return agreement{}, false
		}
		if a.leader.process == nil || a.leader.frozen { // the others learn of that yet
			return agreement{}, false
		}
		a.voices++
		if m.at.After(a.all) {
			a.all = m.at
		}
	}
	a.first = c.claim
	return a, a.voices > 0
}

// claims gives the members that have begun to lead since [cluster.mark], in the order of
// their epochs.
func (c *cluster) claims() (leaders []string) {
	var begun []api.Line
	for _, m := range c.members {
		for _, l := range m.events {
			if l.Event == "leader" && l.Leader == m.id && l.Time.After(c.since) {
				begun = append(begun, l)
			}
		}
	}
	slices.SortFunc(begun, func(a, b api.Line) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), a.Time.Compare(b.Time.Time))
	})
	for _, l := range begun {
		leaders = append(leaders, l.Leader)
	}
	return leaders
}

func (c *cluster) find(id string) *member {
	for _, m := range c.members {
		if m.id == id {
			return m
		}
	}
	return nil
}

// views returns the view of each running member, for an error.
func (c *cluster) views() string {
	var said []string
	for _, m := range c.members {
		switch {
		case m.process == nil || m.frozen:
		case m.leader == "":
			said = append(said, m.id+" knows no leader")
		default:
			said = append(said, fmt.Sprintf("%s follows %s of epoch %d", m.id, m.leader, m.epoch))
		}
	}
	return strings.Join(said, ", ")
}

// settle takes in events for d.
func (c *cluster) settle(ctx context.Context, d time.Duration) error {
	quiet := time.NewTimer(d)
	defer quiet.Stop()
	for {
		select {
		case l := <-c.lines:
			if err := c.take(l); err != nil {
				return err
			}
		case <-quiet.C:
			return nil
		case <-ctx.Done():
			return errors.New("interrupted")
		}
	}
}

// take brings what is known of a member up to date with a line of its process.
func (c *cluster) take(l childLine) error {
	m := l.member
	if l.process != m.process {
		return nil // of a process that has been killed since
	}
	if l.end {
		m.process = nil
		return fmt.Errorf("member %s has ended by itself: %s", m.id, l.process.lastWords())
	}
	if err := m.checkOrder(l.line); err != nil {
		return err
	}
	if l.line.Event != spreadEvent {
		m.events = append(m.events, l.line)
	}
	switch l.line.Event {
	case "ready":
		m.http, m.advertise, m.ready = l.line.HTTP, l.line.Advertise, l.line.Time.Time
	case "leader":
		m.leader, m.epoch, m.at = l.line.Leader, l.line.Epoch, l.line.Time.Time
		if m.leader == m.id && m.at.After(c.since) && (c.claim.IsZero() || m.at.Before(c.claim)) {
			c.claim = m.at
		}
	case "renewed":
		m.epoch = l.line.Epoch
	case "lost":
		m.leader, m.epoch = "", l.line.Epoch
	case spreadEvent:
		m.spread = l.spread
	}
	return nil
}

// checkOrder holds each line to what is promised of all: epochs never decrease,
// and a leadership is lost before the next begins.
func (m *member) checkOrder(l api.Line) error {
	switch {
	case l.Event != "leader" && l.Event != "lost" && l.Event != "renewed":
		return nil
	case l.Epoch < m.epoch:
		return fmt.Errorf("member %s reports epoch %d after epoch %d", m.id, l.Epoch, m.epoch)
	case l.Event == "leader" && m.leader != "":
		return fmt.Errorf("member %s follows %s of epoch %d without having lost %s of epoch %d", m.id, l.Leader, l.Epoch, m.leader, m.epoch)
	case m.epoch == 0: // its first view may be that a leadership has ended
	case l.Event == "lost" && (l.Leader != m.leader || l.Epoch != m.epoch):
		return fmt.Errorf("member %s has lost %s of epoch %d, which it did not follow", m.id, l.Leader, l.Epoch)
	}
	return nil
}

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
	unread  error     // of the first line that could not be printed
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
		err := d.take(ctx, round, step)
		for leadsNoMore(err) {
			err = d.take(ctx, round, step)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// take waits for a leader that all agree on, and takes a step.
func (d *demo) take(ctx context.Context, round int, step func(context.Context, int) error) error {
	if err := d.cluster.settle(ctx, pause); err != nil {
		return err
	}
	var err error
	if d.now, err = d.cluster.await(ctx, d.now.epoch, ""); err != nil {
		return err
	}
	return step(ctx, round)
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
	return d.unread
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
	return d.unread
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
		_, err := fmt.Fprintf(d.Stdout, format, args...)
		d.unread = cmp.Or(d.unread, err)
	}
}
