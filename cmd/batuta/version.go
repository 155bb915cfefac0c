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
	cmd.Flags().VarP((*outputMode)(v), "output", "o", "print in `MODE` text or json; --json is the latter")
}

// outputMode is a flag with a name where --json has none.
type outputMode bool

func (o *outputMode) Type() string { return "string" }

func (o *outputMode) String() string {
	if *o {
		return "json"
	}
	return "text"
}

// Set accepts jsonl, too: an answer or an event is a line.
func (o *outputMode) Set(mode string) error {
	if *o = mode == "json" || mode == "jsonl"; !*o && mode != "text" {
		return errors.New("use text or json")
	}
	return nil
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
