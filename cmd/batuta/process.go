package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/follow"
	"github.com/batuta-dev/batuta/internal/work/hooks"
	"github.com/spf13/cobra"
)

// process is an agent that runs as a child.
type process struct {
	cmd    *exec.Cmd
	stdout *bufio.Scanner
	stderr tail
	ended  chan struct{} // closed once it is gone and its output is read
}

// childLine is an event line of a member's process, or its end.
type childLine struct {
	member  *member
	process *process
	line    api.Line
	spread  spread // of a spreadEvent
	end     bool
}

// startProcess runs executable in dir (empty: here) with args, args[0] being the name it goes by.
func startProcess(executable, dir string, args []string) (*process, error) {
	p := &process{cmd: exec.Command(executable), ended: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Args = args
	// Variables are meant for the command that starts the members, and would make all of them the same.
	p.cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "BATUTA_") })
	p.cmd.SysProcAttr = hooks.ChildAttributes()
	p.cmd.Stderr = &p.stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.stdout = bufio.NewScanner(stdout)
	return p, p.cmd.Start()
}

// read sends the process's event lines to lines until it ends, or closing is
// closed, and then its end.
func (p *process) read(m *member, lines chan<- childLine, closing <-chan struct{}) {
	send := func(l childLine) {
		select {
		case lines <- l:
		case <-closing:
		}
	}
	for p.stdout.Scan() {
		l := childLine{member: m, process: p}
		if json.Unmarshal(p.stdout.Bytes(), &l.line) != nil {
			continue
		}
		if l.line.Event == spreadEvent {
			json.Unmarshal(p.stdout.Bytes(), &l.spread) // it is an object, as we have just seen
		}
		send(l)
	}
	p.cmd.Wait() // its exit code is of no interest: lastWords has the reason
	close(p.ended)
	send(childLine{member: m, process: p, end: true})
}

func (p *process) kill()       { p.cmd.Process.Kill() } // fails only if it has ended already
func (p *process) stop() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) cont() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// lastWords is the last line it logged, or how it ended.
func (p *process) lastWords() string {
	if last := p.stderr.last(); last != "" {
		return last
	}
	return p.cmd.ProcessState.String()
}

// tail keeps the last line written to it.
type tail struct {
	mu   sync.Mutex
	line []byte
}

// Write implements [io.Writer].
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := bytes.TrimRight(b, "\n")
	t.line = bytes.Clone(lines[bytes.LastIndexByte(lines, '\n')+1:])
	return len(b), nil
}

func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.line)
}

// newBenchMemberCommand is what "batuta bench elections" starts: an agent that is a candidate for
// many elections, and reports how many it sees led.
func newBenchMemberCommand(e cli.Env) *cobra.Command {
	var f agentFlags
	b := &benchMember{out: e.Stdout}
	cmd := &cobra.Command{
		Use:     "member",
		Short:   "Run a member of \"batuta bench elections\"",
		Example: "  (started by batuta bench elections)",
		Hidden:  true,
		Args:    cobra.NoArgs,
	}
	f.register(cmd.Flags())
	cmd.Flags().IntVar(&b.names, "names", 0, "`N` elections to be a candidate for")
	cmd.Flags().StringVar(&b.work, "work", "", "`DIR`: each leader appends its token to a file of its election's name there, when it begins and now and then")
	cmd.Flags().DurationVar(&b.every, "work-every", time.Second, "`DURATION` between two of those")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		b.tally = newTally(b.names)
		a := &agentRun{Env: e, flags: &f, cmd: cmd, beside: b.begin}
		return a.run(cmd.Context())
	}
	return cmd
}

// spreadEvent is the event of a line that is a [spread].
const spreadEvent = "spread"

// spread is what a member of the bench sees of the named elections.
type spread struct {
	Event   string            `json:"event"`
	ID      batuta.ID         `json:"id"`
	Led     int               `json:"led"`     // elections that have a leader
	Full    api.Stamp         `json:"full"`    // when all had a leader
	By      map[batuta.ID]int `json:"by"`      // how many each leads
	Working int               `json:"working"` // functions that this member runs as a leader
	Worked  api.Stamp         `json:"worked"`  // when the last of them began
}

// spreadEvery is how often a member sends what changes.
const spreadEvery = 20 * time.Millisecond

// benchMember is a candidate of elections in a process.
type benchMember struct {
	out   io.Writer
	names int
	work  string // empty: leaders do nothing
	every time.Duration
	node  *batuta.Node

	mu      sync.Mutex
	tally   *tally
	full    time.Time
	working int
	worked  time.Time
	telling bool // a line is due
}

// begin makes the agent a candidate for the elections, and watches all of them.
func (b *benchMember) begin(n *batuta.Node) {
	b.node = n
	go b.watch(n)
	elections := make([]*batuta.Election, b.names)
	for i := range elections {
		elections[i] = n.Election(shard + strconv.Itoa(i))
	}
	go n.LeadEach(context.Background(), elections, b.lead) // until the node ends
}

// lead is what a leader does here, until it loses leadership.
func (b *benchMember) lead(ctx context.Context, l batuta.Leadership) (err error) {
	b.note(func(now time.Time) { b.working, b.worked = b.working+1, now })
	if b.work == "" {
		<-ctx.Done()
	} else {
		err = b.keepAppending(ctx, l)
	}
	b.note(func(time.Time) { b.working-- })
	return err
}

// keepAppending writes this leadership's token behind the last, with the time at which
// it was last known to last.
func (b *benchMember) keepAppending(ctx context.Context, l batuta.Leadership) error {
	again := time.NewTicker(b.every)
	defer again.Stop()
	for ctx.Err() == nil {
		now := time.Now()
		if b.node.Election(l.Election).Leader().Token == l.Token {
			line := fmt.Sprintf("%d %s %d\n", l.Token.Epoch, l.Token.Leader.ID, now.UnixNano())
			if err := appendTo(filepath.Join(b.work, l.Election), line); err != nil {
				return err
			}
		}
		select {
		case <-again.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// appendTo writes behind what a file has. It is not kept open: thousands would be too many.
func appendTo(path, line string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(line)
	return errors.Join(err, file.Close())
}

// watch counts leaders. A reader that falls behind begins again.
func (b *benchMember) watch(n *batuta.Node) {
	b.note(func(time.Time) { b.tally = newTally(b.names) })
	for v, err := range follow.On(context.Background(), batuta.ErrBehind, n.Elections) {
		b.note(func(now time.Time) {
			if err != nil {
				b.tally = newTally(b.names)
				return
			}
			b.sees(v, now)
		})
	}
}

func (b *benchMember) sees(v batuta.View, now time.Time) {
	if b.tally.sees(v) && b.tally.led == b.names {
		b.full = now
	}
}

// shard is what the elections' names begin with; their numbers follow.
const shard = "shard-"

// tally counts the elections of each leader.
type tally struct {
	led     int
	by      map[batuta.ID]int
	leaders []batuta.ID // by number
}

func newTally(names int) *tally {
	return &tally{by: map[batuta.ID]int{}, leaders: make([]batuta.ID, names)}
}

// sees takes in a view, and reports whether its leader is new. Of the first
// views that a reader gets, some report the end of a leadership that it has not seen.
func (t *tally) sees(v batuta.View) (begins bool) {
	i, err := strconv.Atoi(strings.TrimPrefix(v.Election, shard))
	if err != nil || i < 0 || i >= len(t.leaders) {
		return false
	}
	was, is := t.leaders[i], v.Token.Leader.ID
	if was == is {
		return false
	}
	if t.leaders[i] = is; was != "" {
		t.led--
		if t.by[was]--; t.by[was] == 0 {
			delete(t.by, was)
		}
	}
	if is != "" {
		t.led++
		t.by[is]++
	}
	return is != ""
}

// note takes in a change, which is printed soon together with what else comes.
func (b *benchMember) note(change func(now time.Time)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(time.Now())
	if !b.telling {
		b.telling = true
		time.AfterFunc(spreadEvery, b.tell)
	}
}

func (b *benchMember) tell() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.telling = false
	line, err := json.Marshal(spread{spreadEvent, b.node.ID(), b.tally.led, api.Stamp{Time: b.full}, b.tally.by, b.working, api.Stamp{Time: b.worked}})
	if err == nil {
		b.out.Write(append(line, '\n')) // without a reader there is no bench
	}
}
