package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/batuta-dev/batuta/internal/command/schedule"
	"github.com/batuta-dev/batuta/internal/core/named"
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

	Schedules func(string) (schedule.Schedule, error) // reads the schedule of a job; nil: [schedule.Parse]
}

// What goes for an agent on this machine.
const (
	SystemConfig = "/etc/batuta.yaml" // where a package puts its settings
	DefaultHTTP  = "127.0.0.1:7500"   // of an agent without --http
)

// IsTerminal reports whether w is a terminal, or a different device of characters.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// JSONFlag adds --json, which turns an answer into JSON.
func JSONFlag(cmd *cobra.Command, v *bool) {
	cmd.Flags().BoolVar(v, "json", false, "print JSON")
	cmd.Flags().FuncP("output", "o", "print in `MODE` text, json or jsonl; --json is json", func(mode string) error {
		if *v = mode == "json" || mode == "jsonl"; !*v && mode != "text" {
			return errors.New("use text, json or jsonl")
		}
		return nil
	})
}

// CheckElection refuses what cannot name an election.
func CheckElection(name string) error {
	if name == "" {
		return nil
	}
	if _, err := named.Name(name); err != nil {
		return Usagef("%w", err)
	}
	return nil
}

// Milliseconds is exact to the microsecond.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Interruptible gives a context that ends when the user wants the command to.
func Interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
}

// Confirmed asks a question on out, and reports whether the line read from in is a yes.
func Confirmed(in io.Reader, out io.Writer, question string) bool {
	fmt.Fprintf(out, "%s [y/N] ", question)
	line, _ := bufio.NewReader(in).ReadString('\n') // no line is no answer
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}
