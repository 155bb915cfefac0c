package run

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/attest"
	"github.com/batuta-dev/batuta/internal/work/run/runtest"
)

// keep is a process that runs a command under a guard until it gets SIGTERM, and prints what
// it logs, and "over" when nothing of the command is left.
func keep(argv []string) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stdout, nil))
	warnOfOtherUser(argv[0], log)
	k := keeper{starter: starter{program: os.Args[0], argv: []string{os.Args[0], "guard"}}, log: log}
	if addr := os.Getenv("BATUTA_TEST_ATTEST"); addr != "" {
		k.Swear(oathTo(addr))
	}
	k.run(ctx, &Command{Argv: argv, Env: os.Environ(), Grace: time.Millisecond}, time.Second, long, func() (term, bool) {
		return term{until: now().add(long)}, true
	})
	fmt.Println("over")
}

func oathTo(addr string) attest.Oath {
	return attest.Oath{Token: election.Token{Epoch: 7, Leader: election.Rank{ID: "5"}}, Secret: bytes.Repeat([]byte{7}, attest.Size), Members: []string{addr}}
}

// setuid makes a copy of this program that any user may run, as root.
func setuid(t *testing.T) (path string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "batuta") // a test's own directory is root's alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return copyOf(t, filepath.Join(dir, "sudoer"), 0o755|os.ModeSetuid)
}

// copyOf has a copy of this program at path.
func copyOf(t *testing.T, path string, mode os.FileMode) string {
	t.Helper()
	program, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(path, program, 0o755)
	}
	if err == nil {
		err = os.Chmod(path, mode)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// A command that becomes another user is reported, at the start and once its guard may not
// signal it; and the run is not over before all of it has ended.
func TestACommandOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("makes a program of root's, and runs it as nobody")
	}
	t.Parallel()
	f, program := newFactory(t), setuid(t)
	plain := copyOf(t, filepath.Join(filepath.Dir(program), "batuta"), 0o755)
	cmd := exec.Command(plain, append([]string{"keep", program, "worker"}, f.Argv("root", "stray")...)...)
	cmd.Dir, cmd.Stderr = "/", os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := StartChild(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); WaitChild(cmd) })
	lines := read(out)
	family := map[string]*runtest.Worker{}
	for range 2 {
		w := f.Next()
		family[w.Words] = w
		t.Cleanup(func() { syscall.Kill(w.Pid, syscall.SIGKILL) })
	}
	expect(t, lines, "runs as another user")
	expect(t, lines, "does not let batuta signal")
	cmd.Process.Signal(syscall.SIGTERM)
	syscall.Kill(family["root,stray"].Pid, syscall.SIGKILL)
	f.Dies(family["root,stray"])
	select {
	case line := <-lines:
		if strings.Contains(line, "over") {
			t.Fatal("the run is over while a process of the command runs")
		}
	case <-time.After(2 * buryTime): // time is what is tested here
	}
	syscall.Kill(family["deaf"].Pid, syscall.SIGKILL)
	expect(t, lines, "over")
}

func read(from io.Reader) <-chan string {
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		for in := bufio.NewScanner(from); in.Scan(); {
			lines <- in.Text()
		}
	}()
	return lines
}

func expect(t *testing.T, lines <-chan string, words string) {
	t.Helper()
	for late := time.After(runtest.Patience); ; {
		select {
		case line, open := <-lines:
			if strings.Contains(line, words) {
				return
			} else if !open {
				t.Fatalf("it ended without %q", words)
			}
		case <-late:
			t.Fatalf("it does not report %q", words)
		}
	}
}
