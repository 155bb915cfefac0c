package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/batuta-dev/batuta"
)

// TestMain lets the test's own program be a leader that writes late.
func TestMain(m *testing.M) {
	if token, ok := os.LookupEnv("FENCING_LATE"); ok {
		late(token)
		return
	}
	os.Exit(m.Run())
}

func tokenOf(epoch uint64, leader batuta.ID) batuta.Token {
	return batuta.Token{Epoch: epoch, Leader: batuta.Rank{ID: leader}}
}

func open(t *testing.T, file string) *Register {
	t.Helper()
	r, err := Open(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func TestALowerTokenIsRefused(t *testing.T) {
	r := open(t, filepath.Join(t.TempDir(), "table"))
	for i, step := range []struct {
		epoch  uint64
		leader batuta.ID
		want   int64 // 0: refused
	}{
		{1, "a", 1}, {1, "a", 2}, {3, "b", 3}, {2, "c", 0}, {1, "a", 0}, {3, "c", 0}, {3, "b", 4}, {4, "a", 5}, {3, "b", 0},
	} {
		got, err := r.Add(t.Context(), tokenOf(step.epoch, step.leader), 1)
		if got != step.want || errors.Is(err, ErrFenced) != (step.want == 0) {
			t.Errorf("step %d, %d:%s: %d, %v; want %d", i, step.epoch, step.leader, got, err, step.want)
		}
	}
	if value, epoch, leader, err := r.Value(t.Context()); value != 5 || epoch != 4 || leader != "a" || err != nil {
		t.Errorf("%d by %d:%s, %v", value, epoch, leader, err)
	}
}

// late is a leader that has made sure that it leads, and writes some time after.
func late(token string) {
	epoch, leader, _ := strings.Cut(token, ":")
	n, _ := strconv.ParseUint(epoch, 10, 64)
	ctx := context.Background()
	r, err := Open(ctx, os.Getenv("FENCING_TABLE"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("leads")
	bufio.NewReader(os.Stdin).ReadString('\n')
	if _, err := r.Add(ctx, tokenOf(n, batuta.ID(leader)), 100); errors.Is(err, ErrFenced) {
		fmt.Println("fenced")
	} else {
		fmt.Println("written", err)
	}
}

// A leader is stopped between its check and its write, another leads and writes, and
// the first one wakes.
func TestALeaderThatWakesLateIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "table")
	r := open(t, file)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "FENCING_LATE=7:a", "FENCING_TABLE="+file)
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	lines := bufio.NewScanner(out)
	if lines.Scan(); lines.Text() != "leads" {
		t.Fatalf("it says %q", lines.Text())
	}
	cmd.Process.Signal(syscall.SIGSTOP)
	if _, err := r.Add(t.Context(), tokenOf(8, "b"), 1); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(in, "go on")
	cmd.Process.Signal(syscall.SIGCONT)
	if lines.Scan(); lines.Text() != "fenced" {
		t.Errorf("it says %q", lines.Text())
	}
	if value, _, _, err := r.Value(t.Context()); value != 1 || err != nil {
		t.Errorf("the value is %d, %v", value, err)
	}
}

// Of writers that race only those of the highest token count from its first write on.
func TestWritersRace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "table")
	var all sync.WaitGroup
	var mu sync.Mutex
	written := map[int64]uint64{} // by value: the epoch that wrote it
	for epoch := uint64(1); epoch <= 8; epoch++ {
		r := open(t, file)
		all.Go(func() {
			for range 25 {
				value, err := r.Add(t.Context(), tokenOf(epoch, "x"), 1)
				if err != nil && !errors.Is(err, ErrFenced) {
					t.Error(err)
				}
				if err == nil {
					mu.Lock()
					written[value] = epoch
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	last := uint64(0)
	for value := int64(1); value <= int64(len(written)); value++ {
		if written[value] < last {
			t.Errorf("epoch %d has written %d after epoch %d", written[value], value, last)
		}
		last = written[value]
	}
	if last != 8 {
		t.Errorf("epoch %d has written last of %d", last, len(written))
	}
}
