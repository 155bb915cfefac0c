package main

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/batuta-dev/batuta/election"
)

// profiles set the three times together.
var profiles = map[string]election.Timing{
	"lan":   {Heartbeat: election.DefaultHeartbeat, TMax: election.DefaultTMax, TProcess: election.DefaultTProcess}, // T = 600 ms
	"wan":   {Heartbeat: 300 * time.Millisecond, TMax: 500 * time.Millisecond, TProcess: time.Second},               // T = 2 s
	"sharp": {Heartbeat: 3 * time.Millisecond, TMax: 3 * time.Millisecond, TProcess: 15 * time.Millisecond},         // T = 21 ms
}

func profileNames() []string { return slices.Sorted(maps.Keys(profiles)) }

// applyProfile gives the times that were not set otherwise those of --profile.
func applyProfile(cmd *cobra.Command) error {
	chosen := cmd.Flags().Lookup("profile")
	if chosen == nil || !chosen.Changed {
		return nil
	}
	name := chosen.Value.String()
	t, ok := profiles[name]
	if !ok {
		return usagef("--profile %q: use one of %s", name, strings.Join(profileNames(), ", "))
	}
	for flag, d := range map[string]time.Duration{"heartbeat": t.Heartbeat, "t-max": t.TMax, "t-process": t.TProcess} {
		if f := cmd.Flags().Lookup(flag); f != nil && !f.Changed {
			if err := f.Value.Set(d.String()); err != nil {
				return err
			}
			markSourced(f, "profile "+name)
		}
	}
	return nil
}
