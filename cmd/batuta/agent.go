package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutaprom/exposition"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/api/access"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/command/podlabel"
	"github.com/batuta-dev/batuta/internal/command/resident"
	"github.com/batuta-dev/batuta/internal/core/attest"
	"github.com/batuta-dev/batuta/internal/follow"
	"github.com/batuta-dev/batuta/internal/work/jobs"
	"github.com/batuta-dev/batuta/internal/work/systemd"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// partingTime is how long an agent takes at most to hand over and close.
const partingTime = 10 * time.Second

// The text of "batuta agent --help".
const agentLong = `agent runs one member of a cluster until SIGTERM or SIGINT. Then it resigns, another member is
elected, and it ends with exit code 0; with --leave it is removed from the member list too. A
member that is removed ends with exit code 1. Events go to standard output, logs to standard
error. SIGHUP reads log-level again from the --config file, and the files of secrets,
certificates, tokens and elections.

Without --config the file is /etc/batuta.yaml, if it is there and neither --id nor --listen
is given: with one of these the member is another than this machine's. --config '' reads none.

Give all members the same --member list: then only its members, and those of batuta members add,
take part. Or start one member without a list, and each other with --join and the address of any
running member. With both, members of the list start the cluster and further ones join it.

With --algorithm quorum each member needs a --data-dir of its own. With the same --member list,
each waits at its first start until it has reached more than half of the others. Or one member
starts without a list, and the others --join it. Later starts may keep the flags of the first.

With --elections-file FILE the agent is a candidate for each named election in FILE, one per
line, and leads its share of them. A command after a name runs while this member leads that
election, as with "batuta run". Its output goes to standard error, with the name before each
line. If it ends with exit code 0, it is started again after a pause.`

func newAgentCommand(e cli.Env) *cobra.Command {
	var f agentFlags
	var j job
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run a cluster member",
		Long:  agentLong,
		Example: `  # three members on one machine, in three terminals
  batuta agent --id 1 --listen 127.0.0.1:7401 --http 127.0.0.1:7501 \
    --member 2=127.0.0.1:7402 --member 3=127.0.0.1:7403
  batuta agent --id 2 --listen 127.0.0.1:7402 --http 127.0.0.1:7502 \
    --member 1=127.0.0.1:7401 --member 3=127.0.0.1:7403
  batuta agent --id 3 --listen 127.0.0.1:7403 --http 127.0.0.1:7503 \
    --member 1=127.0.0.1:7401 --member 2=127.0.0.1:7402

  # a cluster that starts with one member, and grows
  batuta agent --id 1 --listen 127.0.0.1:7401
  batuta agent --id 2 --listen 127.0.0.1:7402 --join 127.0.0.1:7401

  # a quorum that grows from one; five members survive any two deaths
  batuta agent --algorithm quorum --id 1 --listen 10.0.0.1:7400 --data-dir /var/lib/batuta
  batuta agent --algorithm quorum --id 2 --listen 10.0.0.2:7400 --data-dir /var/lib/batuta \
    --join 10.0.0.1:7400

  # a member that does not lead while its service is unhealthy
  batuta agent --config /etc/batuta.yaml --check 'curl -fsS http://127.0.0.1:8080/healthz'

  # a candidate for each of a thousand elections, with a worker for each that it leads
  seq -f 'shard-%g ./worker {election}' 1000 > elections.txt
  batuta agent --config /etc/batuta.yaml --elections-file elections.txt

  # from a file, events for a program
  batuta agent --config /etc/batuta.yaml --events json`,
		Args: cobra.NoArgs,
	}
	f.register(cmd.Flags())
	j.registerAgent(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := j.checkFlags(&f, e); err != nil {
			return err
		}
		a := &agentRun{Env: e, flags: &f, cmd: cmd}
		if j.file != nil {
			a.job = &j
		}
		return a.run(cmd.Context())
	}
	return cmd
}

// newWitnessCommand is an agent of a quorum that never leads.
func newWitnessCommand(e cli.Env) *cobra.Command {
	var f agentFlags
	cmd := &cobra.Command{
		Use:   "witness",
		Short: "Vote in a quorum, and never lead",
		Long: `witness runs a member of a quorum that votes and never leads: two machines and a witness on
a small third have one leader while any two of the three are up. It is a member in
everything else: the others name it by --member, or it joins with --join; its own list
may be theirs.

It stores its votes and the member list, some 300 KiB. One process serves one cluster; run
another for each further one, such as by the unit batuta-witness@NAME.`,
		Example: `  # two machines and a witness, the same list on all three; on the machines, id 1 and 2:
  batuta agent --algorithm quorum --id 1 --listen 10.0.0.1:7400 --data-dir /var/lib/batuta \
    --member 1=10.0.0.1:7400 --member 2=10.0.0.2:7400 --member 3=10.0.0.3:7400
  # on the third; without the list it joins by --join 10.0.0.1:7400
  batuta witness --id 3 --listen 10.0.0.3:7400 --data-dir /var/lib/batuta \
    --member 1=10.0.0.1:7400 --member 2=10.0.0.2:7400 --member 3=10.0.0.3:7400`,
		Args: cobra.NoArgs,
	}
	f.registerWitness(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return (&agentRun{Env: e, flags: &f, cmd: cmd}).run(cmd.Context())
	}
	return cmd
}

// agentRun is an agent process.
type agentRun struct {
	cli.Env
	flags *agentFlags
	cmd   *cobra.Command
	log   *slog.Logger
	node  *batuta.Node
	pod   *podlabel.Pod // nil: it has no label

	guard   attest.Guard   // of the command; nil: none runs for as long as this member leads
	address string         // of the HTTP API; empty: it is off
	tokens  *access.Tokens // nil: it needs none

	told  iter.Seq2[batuta.Event, error] // all that the node has seen since it began; nil: it is not printed
	named iter.Seq2[batuta.View, error]  // the same of the many elections
	fit   reports                        // on the member's health
	job   *job                           // what "batuta run" runs; nil: nothing
	book  *jobs.Book                     // what is known of jobs

	begun   map[string]string  // the settings of the --config file at the start
	leaving time.Time          // when the signal that ends it came; zero: none has
	beside  func(*batuta.Node) // is called once the node runs; may be nil
}

func (a *agentRun) run(ctx context.Context) error {
	if a.job != nil && a.flags.membership.observer {
		return cli.Usagef("--observer: an observer never leads, and would never run its command; leave --observer out, or start: batuta agent")
	}
	// Signals are caught before anything is announced: a reader of "ready" may
	// send a signal at once. SIGPIPE is caught so that losing the reader of its events
	// does not cost the cluster a member.
	signals := make(chan os.Signal, 4)
	a.job.catch(signals)
	defer signal.Stop(signals)

	var err error
	if a.log, err = a.flags.output.Open(a.Stderr); err != nil {
		return err
	}
	defer a.flags.output.Close()
	if file := cli.SystemFile(a.cmd); file != "" {
		a.log.Info("settings are read from the file of this machine; --config '' leaves it out", "file", file)
	}
	config, err := a.flags.config(a.flags.output.WithoutEvents())
	if err != nil {
		return err
	}
	_, a.begun, _ = a.readFile() // an error is for a reload to report: these flags are checked
	if a.flags.hooks.PodLabel {
		if a.pod, err = podlabel.Own(a.flags.cluster, a.Lookup, a.log); err != nil {
			return err
		}
	}
	a.flags.security.warn(a)
	operating, err := cli.ListenAPI(a.flags.http, a.cmd.Flags().Changed("http"))
	if err != nil {
		return err
	}
	health, err := a.flags.security.listenHealth()
	if err != nil {
		return err
	}
	if err := a.job.prepare(a); err != nil {
		return err
	}
	defer a.job.close()
	guarded, err := a.guardBy(config.Algorithm)
	if err != nil {
		return err
	}
	defer guarded()
	// While its command is not tried it is unhealthy, which is the reason to give. As a last resort it would lead all
	// the same: then it stands by the work that runs, as a service does.
	config.StandAlways = a.job != nil && !config.LeadUnhealthy
	began := time.Now() // "ready" comes before the events of the start
	if err := a.start(ctx, config); err != nil {
		return err
	}
	ended, err := a.serveHTTP(operating, health)
	if err != nil {
		return errors.Join(err, a.node.Close())
	}
	return a.serve(began, ended, signals)
}

// start starts the node. Its events are taken up before it takes part: none that
// happens until they are printed is missed.
func (a *agentRun) start(ctx context.Context, config batuta.Config) (err error) {
	if a.node, err = batuta.New(config); errors.Is(err, batuta.ErrConfig) {
		return cli.Exit(cli.Usage, err)
	} else if err != nil {
		return err
	}
	a.watch(a.node)
	a.fit.node = a.node
	a.book = a.job.book()
	a.book.Begin(a.node, config.Meta)
	go a.node.Run(ctx) // wait sees its end
	return nil
}

// serveHTTP answers on the listeners that there are, until what it gives is called.
func (a *agentRun) serveHTTP(operating, health net.Listener) (end func(context.Context), err error) {
	var ends []func(context.Context)
	var server *api.Server // nil: the API is off
	if operating != nil {
		f := &a.flags.security
		secured, err := f.serving(a.flags.cluster, string(a.node.ID()), a.flags.http)
		if err != nil {
			return nil, cli.Exit(cli.Usage, err)
		}
		if f.httpTokens != "" {
			if a.tokens, err = access.Load(f.httpTokens); err != nil {
				return nil, cli.Exit(cli.Usage, err)
			}
		}
		a.address = cli.Shown(operating)
		server = api.NewServer(byClients{jobs.Node{Node: a.node, Book: a.book}, &a.fit}, a.address, version(), a.log, apiNames(a.flags.httpHosts, a.flags.http, a.flags.security.httpAdvertise)...)
		server.Authorize(a.tokens)
		server.Expose(exposition.Handler)
		server.Reserve(a.job.has)
		server.Jobs(a.book)
		if health != nil {
			server.HealthElsewhere()
		}
		members, err := f.membership(a.flags.cluster, string(a.node.ID()))
		if err != nil {
			return nil, cli.Exit(cli.Usage, err)
		}
		if members != nil {
			server.Gather(members)
		}
		if secured != nil {
			config := secured.Config()
			if members != nil {
				members.Recognize(config)
			}
			operating = tls.NewListener(operating, config)
			server.Certified(func() batuta.CertificateLife { return batuta.CertificateLife(secured.Span()) })
		}
		go server.Serve(operating)
		ends = append(ends, server.Close)
	}
	if health != nil {
		checks := api.NewHealthServer(a.node, version(), a.log, server, exposition.Handler)
		go func() {
			if err := checks.Serve(health); err != nil {
				a.log.Error("health checks are not answered any more", "error", err)
			}
		}()
		ends = append(ends, checks.Close)
	}
	return func(ctx context.Context) {
		for _, f := range ends {
			f(ctx)
		}
	}, nil
}

// serve runs the started node until a signal or its own end.
func (a *agentRun) serve(began time.Time, endHTTP func(context.Context), signals <-chan os.Signal) error {
	printed := make(chan struct{})
	lasts, ends := context.WithCancel(context.Background())
	defer ends()
	go func() {
		defer close(printed)
		status, _ := a.node.Status(context.Background())
		a.printEvents(lasts, api.Ready(began, status, a.address))
	}()

	defer resident.Keep(a.log)()
	a.job.start(a.node, a.log)
	if a.beside != nil {
		a.beside(a.node)
	}
	hooked := a.flags.hooks.follow(a.node, a.pod, !a.job.reports(), a.log)
	manager := tellManager(a)
	err := a.wait(signals)
	manager.Stopping() // one that has ended needs no notice; its watchdog is served until the end

	ctx, cancel := context.WithTimeout(context.Background(), partingTime+a.job.parting()+a.flags.hooks.parting())
	defer cancel()
	if parting := a.close(ctx, signals); err == nil {
		err = parting
	}
	endHTTP(ctx)
	ends()
	select {
	case <-printed:
	case <-ctx.Done(): // our events have no reader
	}
	<-hooked
	return err
}

// wait returns when a signal ends the agent (nil), or the node ends by itself.
func (a *agentRun) wait(signals <-chan os.Signal) error {
	for {
		select {
		case err := <-a.job.ended():
			if err != nil { // the node has ended under it
				<-a.node.Done()
				return a.ended()
			}
			return nil
		case s := <-signals:
			if a.job.pass(s) {
				continue
			}
			switch s {
			case syscall.SIGPIPE:
			case syscall.SIGHUP:
				a.reload()
			default:
				a.leaving = time.Now()
				a.log.Info("this member leaves", "signal", s.String())
				a.job.stop(s)
				return nil
			}
		case <-a.node.Done():
			return a.ended()
		}
	}
}

// ended gives the reason why the node has ended by itself.
func (a *agentRun) ended() error {
	if err := a.node.Err(); errors.Is(err, batuta.ErrConfig) {
		return cli.Exit(cli.Usage, err)
	} else if errors.Is(err, batuta.ErrRemoved) {
		then := fmt.Sprintf("to add it, ask another agent: batuta members add %s=HOST:PORT", a.node.ID())
		if a.flags.algorithm == "quorum" {
			then = "to bring it back, empty its data directory, and start it with --join in place of --member"
		}
		return fmt.Errorf("%w; %s", batuta.ErrRemoved, then)
	} else if err != nil {
		return fmt.Errorf("member %s has ended: %w", a.node.ID(), err)
	}
	return fmt.Errorf("member %s has ended", a.node.ID())
}

// sameSignal is for how long a second signal counts as the first: GNU timeout sends
// SIGTERM to its child, and to its whole process group right after.
const sameSignal = time.Second

// close hands over and stops the node; a second signal cuts it short.
func (a *agentRun) close(ctx context.Context, signals <-chan os.Signal) error {
	closed := make(chan error, 1)
	end := a.node.Shutdown
	if a.flags.membership.leave {
		end = a.node.Leave
	}
	if a.leaving.IsZero() {
		a.leaving = time.Now()
	}
	go func() { closed <- end(context.WithoutCancel(ctx)) }()
	for {
		select {
		case err := <-closed:
			return err
		case s := <-signals:
			switch {
			case s != os.Interrupt && s != syscall.SIGTERM:
			case time.Since(a.leaving) < sameSignal: // a signal that came twice
			case a.job.kill(): // leadership is given away as soon as nothing runs
			default:
				return errors.New("signalled twice: ended without handing over")
			}
		case <-ctx.Done():
			return errors.New("could not hand over in time; ended without")
		}
	}
}

// reload takes over what can change while the member runs: the log level, and what the
// files of secrets, certificates and tokens hold.
func (a *agentRun) reload() {
	level, settings, err := a.readFile()
	if err != nil {
		a.log.Error("reload failed: all settings and files are used as they were read before; fix the --config file and send SIGHUP again", "error", err)
		return
	}
	a.flags.output.SetLevel(level)
	ctx, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	if err := errors.Join(a.node.Reload(ctx), a.tokens.Reload(), a.job.reload()); err != nil {
		a.log.Error("reload failed in part: a file with an error is used as it was read before, but a line of --http-token-file with an error permits nothing; fix it and send SIGHUP again", "error", err)
		return
	}
	a.log.Info("settings and files are reloaded", "log-level", level.String())
	if changed := differing(a.begun, settings); a.begun != nil && len(changed) > 0 {
		a.log.Warn("the --config file has changes that need a restart: this process goes on with the settings of its start", "settings", strings.Join(changed, ","))
	}
}

// differing returns the keys, in order, that two files have with different values, or one of them
// does not have.
func differing(before, now map[string]string) (keys []string) {
	for key := range now {
		if _, there := before[key]; !there {
			keys = append(keys, key)
		}
	}
	for key, value := range before {
		if text, there := now[key]; !there || text != value {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// readFile returns the log level of the --config file as it is now, which may have keys of any
// command that reads it, and the other settings of a member that the file decides.
func (a *agentRun) readFile() (level slog.Level, settings map[string]string, err error) {
	cmd, _, err := newRootCommand(a.Env).Find(strings.Fields(a.cmd.CommandPath())[1:])
	if err = cmp.Or(err, cmd.ParseFlags([]string{"--config=" + a.cmd.Flags().Lookup("config").Value.String()})); err != nil {
		return 0, nil, err
	}
	if old := a.cmd.Flags().Lookup("log-level"); old.Changed && cli.SourceOf(old) == "" {
		err = cmd.Flags().Set("log-level", old.Value.String())
	}
	if err = errors.Join(err, applySources(cmd, a.Lookup, "")); err != nil {
		return 0, nil, err
	}
	settings = map[string]string{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		started := a.cmd.Flags().Lookup(f.Name)
		reads := started != nil && (!started.Changed || cli.SourceOf(started) != "")
		if cli.SourceOf(f) == "file" && f.Name != "log-level" && reads {
			settings[f.Name] = f.Value.String()
		}
	})
	level, err = cli.Level(cmd.Flags().Lookup("log-level").Value.String())
	return level, settings, err
}

// This file prints what an agent sees, as --events has it.

// watch subscribes to the events that are printed, and no more: the rest would be
// kept for its reader.
func (a *agentRun) watch(n *batuta.Node) {
	if a.flags.output.Events == "off" {
		return
	}
	a.told = n.Events(context.Background())
	if a.job.shows() != nil {
		a.named = n.Elections(context.Background())
	}
}

// printEvents prints until the node ends, or the reader is gone; while ctx lasts also after a failure to
// write. A reader that was too far behind receives that, then the present state, then what follows.
func (a *agentRun) printEvents(ctx context.Context, ready api.Line) {
	if a.told == nil {
		return
	}
	write := (&api.Text{Short: cli.IsTerminal(a.Stdout)}).Write
	if a.flags.output.Events == "json" {
		write = api.Line.WriteJSON
	}
	out := follow.Lines(a.Stdout)
	var mu sync.Mutex // two goroutines print
	print := func(l api.Line) error {
		mu.Lock()
		defer mu.Unlock()
		return write(l, out)
	}
	print(ready) // if that fails, so do the events
	if a.flags.output.Events == "text" && cli.IsTerminal(a.Stdout) {
		fmt.Fprint(a.Stderr, a.nextSteps(ready))
	}
	var named sync.WaitGroup
	defer named.Wait()
	if shows := a.job.shows(); shows != nil {
		named.Go(func() {
			follow.Print(ctx, a.log, batuta.ErrBehind, follow.From(a.named, a.node.Elections), func(v batuta.View, err error) error {
				if err != nil {
					return print(api.BehindLine(a.node.ID(), time.Now(), ""))
				}
				if l, ok := api.NamedLine(a.node.ID(), v); ok && shows(v.Election) {
					return print(l)
				}
				return nil
			})
		})
	}
	follow.Print(ctx, a.log, batuta.ErrBehind, follow.From(a.told, a.node.Events), func(ev batuta.Event, err error) error {
		if err != nil {
			return print(api.BehindLine(a.node.ID(), time.Now(), a.node.Leader().Election))
		}
		return print(api.EventLine(a.node.ID(), ev))
	})
}

// nextSteps is what a person at a terminal may want to do with the agent that is ready.
func (a *agentRun) nextSteps(ready api.Line) (text string) {
	f := a.flags
	known, _ := a.node.Status(context.Background()) // its disk may know of others
	if len(f.members)+len(f.membership.join)+f.membership.expect == 0 && len(known.Members) == 1 && f.wire.name == "batuta" {
		text = "A cluster of one. Others join with: batuta agent --join " + cmp.Or(ready.Advertise, ready.Listen)
		if api.Loopback(ready.Listen) {
			text += " --listen 127.0.0.1:0" // this port is taken on this machine
		}
		for _, given := range [][2]string{{"cluster", f.cluster}, {"algorithm", f.algorithm}, {"secret-file", f.security.secretFile}} {
			if a.cmd.Flags().Changed(given[0]) {
				text += " --" + given[0] + " " + given[1]
			}
		}
		text += "\n"
	}
	if a.address != "" && !strings.HasPrefix(a.address, "unix:") {
		scheme := "http"
		if f.security.servesTLS(f.http) {
			scheme = "https"
		}
		text += fmt.Sprintf("Dashboard: %s://%s   Ask it: batuta status --agent %[2]s\n", scheme, a.address)
	}
	return text
}

// manager is a service manager that receives the state of the agent.
type manager struct{ *systemd.Notifier }

// tellManager notifies the service manager, if there is one, that the agent is ready,
// and from then on of the leader and that the node does its work.
func tellManager(a *agentRun) *manager {
	notifier, err := systemd.Open(a.Lookup, os.Getpid())
	if err != nil {
		a.log.Warn("the service manager is not notified", "error", err)
	}
	m := &manager{notifier}
	if notifier == nil {
		return m
	}
	if err := m.Ready(); err != nil {
		a.log.Warn("the service manager is not notified", "error", err)
	}
	go m.tellViews(a.node)
	if m.Beat() > 0 {
		go m.tellAlive(a.node)
	}
	return m
}

// tellViews keeps the line up to date that "systemctl status" shows.
func (m *manager) tellViews(node *batuta.Node) {
	for v, err := range node.Watch(context.Background()) {
		switch {
		case err != nil:
			go m.tellViews(node) // from the present on
		case !v.Defined():
			m.Status("no leader is known")
		case v.Token.Leader.ID == node.ID():
			m.Status(fmt.Sprintf("leading, epoch %d", v.Token.Epoch))
		default:
			m.Status(fmt.Sprintf("following %s, epoch %d", v.Token.Leader.ID, v.Token.Epoch))
		}
	}
}

// tellAlive feeds the manager's watchdog for as long as the node's loop turns.
func (m *manager) tellAlive(node *batuta.Node) {
	beat := time.NewTicker(m.Beat())
	defer beat.Stop()
	for {
		select {
		case <-node.Done():
			return
		case <-beat.C:
		}
		node.Status(context.Background()) // comes back from the loop
		m.Alive()
	}
}
