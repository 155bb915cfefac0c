package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// applySources gives each flag of cmd that the command line leaves open its value
// from BATUTA_<FLAG>, else from the --config file; one that asks an agent, and is not told
// which, from system, if that can be read.
func applySources(cmd *cobra.Command, lookup func(string) (string, bool), system string) error {
	if err := applyEnv(cmd, lookup); err != nil {
		return err
	}
	path, _ := cmd.Flags().GetString("config")
	if path == "" && cmd.Annotations[asks] != "" && !cmd.Flags().Changed("http") && readable(system) {
		path = system // of the agent on this machine
	}
	if path != "" {
		if err := applyFile(cmd, path); err != nil {
			return err
		}
	}
	return applyProfile(cmd)
}

// readable reports whether there is such a file, for us.
func readable(path string) bool {
	f, err := os.Open(path)
	if err == nil {
		f.Close()
	}
	return err == nil
}

func applyEnv(cmd *cobra.Command, lookup func(string) (string, bool)) error {
	_, underRun := lookup("BATUTA_TOKEN")
	var faults []error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || isByHand(f) || f.Name == "help" {
			return
		}
		if underRun && (f.Name == "id" || f.Name == "election") {
			return // these tell a worker about its own leadership
		}
		name := variable(f.Name)
		value, ok := lookup(name)
		if !ok || value == "" {
			return
		}
		if m, pairs := f.Value.(*metaFlag); pairs {
			if err := m.Replace(strings.Fields(value)); err != nil {
				faults = append(faults, fmt.Errorf("%s=%q: %w", name, value, err))
			}
			markSourced(f, name)
			return
		}
		if _, list := f.Value.(pflag.SliceValue); list {
			value = strings.Join(strings.Fields(value), ",")
		}
		if err := f.Value.Set(value); err != nil {
			faults = append(faults, fmt.Errorf("%s=%q: %w", name, value, err))
		}
		markSourced(f, name)
	})
	if len(faults) > 0 {
		return &exitError{exitUsage, errors.Join(faults...)}
	}
	return nil
}

func applyFile(cmd *cobra.Command, path string) error {
	entries, err := readConfig(path)
	if err != nil {
		return &exitError{exitUsage, err}
	}
	var faults []error
	for _, e := range entries {
		if err := e.apply(cmd); err != nil {
			faults = append(faults, fmt.Errorf("%s:%d: %s: %w", path, e.line, e.name, err))
		}
	}
	if len(faults) > 0 {
		return &exitError{exitUsage, errors.Join(faults...)}
	}
	return nil
}

// entry is one key of the file, with its value or values.
type entry struct {
	name   string
	values []string
	line   int
}

func (e entry) apply(cmd *cobra.Command) error {
	f := cmd.Flags().Lookup(e.name)
	switch {
	case e.name == "help" || e.name == "config":
		return errors.New("cannot stand in the file; give it on the command line")
	case f != nil && isByHand(f):
		return nil
	case f == nil && agentFlag(cmd, e.name):
		return nil // one file serves a member and the commands that ask it
	case f == nil:
		return fmt.Errorf("unknown key%s; the keys are the flags of '%s --help', without dashes", didYouMean(e.name, flagNames(cmd)), cmd.CommandPath())
	case f.Changed:
		return nil // the command line or the environment wins
	}
	if _, list := f.Value.(pflag.SliceValue); !list && len(e.values) != 1 {
		return errors.New("takes one value, not a list")
	}
	for _, v := range e.values {
		if err := f.Value.Set(v); err != nil {
			return fmt.Errorf("%q: %w", v, err)
		}
	}
	markSourced(f, "file")
	return nil
}

// agentFlag reports whether name is a flag of "batuta agent", "batuta run" or
// "batuta vip".
func agentFlag(cmd *cobra.Command, name string) bool {
	for _, member := range []string{"run", "vip"} { // they take the agent's too
		if c, _, err := cmd.Root().Find([]string{member}); err == nil && c.Flags().Lookup(name) != nil {
			return true
		}
	}
	return false
}

// readConfig reads the YAML file at path: one mapping of flag names to values,
// or to lists of values.
func readConfig(path string) ([]entry, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("config file: %w", err)
	}
	defer f.Close()
	var doc yaml.Node
	if err := yaml.NewDecoder(f).Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil // empty, or nothing but comments
	} else if err != nil {
		return nil, fmt.Errorf("config file %s: %w", path, err)
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: want lines of 'flag: value'", path, root.Line)
	}
	seen := map[string]bool{}
	var entries []entry
	for i := 0; i < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if seen[key.Value] {
			return nil, fmt.Errorf("%s:%d: %s stands twice; keep one", path, key.Line, key.Value)
		}
		seen[key.Value] = true
		values, err := scalars(value)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %s: %w", path, value.Line, key.Value, err)
		}
		entries = append(entries, entry{key.Value, values, key.Line})
	}
	return entries, nil
}

func scalars(n *yaml.Node) ([]string, error) {
	switch n.Kind {
	case yaml.ScalarNode:
		return []string{n.Value}, nil
	case yaml.SequenceNode:
		var all []string
		for _, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				return nil, errors.New("want a list of plain values")
			}
			all = append(all, item.Value)
		}
		return all, nil
	}
	return nil, errors.New("want a plain value or a list of them")
}

// layered is the annotation of a flag whose value the command line did not give.
const layered = "batuta_layered"

// markSourced notes where the value has come from: a variable, or the file.
func markSourced(f *pflag.Flag, source string) {
	f.Changed = true
	f.Annotations = map[string][]string{layered: {source}}
}

// byHand is the annotation of a flag that neither a variable nor the file sets: a member's
// flag of that name means something else.
const byHand = "batuta_by_hand"

func isByHand(f *pflag.Flag) bool {
	_, hand := f.Annotations[byHand]
	return hand
}

// typed reports whether the command line gave the flag its value.
func typed(f *pflag.Flag) bool {
	_, below := f.Annotations[layered]
	return f.Changed && !below
}
