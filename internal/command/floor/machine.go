package floor

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// Machine is what figures were measured on; what the system does not report is empty.
type Machine struct {
	CPU    string  `json:"cpu"`
	Cores  int     `json:"cores"`
	Kernel string  `json:"kernel"`
	Go     string  `json:"go"`
	Commit string  `json:"commit"` // of this program; unknown: it was built without
	Load   float64 `json:"load"`   // the mean of the last minute
}

var commit string // of a release's build (-ldflags "-X …/floor.commit=…"), which has no stamp of the go command

// Here is this machine, with its load now.
func Here() Machine {
	read := func(file, from, to string) string {
		content, _ := os.ReadFile(file)
		_, s, _ := strings.Cut(string(content), from)
		s, _, _ = strings.Cut(s, to)
		return strings.TrimSpace(s)
	}
	m := Machine{CPU: read("/proc/cpuinfo", "model name\t:", "\n"), Cores: runtime.NumCPU(),
		Kernel: runtime.GOOS + " " + read("/proc/sys/kernel/osrelease", "", "\n"), Go: runtime.Version()}
	m.Load, _ = strconv.ParseFloat(read("/proc/loadavg", "", " "), 64)
	info, _ := debug.ReadBuildInfo() // nil: built without modules
	_, revision, _ := strings.Cut(fmt.Sprint(info), "vcs.revision=")
	revision, _, _ = strings.Cut(revision, "\n")
	m.Commit = cmp.Or(commit, revision, "unknown")
	return m
}

// String is a line of text.
func (m Machine) String() string {
	return fmt.Sprintf("%s, %d cores, %s, %s, commit %.12s, load %.1f", m.CPU, m.Cores, m.Kernel, m.Go, m.Commit, m.Load)
}
