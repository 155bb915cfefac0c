package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/api/access"
	"github.com/batuta-dev/batuta/internal/core/named"
	"github.com/batuta-dev/batuta/internal/disk/datadir"
	"github.com/batuta-dev/batuta/internal/work/hooks"
	"github.com/batuta-dev/batuta/internal/work/schedule"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/net/netutil"
)

// Env is the world around a command, so that a test can replace it.
type Env struct {
	Stdout  io.Writer                   // events and answers
	Stderr  io.Writer                   // logs, errors and progress
	Lookup  func(string) (string, bool) // environment variables
	Environ func() []string             // all of them; nil: none
	Config  string                      // a file that commands which ask an agent read when there is no --config; "": none
	Agent   string                      // the address of the agent by default; "": none
	Confirm func(question string) bool  // asks the user; nil: there is no terminal

	Schedules func(string) (schedule.Schedule, error) // reads the schedule of a job; nil: batutacron.Parse
}

// What goes for an agent on this machine.
const (
	SystemConfig = "/etc/batuta.yaml" // where a package puts its settings
	DefaultHTTP  = "127.0.0.1:7500"   // of an agent without --http
)

// IsTerminal reports whether w is a terminal, or a different device of characters than /dev/null.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	null, _ := os.Stat(os.DevNull)
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && !os.SameFile(info, null)
}

// JSONFlag adds --json, which turns an answer into JSON. The result is whether that is to be in lines.
func JSONFlag(cmd *cobra.Command, v *bool) (lines *bool) {
	lines = new(bool)
	cmd.Flags().BoolVar(v, "json", false, "print JSON")
	cmd.Flags().FuncP("output", "o", "print in `MODE` text, json or jsonl, a line for each entry of a list; --json is json", func(mode string) error {
		*lines = mode == "jsonl"
		if *v = mode == "json" || *lines; !*v && mode != "text" {
			return errors.New("use text, json or jsonl")
		}
		return nil
	})
	return lines
}

// CheckElection refuses what cannot name an election; "" is the cluster's own.
func CheckElection(name string) error { return CheckName(cmp.Or(name, "default")) }

// CheckName refuses what cannot name an election or a job.
func CheckName(name string) error {
	if _, err := named.Name(name); err != nil {
		return Usagef("%w", err)
	}
	return nil
}

// Milliseconds is exact to the microsecond.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Interruptible gives a context that ends when the user wants the command to.
func Interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, Caught(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)...)
}

// Caught returns the signals that a process catches of those: without SIGHUP if its starter ignores that, as nohup
// does. It is called before any of them is caught.
func Caught(signals ...os.Signal) []os.Signal {
	if signal.Ignored(syscall.SIGHUP) {
		return slices.DeleteFunc(signals, func(s os.Signal) bool { return s == syscall.SIGHUP })
	}
	return signals
}

// Confirmed asks a question on out, and reports whether the line read from in is a yes.
func Confirmed(in io.Reader, out io.Writer, question string) bool {
	fmt.Fprintf(out, "%s [y/N] ", question)
	line, _ := bufio.NewReader(in).ReadString('\n') // no line is no answer
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}

// ListenAPI opens the listener of an HTTP API at http; nil: the API is off. If http is the default,
// not chosen, and a second process on this machine has its port, any free port is used.
func ListenAPI(http string, chosen bool) (net.Listener, error) {
	if http == "off" {
		return nil, nil
	}
	at, err := api.ParseAddress(http)
	if err != nil {
		return nil, Usagef("--http %w", err)
	}
	l, err := at.Listen()
	if errors.Is(err, syscall.EADDRINUSE) && !chosen {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if datadir.Failed(err) {
		return nil, Exit(Failed, fmt.Errorf("--http: %w", datadir.Remedy(err)))
	}
	if err != nil {
		return nil, Usagef("--http: %w; choose a free port, 0 for any, a path for unix:, or off", err)
	}
	return Bounded(l), nil
}

// Bounded has further TCP clients of l wait while it has [access.MaxConnections]. At a Unix socket
// [access.EachClient] bounds each user, and all together.
func Bounded(l net.Listener) net.Listener {
	if l.Addr().Network() == "unix" {
		return l // of which the API asks the user
	}
	return netutil.LimitListener(l, access.MaxConnections())
}

// Shown returns the address of l: HOST:PORT or unix:PATH; "" for nil.
func Shown(l net.Listener) string {
	switch {
	case l == nil:
		return ""
	case l.Addr().Network() == "unix":
		return "unix:" + l.Addr().String()
	}
	return l.Addr().String()
}

// CheckAddress refuses the value of a flag that is no HOST:PORT.
func CheckAddress(flag, addr string) error {
	if err := election.CheckListen(addr); err != nil {
		return Usagef("%s %q is not HOST:PORT with a port of 0 to 65535, such as 127.0.0.1:7400: %w", flag, addr, err)
	}
	return nil
}

// Member parses ID=HOST:PORT; what names it in errors.
func Member(what, item string) (id election.ID, addr string, err error) {
	name, addr, ok := strings.Cut(item, "=")
	if !ok {
		return "", "", Usagef("%s %q: write ID=HOST:PORT, such as 2=127.0.0.1:7402", what, item)
	}
	if id, err = election.ParseID(name); err != nil {
		return "", "", Usagef("%s %q: %w", what, item, err)
	}
	return id, addr, CheckAddress(what+" "+name, addr)
}

// Hooks are flags that name commands to run when something happens.
type Hooks struct {
	Timeout  time.Duration
	PodLabel bool // label the pod; see package podlabel
	flags    []string
	lines    map[string]*string
}

// Register adds a flag for each hook, given as its name and its help in turn, and their timeout.
func (h *Hooks) Register(fs *pflag.FlagSet, namesAndHelp ...string) {
	h.lines = map[string]*string{}
	for i := 0; i < len(namesAndHelp); i += 2 {
		name := namesAndHelp[i]
		h.flags = append(h.flags, name)
		h.lines[name] = fs.String(name, "", namesAndHelp[i+1])
	}
	fs.DurationVar(&h.Timeout, "hook-timeout", 10*time.Second, "kill a hook and its process group after `DURATION`")
}

// Check returns an error, before anything starts, if a hook cannot run.
func (h *Hooks) Check() error {
	if h.Timeout <= 0 {
		return Usagef("--hook-timeout %v: give a time above zero, such as 10s", h.Timeout)
	}
	for _, flag := range h.flags {
		if _, err := hooks.Command(*h.lines[flag]); err != nil {
			return Usagef("--%s %q: %w", flag, *h.lines[flag], err)
		}
	}
	return nil
}

// Words returns the arguments of a hook that Check accepted; nil: there is no such hook.
func (h *Hooks) Words(flag string) []string {
	words, _ := hooks.Words(*h.lines[flag])
	return words
}

// LeadHooks are the hooks of a process that takes part in an election.
type LeadHooks struct{ Hooks }

// Register adds the flags; their help names the kind of process.
func (h *LeadHooks) Register(fs *pflag.FlagSet, who string) {
	h.Hooks.Register(fs,
		"on-lead", "`COMMAND` to run when this "+who+" begins to lead, without a shell; BATUTA_ variables describe the event",
		"on-lose", "`COMMAND` to run when its leadership has ended, and at the start; after a resignation, before the next leads",
		"on-change", "`COMMAND` to run when any leadership begins or ends")
	fs.BoolVar(&h.PodLabel, "pod-label", false, "in Kubernetes, set this pod's label batuta.dev/role to leader while it leads, and to follower otherwise")
}

// Config returns the configuration for hooks that Check accepted.
func (h *LeadHooks) Config(log *slog.Logger) hooks.Config {
	return hooks.Config{OnLead: h.Words("on-lead"), OnLose: h.Words("on-lose"), OnChange: h.Words("on-change"), Timeout: h.Timeout, Logger: log}
}
