package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

// answer is the output of status with --json.
type answer struct {
	Election  string  `json:"election"`
	Algorithm string  `json:"algorithm"`
	Leader    *string `json:"leader"`
	Epoch     uint64  `json:"epoch"`
	Token     *string `json:"token"`
	Address   string  `json:"address"`
	Batuta    bool    `json:"batuta"` // whether the leader is a candidate of batuta's
	LeaseMS   int64   `json:"lease_ms"`
}

const askingLong = `The record that the engine keeps does not show whether its holder is alive. So it is
watched until it is renewed, mostly for less than a sixth of the lease. After the whole
lease without a renewal there is no leader.`

func newStatusCommand(e env) *cobra.Command {
	var asJSON bool
	cmd := newAskingCommand(&cobra.Command{
		Use:     "status",
		Short:   "Show who leads (exit code 3 if there is no leader)",
		Long:    "status asks the engine itself, not a candidate.\n\n" + askingLong,
		Example: "  batuta-engine status --etcd 127.0.0.1:2379 --election db",
	}, func(_ context.Context, f *engineFlags, name string, r engines.Record) error {
		a := answer{Election: f.election, Algorithm: name, Epoch: r.Epoch, Batuta: r.Process != "", LeaseMS: r.Lasts.Milliseconds()}
		if r.ID != "" {
			id, token := string(r.ID), fmt.Sprintf("%d:%s", r.Epoch, r.ID)
			a.Leader, a.Token, a.Address = &id, &token, r.Address
		}
		if asJSON {
			return json.NewEncoder(e.stdout).Encode(a)
		}
		if a.Leader == nil {
			return nil // the error reports it
		}
		_, err := fmt.Fprintf(e.stdout, "election  %s, on %s\nleader    %s, epoch %d\naddress   %s\nlease     %v\n",
			election.Shown(f.election), name, election.Shown(*a.Leader), a.Epoch, election.Shown(cmp.Or(a.Address, "none published (--advertise)")), r.Lasts)
		return err
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func newLeaderCommand(e env) *cobra.Command {
	return newAskingCommand(&cobra.Command{
		Use:     "leader",
		Short:   "Print the leader's id; exit code 3 when there is none",
		Long:    "leader asks the engine itself, not a candidate.\n\n" + askingLong,
		Example: "  batuta-engine leader --etcd 127.0.0.1:2379 --election db",
	}, func(_ context.Context, _ *engineFlags, _ string, r engines.Record) error {
		if r.ID == "" {
			return nil
		}
		_, err := fmt.Fprintln(e.stdout, election.Shown(string(r.ID)))
		return err
	})
}

// newAskingCommand makes a command that prints the record.
func newAskingCommand(cmd *cobra.Command, say func(ctx context.Context, f *engineFlags, name string, r engines.Record) error) *cobra.Command {
	var f engineFlags
	cmd.Args = cobra.NoArgs
	f.register(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		engine, err := f.open()
		if err != nil {
			return err
		}
		defer engine.Close()
		r, err := confirmed(ctx, engine)
		if errors.Is(err, engines.ErrDenied) || errors.Is(err, engines.ErrDamaged) {
			return err
		}
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no reply within %v", askTime)
		}
		if err != nil {
			return fmt.Errorf("%s does not answer: %w; check the server, and the address in --%s", engine.Name(), err, engine.Name())
		}
		if err := say(ctx, &f, engine.Name(), r); err != nil || r.ID != "" {
			return err
		}
		return cli.Exit(cli.NoLeader, fmt.Errorf("election %q has no leader", f.election))
	}
	return cmd
}

// askTime is how long the engine may take to answer.
const askTime = 5 * time.Second

// confirmed returns the record once it was renewed while this process watched, or when it has no holder.
func confirmed(ctx context.Context, engine engines.Engine) (engines.Record, error) {
	look := func() (engines.Record, error) {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		return engine.Look(ctx)
	}
	first, err := look()
	if err != nil || first.ID == "" {
		return first, err
	}
	for began := time.Now(); time.Since(began) < first.Lasts; {
		pause, cancel := context.WithTimeout(ctx, first.Lasts/20)
		if engine.Changed(pause, first) != nil {
			<-pause.Done()
		}
		cancel()
		if ctx.Err() != nil {
			return engines.Record{}, errors.New("interrupted")
		}
		if now, err := look(); err != nil || now.Version != first.Version {
			return now, err
		}
	}
	return engines.Record{Epoch: first.Epoch}, nil
}

func newWatchCommand(e env) *cobra.Command {
	var f engineFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "watch",
		Short:   "Print the leader, and each change, until interrupted",
		Long:    "watch asks the engine itself, and is not a candidate.",
		Example: "  batuta-engine watch --etcd 127.0.0.1:2379 --json | jq .leader",
		Args:    cobra.NoArgs,
	}
	f.register(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object per line")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		engine, err := f.open()
		if err != nil {
			return err
		}
		if err := admitted(ctx, func(ctx context.Context) error { _, err := engine.Look(ctx); return err }); err != nil {
			engine.Close()
			return err
		}
		watcher, err := engines.Start(ctx, engine, engines.Config{ID: election.ID(uuid.NewString()), Election: f.election, Logger: slog.New(slog.NewTextHandler(e.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))})
		if err != nil {
			engine.Close()
			return err
		}
		defer watcher.Close()
		form := "text"
		if asJSON {
			form = "json"
		}
		for ev, err := range watcher.Events(ctx) {
			if err == nil {
				err = writeLine(e.stdout, form, api.EventLine(watcher.ID(), ev))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}
