package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
	"github.com/batuta-dev/batuta/internal/work/hooks"
)

// notRun are the commands of pages that TestCommandsOfPagesAreRun leaves out, and why.
var notRun = map[string]string{
	"batuta run --config /etc/batuta.yaml --await-ready -- sh -c '":                                "it goes on over several lines: ready.txt has it",
	"batuta tune --for 10m --agent 127.0.0.1:7500":                                                 "it takes ten minutes: tune.txt has it with less",
	"batuta recover --id 1 --data-dir /var/lib/batuta --members 1=10.0.0.1:7400":                   "it needs a quorum that has lost its majority: TestAMajorityIsLostForGood makes one",
	"batuta recover --id 1 --data-dir /var/lib/batuta --members 1=10.0.0.1:7400 --epoch-above 120": "the same",
	"go run ./cmd/batuta sim soak --seeds 1:10000":                                                 "it takes many minutes: tutorial-lab.md has it with fewer seeds",
	"batuta sim explore --algorithm bully --nodes 3 --crashes 1 --restarts 1 --suspicions 1":       "it takes minutes: .ci/run has it",
	"batuta sim explore --algorithm quorum --nodes 3 --crashes 1 --restarts 0 --suspicions 0":      "it takes minutes",
	"go run ./cmd/batuta sim explore --nodes 3 --crashes 1 --restarts 1 --suspicions 1":            "it takes minutes: .ci/run has it",
}

// pageNeeds has the part of the script that only this page needs; pages.sh serves all.
var pageNeeds = map[string]string{
	"docs/any-language.md":                "three",
	"docs/elections.md":                   "elections",
	"docs/floating-address.md":            "floating",
	"docs/members.md":                     "three",
	"docs/migrate.md":                     "three; ln -sf report worker",
	"docs/operations.md":                  "export BATUTA_SECRET_FILE=/etc/batuta.key",
	"docs/pause.md":                       "three",
	"docs/security.md":                    "secured",
	"docs/superpeers.md":                  "overlay",
	"docs/three-machines.md":              "together=1; sed -i s/7500/7599/ /etc/batuta.yaml; three 127.0.0.1:7599",
	"README.md":                           "together=1",
	"examples/floating-address/README.md": "floating",
	"examples/jobs/README.md":             "together=1",
	"docs/troubleshooting.md":             "three",
	"docs/lab.md":                         "incident",
}

//go:embed testdata/pages.sh
var pagesScript string

var (
	commentOfLine = regexp.MustCompile(`\s+# .*$`)
	remains       = regexp.MustCompile(`^batuta (agent|run|witness|vip|watch|superpeer (agent|watch)|lab)\b`)
	askedAgain    = regexp.MustCompile(`^batuta (status|leader|elections|members|transfer|drain|pause|resume|resign|explain|jobs|superpeer status|check)\b`)
)

// TestCommandsOfPagesAreRun runs each batuta command of each page unchanged, in network and mount namespaces in
// which the hosts and files of the pages exist. A command that ends must succeed, and a command that remains must print
// something, and end orderly at an interrupt. TestTutorials runs those of tutorials, and a test holds those of Spanish
// pages equal to the English ones.
func TestCommandsOfPagesAreRun(t *testing.T) {
	t.Parallel()
	if os.Getenv("BATUTA_TEST_NETNS") == "" || !fulltest.Enabled() {
		t.Skip("set BATUTA_TEST_NETNS=1 and BATUTA_TEST_FULL=1 as root: the test makes namespaces, and takes its time")
	}
	elsewhere, used := map[string]bool{}, map[string]bool{}
	english := pagesOf(t, "README.md", "docs/*.md", "examples/*/README.md", "packaging/helm/*/README.md", "docs/*/*.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
	for page, lines := range english {
		for _, line := range lines {
			if strings.HasPrefix(page, "docs/tutorial-") {
				elsewhere[line] = true
			}
		}
	}
	for page, lines := range english {
		if strings.HasPrefix(page, "docs/tutorial-") {
			continue
		}
		var script strings.Builder
		for _, line := range lines {
			switch {
			case notRun[line] != "":
				used[line] = true
			case elsewhere[line] || strings.HasPrefix(page, "docs/es/"):
			default:
				fmt.Fprintln(&script, called(line))
			}
		}
		if script.Len() > 0 {
			t.Run(page, func(t *testing.T) {
				t.Parallel()
				if out, err := runPage(t, pageNeeds[page], script.String()); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
	for line := range notRun {
		if !used[line] {
			t.Errorf("no page has %q: take it off the list", line)
		}
	}
}

// called is the call of the function of pages.sh that runs a line.
func called(line string) string {
	line = strings.Replace(strings.TrimPrefix(line, "$ "), "go run ./cmd/batuta", "batuta", 1)
	how := "ends"
	switch {
	case strings.Contains(line, "lab --static"):
	case remains.MatchString(line):
		how = "remains"
	case askedAgain.MatchString(line):
		how = "succeeds"
	}
	return how + " '" + strings.ReplaceAll(line, "'", `'\''`) + "'"
}

// pagesOf lists the commands of pages, without their comments.
func pagesOf(t *testing.T, patterns ...string) map[string][]string {
	t.Helper()
	list := map[string][]string{}
	for _, pattern := range patterns {
		pages, err := filepath.Glob("../../" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range commandsOf(string(text)) {
				name := strings.TrimPrefix(page, "../../")
				list[name] = append(list[name], strings.TrimPrefix(commentOfLine.ReplaceAllString(line, ""), "$ "))
			}
		}
	}
	return list
}

// A page with a command that fails, that ends or that prints nothing does not pass.
func TestAWrongCommandOfAPageIsFound(t *testing.T) {
	if os.Getenv("BATUTA_TEST_NETNS") == "" {
		t.Skip("set BATUTA_TEST_NETNS=1 as root: the test makes namespaces")
	}
	for line, want := range map[string]string{
		"batuta status --agnt 127.0.0.1:7500":      "it never succeeds",
		"batuta secret new >/nowhere/cluster.key":  "exit code 1",
		"batuta agent --listen 10.0.0.1:7400":      "it ended",
		"batuta run --listen 127.0.0.1:0 -- ./wrk": "it ended",
	} {
		if out, err := runPage(t, "TRIES=1", called(line)); err == nil || !strings.Contains(string(out), "FAIL "+line+": "+want) {
			t.Errorf("%s: %v; want %q\n%s", line, err, want, out)
		}
	}
	if out, err := runPage(t, "", called("batuta version")); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// runPage runs the lines of a page.
func runPage(t *testing.T, needs, lines string) ([]byte, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
		"bash", "-c", pagesScript+"\n"+needs+"\n"+lines+"\nfinish\n")
	known, err := exec.Command("go", "env", "GOMODCACHE", "GOCACHE", "GOPATH").Output()
	if err != nil {
		t.Fatal(err)
	}
	dirs := strings.Fields(string(known))
	cmd.Env = append(os.Environ(), "GOMODCACHE="+dirs[0], "GOCACHE="+dirs[1], "GOPATH="+dirs[2], "GOWORK=off", "SELF="+self, "ROOT="+root, "W="+t.TempDir())
	cmd.SysProcAttr = hooks.ChildAttributes()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd.CombinedOutput()
}
