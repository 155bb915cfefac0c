package nodes_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutaguard"
	"github.com/batuta-dev/batuta/internal/testkit/freeport"
	"github.com/batuta-dev/batuta/internal/testkit/stalltest"
	"github.com/batuta-dev/batuta/quorum"
)

// TestMain lets the test binary be a program that uses the library.
func TestMain(m *testing.M) {
	if members := os.Getenv("BATUTAGUARD_MEMBERS"); members != "" {
		if err := program(os.Args[1], strings.Split(members, ",")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// program is what the package's documentation shows. It prints each leader that it follows.
func program(id string, members []string) error {
	g, err := batutaguard.Start(nil)
	if err != nil {
		return err
	}
	defer g.Close()
	c := batuta.Config{ID: batuta.ID(id), DataDir: id, TProcess: time.Minute,
		Algorithm: quorum.New(quorum.WithTakeover(quorum.TakeoverAttested), quorum.WithGuard(g))}
	for i, address := range members {
		c.Peers = append(c.Peers, batuta.Peer{ID: batuta.ID(fmt.Sprint(i + 1)), Addr: address})
		if fmt.Sprint(i+1) == id {
			c.Listen = address
		}
	}
	node, err := batuta.Start(context.Background(), c)
	if err != nil {
		return err
	}
	defer node.Close()
	for v := range node.Watch(context.Background()) {
		for attested := !v.Defined(); !attested; time.Sleep(time.Millisecond) {
			status, err := node.Status(context.Background())
			if err != nil {
				return err
			}
			if attested = status.Unattested == ""; attested {
				fmt.Println(v.Token.Leader.ID)
			}
		}
	}
	return nil
}

// A program that dies is replaced long before its lease has ended, and its guard ends, too.
func TestAProgramThatDiesIsReplacedAtOnce(t *testing.T) {
	ports, err := freeport.Find(3)
	if err != nil {
		t.Fatal(err)
	}
	dir, members := stalltest.Dir(t), fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", ports[0], ports[1], ports[2])
	leaders, programs := make(chan [2]string), map[string]*exec.Cmd{}
	for _, id := range []string{"1", "2", "3"} {
		if err := os.Mkdir(filepath.Join(dir, id), 0o700); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(os.Args[0], id)
		cmd.Dir, cmd.Env, cmd.Stderr = dir, append(os.Environ(), "BATUTAGUARD_MEMBERS="+members), os.Stderr
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		programs[id] = cmd
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		go func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				leaders <- [2]string{id, lines.Text()}
			}
		}()
	}
	agree := func(of ...string) (leader string) {
		t.Helper()
		seen, late := map[string]string{}, time.After(time.Minute)
		for {
			select {
			case l := <-leaders:
				seen[l[0]] = l[1]
			case <-late:
				t.Fatalf("members %v do not agree: they follow %v", of, seen)
			}
			for i, id := range of {
				if leader = seen[id]; leader == "" || leader != seen[of[0]] {
					break
				} else if i == len(of)-1 {
					return leader
				}
			}
		}
	}
	if leader := agree("1", "2", "3"); leader != "3" {
		t.Fatalf("%s leads", leader)
	}
	time.Sleep(2 * time.Second) // a leader's commitment arrives a message after its leadership
	guard := child(t, programs["3"].Process.Pid)
	began := time.Now()
	programs["3"].Process.Kill()
	if leader := agree("1", "2"); leader == "3" {
		t.Errorf("%s follows 3", leader)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the next leader comes %v after the end of a process whose lease is a minute", took)
	}
	for late := time.Now().Add(20 * time.Second); syscall.Kill(guard, 0) == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("the guard outlives its work")
		}
	}
}

// child is the process that pid has started.
func child(t *testing.T, pid int) (of int) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		var list []byte
		if list, err = os.ReadFile(task); err == nil {
			if n, _ := fmt.Sscan(string(list), &of); n == 1 {
				return of
			}
		}
	}
	t.Fatalf("process %d has no guard: %v", pid, err)
	return 0
}
