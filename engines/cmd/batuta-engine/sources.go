package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// applySources gives each flag that the command line leaves open its value from
// BATUTA_<FLAG>, else from the --config file.
func applySources(cmd *cobra.Command, lookup func(string) (string, bool)) error {
	_, underRun := lookup("BATUTA_TOKEN")
	var faults []error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" || underRun && (f.Name == "id" || f.Name == "election") {
			return // under run these tell a worker about its own leadership
		}
		name := "BATUTA_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if value, ok := lookup(name); ok && value != "" {
			if err := cmd.Flags().Set(f.Name, strings.Join(strings.Fields(value), separator(f))); err != nil {
				faults = append(faults, fmt.Errorf("%s=%q: %w", name, value, err))
			}
		}
	})
	if path, _ := cmd.Flags().GetString("config"); path != "" {
		faults = append(faults, applyFile(cmd, path))
	}
	if err := errors.Join(faults...); err != nil {
		return &exitError{exitUsage, err}
	}
	return nil
}

// separator joins the words of a variable: they are the values of a flag that is a list.
func separator(f *pflag.Flag) string {
	if _, list := f.Value.(pflag.SliceValue); list {
		return ","
	}
	return " "
}

func applyFile(cmd *cobra.Command, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("config file: %w", err)
	}
	var keys map[string]any
	if err := yaml.Unmarshal(text, &keys); err != nil {
		return fmt.Errorf("config file %s: want lines of 'flag: value': %w", path, err)
	}
	var faults []error
	for name, value := range keys {
		f := cmd.Flags().Lookup(name)
		switch {
		case name == "config" || name == "help":
			faults = append(faults, fmt.Errorf("%s: %s cannot stand in the file; give it on the command line", path, name))
		case f == nil && !known(cmd, name):
			faults = append(faults, fmt.Errorf("%s: %s: unknown key; the keys are the flags of '%s --help', without dashes", path, name, cmd.CommandPath()))
		case f == nil || f.Changed:
		default:
			if err := set(cmd, f, value); err != nil {
				faults = append(faults, fmt.Errorf("%s: %s: %w", path, name, err))
			}
		}
	}
	return errors.Join(faults...)
}

// known reports whether another command has that flag: one file serves all of them.
func known(cmd *cobra.Command, name string) bool {
	for _, c := range cmd.Root().Commands() {
		if c.Flags().Lookup(name) != nil {
			return true
		}
	}
	return false
}

func set(cmd *cobra.Command, f *pflag.Flag, value any) error {
	values, list := value.([]any)
	if !list {
		values = []any{value}
	}
	if _, takes := f.Value.(pflag.SliceValue); list && !takes {
		return errors.New("takes one value, not a list")
	}
	for _, v := range values {
		if err := cmd.Flags().Set(f.Name, fmt.Sprint(v)); err != nil {
			return fmt.Errorf("%v: %w", v, err)
		}
	}
	return nil
}
