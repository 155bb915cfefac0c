package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersionCommand(e env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  batuta version --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return json.NewEncoder(e.stdout).Encode(map[string]string{
					"version": version(), "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH,
				})
			}
			_, err := io.WriteString(e.stdout, versionLine())
			return err
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// versionLine is what "batuta version" and "batuta --version" print.
func versionLine() string {
	return fmt.Sprintf("batuta %s, %s, %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// jsonFlag adds --json, which turns an answer into JSON.
func jsonFlag(cmd *cobra.Command, v *bool) {
	cmd.Flags().BoolVar(v, "json", false, "print JSON")
	cmd.Flags().FuncP("output", "o", "print in `MODE` text, json or jsonl; --json is json", func(mode string) error {
		if *v = mode == "json" || mode == "jsonl"; !*v && mode != "text" {
			return errors.New("use text, json or jsonl")
		}
		return nil
	})
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
