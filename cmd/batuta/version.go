package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/batuta-dev/batuta/internal/command/cli"
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
