package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/command/checking"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

func newConfigCommand(e cli.Env) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:     "config",
		Short:   "Check or print the configuration",
		Example: "  batuta config check --config /etc/batuta.yaml",
	}, newConfigCheckCommand(e), newConfigShowCommand(e))
}

// settings are all flags that a file may set for "batuta agent" and "batuta run".
type settings struct {
	agent agentFlags
	job   job
}

func (s *settings) register(fs *pflag.FlagSet) {
	s.agent.register(fs)
	s.job.register(fs)
	s.job.named.registerElections(fs)
}

func newConfigCheckCommand(e cli.Env) *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:   "check [agent flags]",
		Short: "Check whether an agent would start with it",
		Long: `check reads flags, environment and --config file as "batuta agent" and "batuta run" do,
and prints the first fault, with exit code 2. It opens no port and no directory. Without --config
the file is /etc/batuta.yaml, if it is there.`,
		Example: `  batuta config check --config /etc/batuta.yaml
  BATUTA_HEARTBEAT=1h batuta config check`,
		Args: cobra.NoArgs,
	}
	s.register(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		config, err := s.agent.config(slog.New(slog.DiscardHandler))
		if err = cmp.Or(err, s.validate(config, e)); err != nil {
			return err
		}
		_, err = fmt.Fprintln(e.Stdout, strings.TrimSuffix("the configuration is good: "+cli.SystemFile(cmd), ": "))
		return err
	}
	return cmd
}

func newCheckCommand(e cli.Env) *cobra.Command {
	var s settings
	var p checking.Plan
	cmd := &cobra.Command{
		Use:   "check [agent flags]",
		Short: "Ask every member, and find what is wrong",
		Long:  checking.Long,
		Example: `  batuta check --config /etc/batuta.yaml
  batuta check --config trial/1/batuta.yaml --json`,
		Args: cobra.NoArgs,
	}
	s.register(cmd.Flags())
	cmd.Flags().DurationVar(&p.Limit, "timeout", 2*time.Second, "wait for the answer of a member at most `DURATION`")
	cli.JSONFlag(cmd, &p.JSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if p.Limit < time.Millisecond || p.Limit > time.Minute {
			return cli.Usagef("--timeout %v: give 1ms to 1m, such as 2s", p.Limit)
		}
		config, err := s.agent.config(slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		p.Security = s.agent.security.options()
		config.Security = batuta.Security{} // a fault of its files is a finding
		if err := s.validate(config, e); err != nil {
			return err
		}
		p.Cluster, p.Election, p.Algorithm = config.Cluster, batuta.DefaultElection, config.Algorithm.Name()
		if id, err := election.ParseID(string(config.ID)); err == nil {
			p.ID = id
		}
		for _, m := range config.Peers {
			p.Members = append(p.Members, checking.Target{ID: m.ID, Addr: m.Addr})
		}
		p.Listen, p.Advertise, p.Join, p.Timing = config.Listen, config.Advertise, config.Join, s.agent.timing()
		p.DataDir, p.DialOnly = config.DataDir, config.Wire != nil
		return checking.Run(cmd.Context(), p, cli.Paint(e.Stdout, cli.IsTerminal(e.Stdout), e.Lookup))
	}
	return cmd
}

func (s *settings) validate(config batuta.Config, e cli.Env) error {
	if err := config.Validate(); err != nil {
		return cli.Exit(cli.Usage, err)
	}
	if err := s.job.checkFlags(&s.agent, e); err != nil || s.job.named.jobs == "" || s.job.named.elections == "" {
		return err
	}
	s.job.named.jobs, s.job.named.finish, s.job.planned.missed = "", 0, "run" // the agent's is still to be read
	return s.job.checkFlags(&s.agent, e)
}

func newConfigShowCommand(e cli.Env) *cobra.Command {
	var s settings
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show [agent flags]",
		Short: "Show every setting, and where it comes from, as a configuration file",
		Example: `  batuta config show --config /etc/batuta.yaml
  batuta config show --cluster payments > /etc/batuta.yaml`,
		Args: cobra.NoArgs,
	}
	s.register(cmd.Flags())
	cli.JSONFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		_ = s.agent.wire.defaults(&s.agent) // its faults are for "config check"
		var own pflag.FlagSet
		new(settings).register(&own)
		doc := yaml.Node{Kind: yaml.MappingNode}
		if file := cli.SystemFile(cmd); file != "" {
			doc.HeadComment = "read from " + file
		}
		values := map[string]any{}
		own.VisitAll(func(f *pflag.Flag) {
			f = cmd.Flags().Lookup(f.Name)
			key, value := yaml.Node{Kind: yaml.ScalarNode, Value: f.Name}, yaml.Node{}
			values[f.Name] = shown(f)
			if cli.NeverEmpty(f) && f.Value.String() == "" {
				return // there is no line for it to be read back from
			}
			if value.Encode(values[f.Name]) == nil { // text and lists of it always can be
				value.LineComment = source(f)
				doc.Content = append(doc.Content, &key, &value)
			}
		})
		if asJSON {
			return json.NewEncoder(e.Stdout).Encode(values)
		}
		text, err := yaml.Marshal(&doc)
		if err != nil {
			return err
		}
		_, err = e.Stdout.Write(text)
		return err
	}
	return cmd
}

// shown is a flag's value; no flag has a secret, only names of files.
func shown(f *pflag.Flag) any {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return list.GetSlice()
	}
	return f.Value.String()
}

// source is where a flag's value comes from.
func source(f *pflag.Flag) string {
	if from := cli.SourceOf(f); from != "" {
		return from
	}
	if f.Changed {
		return "flag"
	}
	return "default"
}
