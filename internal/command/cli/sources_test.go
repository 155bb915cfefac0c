package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// A member that may not read the file of its machine is an error: it would found another cluster.
func TestAMemberDoesNotStartWithoutTheFileOfItsMachine(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads every file")
	}
	file := filepath.Join(t.TempDir(), "batuta.yaml")
	if err := os.WriteFile(file, []byte("member: 1=127.0.0.1:1\n"), 0); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (int, string) {
		var out bytes.Buffer
		cmd := &cobra.Command{Use: "agent", SilenceErrors: true, SilenceUsage: true}
		cmd.Flags().StringSlice("member", nil, "")
		cmd.Flags().String("config", "", "")
		cmd.RunE = func(cmd *cobra.Command, _ []string) error {
			return Sources{Lookup: func(string) (string, bool) { return "", false }, System: file}.Apply(cmd)
		}
		return Execute(context.Background(), cmd, args, &out), out.String()
	}
	if code, text := run(); code != Usage || !strings.HasSuffix(text, "read it, or start without it: --config ''\n") {
		t.Errorf("exit code %d: %s", code, text)
	}
	if code, text := run("--config", ""); code != Done {
		t.Errorf("--config '': exit code %d: %s", code, text)
	}
}

// An error about a flag names what the user has set: a variable, also by its earlier name, or the file.
func TestAnErrorNamesTheSourceOfTheValue(t *testing.T) {
	file := filepath.Join(t.TempDir(), "batuta.yaml")
	if err := os.WriteFile(file, []byte("agent: here\nagent-key: there\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) string {
		var out bytes.Buffer
		cmd := &cobra.Command{Use: "status", SilenceErrors: true, SilenceUsage: true}
		for _, flag := range []string{"agent", "agent-key", "config"} {
			cmd.Flags().String(flag, "", "")
		}
		cmd.Flags().String("key-file", "", "`FILE` with a key")
		Alias(cmd.Flags(), "agent", "http")
		cmd.RunE = func(cmd *cobra.Command, _ []string) error {
			if err := (Sources{Lookup: func(of string) (string, bool) { return map[string]string{name: "here"}[of], of == name }}).Apply(cmd); err != nil {
				return err
			}
			if cmd.Flags().Changed("key-file") {
				return Usagef("open here: no such file")
			}
			return Usagef("--agent: no address")
		}
		if code := Execute(context.Background(), cmd, args, &out); code != Usage {
			t.Errorf("exit code %d", code)
		}
		return out.String()
	}
	for _, test := range []struct {
		name string
		args []string
		want string
	}{
		{"BATUTA_AGENT", nil, "; --agent is set by BATUTA_AGENT"},
		{"BATUTA_HTTP", nil, "; --agent is set by BATUTA_HTTP"},
		{"BATUTA_AGENT_KEY", nil, ""}, // a longer name
		{"BATUTA_AGENT", []string{"--agent", "here"}, ""},
		{"", []string{"--config", file}, "; --agent is set by " + file},
		{"BATUTA_KEY_FILE", nil, "; --key-file is set by BATUTA_KEY_FILE"}, // its value is in the error
		{"", []string{"--key-file", "here"}, ""},
	} {
		text := "--agent: no address"
		if test.name == "BATUTA_KEY_FILE" || slices.Contains(test.args, "--key-file") {
			text = "open here: no such file"
		}
		if got, want := run(test.name, test.args...), "status: "+text+test.want+"\n"; got != want {
			t.Errorf("%s %v: %q, want %q", test.name, test.args, got, want)
		}
	}
}
