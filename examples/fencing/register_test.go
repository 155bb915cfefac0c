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
	"time"

	"github.com/anishathalye/porcupine"

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

// What leaders and readers see of the register, whatever runs at once, could have
// happened one after the other: it is linearizable.
func TestTheHistoryIsLinearizable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "table")
	var all sync.WaitGroup
	var mu sync.Mutex
	var history []porcupine.Operation
	began := time.Now()
	do := func(client int, in input, f func() output) {
		call := time.Since(began)
		out := f()
		mu.Lock()
		defer mu.Unlock()
		history = append(history, porcupine.Operation{ClientId: client, Input: in, Call: int64(call), Output: out, Return: int64(time.Since(began))})
	}
	for client := range 6 {
		r := open(t, file)
		all.Go(func() {
			for i := range 20 {
				if client%3 == 0 { // a reader
					do(client, input{}, func() output {
						value, _, _, err := r.Value(t.Context())
						return output{value, err}
					})
					continue
				}
				epoch := uint64(1 + i/4 + client%2) // a leader, one behind the other
				do(client, input{tokenOf(epoch, batuta.ID(strconv.Itoa(client))), 1}, func() output {
					value, err := r.Add(t.Context(), tokenOf(epoch, batuta.ID(strconv.Itoa(client))), 1)
					return output{value, err}
				})
			}
		})
	}
	all.Wait()
	if !porcupine.CheckOperations(fenced, history) {
		t.Errorf("no order explains what %d calls have seen", len(history))
	}
	// And one that cannot be is told.
	write, read := input{tokenOf(2, "b"), 1}, input{}
	if porcupine.CheckOperations(fenced, []porcupine.Operation{
		{Input: write, Output: output{1, nil}, Call: 1, Return: 2},
		{Input: input{tokenOf(1, "a"), 1}, Output: output{2, nil}, Call: 3, Return: 4},
		{Input: read, Output: output{2, nil}, Call: 5, Return: 6},
	}) {
		t.Error("a write of a lower token passes for one that is refused")
	}
}

// input is a call: a write under a token, or a read if n is 0.
type input struct {
	token batuta.Token
	n     int64
}

type output struct {
	value int64
	err   error
}

// fenced is what the register promises.
var fenced = porcupine.Model{
	Init: func() any { return held{} },
	Step: func(state, in, out any) (bool, any) {
		s, call, got := state.(held), in.(input), out.(output)
		t := call.token
		switch {
		case call.n == 0:
			return got.err == nil && got.value == s.value, s
		case t.Epoch < s.epoch || t.Epoch == s.epoch && t.Leader.ID != s.leader:
			return errors.Is(got.err, ErrFenced), s
		}
		s = held{s.value + call.n, t.Epoch, t.Leader.ID}
		return got.err == nil && got.value == s.value, s
	},
}

// held is what stands in the register.
type held struct {
	value  int64
	epoch  uint64
	leader batuta.ID
}
