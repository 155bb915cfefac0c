package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/testkit/freeport"
	"github.com/batuta-dev/batuta/internal/testkit/stalltest"
)

// TestTutorials runs each command of each tutorial, in its order, and compares what it prints
// with what the page shows. These are the conventions of a page:
//
//	```console              commands after "$ ", each with the lines that it prints
//	```console terminal 2   the same in a terminal that stays busy; ^C interrupts it
//	```go main.go           a file to write
//
// In printed lines … matches anything, and a space any number of them.
func TestTutorials(t *testing.T) {
	t.Parallel()
	watch := stalltest.Start(t)
	pages, err := filepath.Glob("../../docs/tutorial-*.md")
	if err != nil || len(pages) < 3 {
		t.Fatalf("found the tutorials %q: %v", pages, err)
	}
	for _, page := range pages {
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			attempts(t, watch, func(a *attempt) { newTutorial(a).play(string(text)) })
		})
	}
}

// TestTutorialsAreCompared has output that a page must and must not accept.
func TestTutorialsAreCompared(t *testing.T) {
	for shown, same := range map[string]bool{
		"leader  2, since …":            true,
		"leader  2, since …\nasked 7":   true,
		"asked 7":                       true,
		"asked 7\nleader  2, since …":   false,
		"leader  3, since …":            false,
		"leader  2":                     false,
		"leader  2, since …\nasked me!": false,
	} {
		missing := unmatched(strings.Split(shown, "\n"), "head\nleader 2,  since 10:01 (2s ago)\nasked 7\n")
		if (missing == "") != same {
			t.Errorf("%q: missing %q", shown, missing)
		}
	}
}

type tutorial struct {
	*attempt
	checkout  string            // of this repository
	dir       string            // in which the next command runs
	env       []string          // of each command
	ports     map[string]string // of the page, and a free one in place of each
	terminals map[string]*terminal
}

// terminal is a terminal that stays busy with one command.
type terminal struct {
	sync.Mutex
	printed bytes.Buffer
	cmd     *exec.Cmd
	ended   chan struct{}
}

func (w *terminal) Write(p []byte) (int, error) {
	w.Lock()
	defer w.Unlock()
	return w.printed.Write(p)
}

func (w *terminal) text() string {
	w.Lock()
	defer w.Unlock()
	return w.printed.String()
}

// newTutorial has the command in PATH, and this checkout in place of ~/batuta.
func newTutorial(t *attempt) *tutorial {
	t.Helper()
	home, bin := t.TempDir(), t.TempDir()
	self, err := os.Executable()
	root, rootErr := filepath.Abs("../..")
	known, envErr := exec.Command("go", "env", "GOMODCACHE", "GOCACHE", "GOPATH").Output()
	for _, err := range []error{err, rootErr, envErr, os.Symlink(self, filepath.Join(bin, "batuta"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	p := &tutorial{attempt: t, checkout: root, dir: home, ports: map[string]string{}, terminals: map[string]*terminal{}}
	t.Cleanup(func() {
		for name, w := range p.terminals {
			if t.Failed() {
				t.Logf("%s has printed\n%s", name, w.text())
			}
		}
	})
	dirs := strings.Fields(string(known))
	p.env = append(os.Environ(), "HOME="+home, "PATH="+bin+":"+os.Getenv("PATH"), "GOMODCACHE="+dirs[0], "GOCACHE="+dirs[1], "GOPATH="+dirs[2], "GOWORK=off", "GOFLAGS=-count=1")
	return p
}

// play runs the blocks of a page.
func (p *tutorial) play(page string) {
	p.Helper()
	commands := 0
	for i, block := range strings.Split(page, "\n```") {
		info, body, _ := strings.Cut(block, "\n")
		kind, rest, _ := strings.Cut(info, " ")
		switch {
		case i%2 == 0: // prose
		case strings.HasPrefix(info, "console terminal "):
			commands++
			p.inTerminal(rest, p.local(body))
		case kind == "console":
			for _, command := range strings.Split("\n"+p.local(body), "\n$ ")[1:] {
				commands++
				p.inForeground(command)
			}
		case rest != "":
			if err := os.WriteFile(filepath.Join(p.dir, rest), []byte(p.local(body)+"\n"), 0o600); err != nil {
				p.Fatal(err)
			}
		default:
			p.Errorf("a block of %q is neither run nor written", info)
		}
	}
	if commands < 5 {
		p.Errorf("the page has only %d commands", commands)
	}
}

// local has a free port in place of each port of a text, and this checkout in place of the page's:
// its packages are compiled already.
func (p *tutorial) local(text string) string {
	text = strings.ReplaceAll(text, "$HOME/batuta", p.checkout)
	return regexp.MustCompile(`127\.0\.0\.1:(\d+)`).ReplaceAllStringFunc(text, func(addr string) string {
		if p.ports[addr] == "" {
			ports, err := freeport.Find(1)
			if err != nil {
				p.Fatal(err)
			}
			p.ports[addr] = fmt.Sprintf("127.0.0.1:%d", ports[0])
		}
		return p.ports[addr]
	})
}

// shell makes a shell that reads a script: no argument of it has the words of the script, for
// which the script itself may look with pgrep.
func (p *tutorial) shell(ctx context.Context, script string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-s")
	cmd.Stdin = strings.NewReader(script)
	cmd.Dir, cmd.Env = p.dir, p.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

const (
	shownWithin  = 3 * time.Minute // the lab compiles its page: half a minute of two idle cores, which other tests share
	agreedWithin = time.Minute     // what an agent is asked for; none comes if the machine stalled before an earlier command
)

var asks = regexp.MustCompile(`^(batuta (status|leader|explain|members)|curl|cat)\b`)

// inForeground runs a command to its end, and goes to the directory in which that ends. A command
// that only asks is repeated until it prints what the page shows.
func (p *tutorial) inForeground(block string) {
	p.Helper()
	command, shown := cutCommand(block)
	where := filepath.Join(p.TempDir(), "pwd")
	for end := time.Now().Add(agreedWithin); ; time.Sleep(50 * time.Millisecond) {
		cmd := p.shell(p.Context(), command+"\ncode=$?\npwd >"+where+"\nexit $code\n")
		printed, err := cmd.CombinedOutput()
		missing := unmatched(strings.Split(shown, "\n"), string(printed))
		if err == nil && missing == "" {
			break
		}
		if !asks.MatchString(command) || time.Now().After(end) {
			p.Fatalf("%s: %v; the page shows %q, and it printed\n%s", command, err, missing, printed)
		}
	}
	if dir, err := os.ReadFile(where); err == nil {
		p.dir = strings.TrimSpace(string(dir))
	}
}

// inTerminal starts a command in a terminal, interrupts the one that runs there, or lets it go on, and waits
// for what the page shows.
func (p *tutorial) inTerminal(name, block string) {
	p.Helper()
	first, shown := cutCommand(block)
	w := p.terminals[name]
	switch command, isCommand := strings.CutPrefix(first, "$ "); {
	case isCommand:
		if w != nil {
			<-w.ended
		}
		w = &terminal{cmd: p.shell(context.Background(), "exec "+command), ended: make(chan struct{})}
		w.cmd.Stdout, w.cmd.Stderr = w, w
		if err := w.cmd.Start(); err != nil {
			p.Fatal(err)
		}
		go func() {
			defer close(w.ended)
			w.cmd.Wait()
		}()
		p.Cleanup(func() { syscall.Kill(-w.cmd.Process.Pid, syscall.SIGKILL); <-w.ended })
		p.terminals[name] = w
	case first == "^C" && w != nil:
		syscall.Kill(-w.cmd.Process.Pid, syscall.SIGINT)
		<-w.ended
	case w != nil: // it goes on
		shown = block
	default:
		p.Fatalf("%s: begin with a command; got %q", name, first)
	}
	for end := time.Now().Add(shownWithin); ; time.Sleep(20 * time.Millisecond) {
		missing := unmatched(strings.Split(shown, "\n"), w.text())
		if missing == "" {
			return
		}
		if time.Now().After(end) {
			p.Fatalf("%s: the page shows %q, and it printed\n%s", name, missing, w.text())
		}
	}
}

// cutCommand divides a block into its command, which goes on behind a backslash, and the rest.
func cutCommand(block string) (command, shown string) {
	command, shown, _ = strings.Cut(block, "\n")
	for strings.HasSuffix(command, `\`) {
		line, rest, _ := strings.Cut(shown, "\n")
		command, shown = command+"\n"+line, rest
	}
	return command, shown
}

// unmatched is the first line shown that no printed line matches after those before it; "": none.
func unmatched(shown []string, printed string) string {
	lines := strings.Split(printed, "\n")
	for _, s := range shown {
		s = strings.TrimSpace(s)
		pattern := strings.ReplaceAll(strings.Join(strings.Fields(regexp.QuoteMeta(s)), `\s+`), "…", ".*")
		matching := regexp.MustCompile(`^\s*` + pattern + `\s*$`)
		for s != "" && (len(lines) == 0 || !matching.MatchString(lines[0])) {
			if len(lines) == 0 {
				return s
			}
			lines = lines[1:]
		}
	}
	return ""
}
