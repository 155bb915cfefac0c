package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/spf13/cobra"
)

func newVersionCommand(e cli.Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  batuta version --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return json.NewEncoder(e.Stdout).Encode(map[string]string{
					"version": version(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
				})
			}
			_, err := io.WriteString(e.Stdout, versionLine())
			return err
		},
	}
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

// versionLine is what "batuta version" and "batuta --version" print.
func versionLine() string {
	return fmt.Sprintf("batuta %s, %s, %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// release is the version of a package's build (-ldflags "-X main.release=…").
var release string

// version is that, or what the Go toolchain stamped into the binary.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "unknown"
	}
	return info.Main.Version
}

// profiles set the three times together.
var profiles = map[string]election.Timing{
	"lan":   {Heartbeat: election.DefaultHeartbeat, TMax: election.DefaultTMax, TProcess: election.DefaultTProcess}, // T = 600 ms
	"wan":   {Heartbeat: 300 * time.Millisecond, TMax: 500 * time.Millisecond, TProcess: time.Second},               // T = 2 s
	"sharp": {Heartbeat: 5 * time.Millisecond, TMax: 3 * time.Millisecond, TProcess: 17 * time.Millisecond},         // T = 23 ms
}

func profileNames() []string { return slices.Sorted(maps.Keys(profiles)) }

// applySources gives each flag that the command line leaves open its value, from a variable,
// the file, or --profile; system is the file for commands that ask an agent.
func applySources(cmd *cobra.Command, lookup func(string) (string, bool), system string) error {
	s := cli.Sources{Lookup: lookup, System: system, Takers: []string{"agent", "run", "vip"}}
	if err := s.Apply(cmd); err != nil {
		return err
	}
	return applyProfile(cmd)
}

// applyProfile gives the times that were not set otherwise those of --profile.
func applyProfile(cmd *cobra.Command) error {
	chosen := cmd.Flags().Lookup("profile")
	if chosen == nil || !chosen.Changed {
		return nil
	}
	name := chosen.Value.String()
	t, ok := profiles[name]
	if !ok {
		return cli.Usagef("--profile %q: use one of %s", name, strings.Join(profileNames(), ", "))
	}
	for flag, d := range map[string]time.Duration{"heartbeat": t.Heartbeat, "t-max": t.TMax, "t-process": t.TProcess} {
		if f := cmd.Flags().Lookup(flag); f != nil && !f.Changed {
			if err := f.Value.Set(d.String()); err != nil {
				return err
			}
			cli.MarkSourced(f, "profile "+name)
		}
	}
	return nil
}
