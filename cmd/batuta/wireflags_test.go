package main

import (
	"log/slog"
	"testing"

	"github.com/spf13/pflag"
)

// The newcomer of "Scrapper" follows the boss that it finds; so does batuta's beside it.
func TestPreemptionIsOffOnTheBossWireUnlessGiven(t *testing.T) {
	for _, c := range []struct {
		args []string
		want bool
	}{
		{[]string{"--insecure", "--wire", "boss", "--node-type", "scrapper", "--id", "172.18.0.5"}, true},
		{[]string{"--insecure", "--wire", "boss", "--node-type", "scrapper", "--id", "172.18.0.5", "--preempt"}, false},
		{[]string{"--insecure", "--wire", "boss", "--node-type", "scrapper", "--id", "172.18.0.5", "--preempt=false"}, true},
		{nil, false},
	} {
		var f agentFlags
		fs := pflag.NewFlagSet("agent", pflag.ContinueOnError)
		f.register(fs)
		if err := fs.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		config, err := f.config(slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if config.Wire != nil {
			config = config.Wire.Defaults(config)
		}
		if config.NoPreempt != c.want {
			t.Errorf("%v: no preemption %v, want %v", c.args, config.NoPreempt, c.want)
		}
	}
}
