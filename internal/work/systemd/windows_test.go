package systemd

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A build of the command for Windows fails by this name and nothing else.
func TestWindowsIsRefusedByName(t *testing.T) {
	build := exec.Command("go", "build", ".") // of the command it is the first to fail, and the only one
	build.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	text, err := build.CombinedOutput()
	if err == nil || strings.Count(string(text), ".go:") != 1 || !strings.Contains(string(text), "undefined: the_batuta_command_does_not_run_on_Windows_use_WSL") {
		t.Errorf("%v\n%s", err, text)
	}
}
