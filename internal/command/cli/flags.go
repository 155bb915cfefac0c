package cli

import (
	"log/slog"
	"strings"

	"github.com/batuta-dev/batuta/internal/api"
)

// This file names flags in the texts of the library, which has fields of a Config.

func init() { api.Worded = Flags }

var fieldFlags = strings.NewReplacer(
	"Config.Advertise to HOST:PORT", "--advertise HOST:PORT", "Config.Advertise", "--advertise",
	"Config.Bootstrap", "--bootstrap", "Config.Capacity", "--capacity", "Config.Expect", "--expect", "Config.Fraction", "--fraction",
	"Config.ID to ", "--id ", "Config.Join", "--join", "Config.Peers", "--member", "Config.Round", "--round",
	"Config.TMax", "--t-max", "Config.TProcess", "--t-process", "quorum.Drift", "--clock-drift",
	"a higher priority, or run every member with preempt=false", "a higher priority (batuta members add ID=HOST:PORT --priority N), or run every member with --no-preempt", "Config.MinMembers", "--min-members", "Config.Observer and Config.Witness", "--observer", "Config.Observer", "--observer", "Config.DataDir", "--data-dir")

// Flags is text with the flag for each field that it names.
func Flags(text string) string { return fieldFlags.Replace(text) }

// flagsIn does that for what is logged.
func flagsIn(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case string:
		a.Value = slog.StringValue(Flags(v))
	case error:
		a.Value = slog.StringValue(Flags(v.Error()))
	}
	return a
}
