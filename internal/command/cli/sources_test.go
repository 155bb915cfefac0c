package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
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
