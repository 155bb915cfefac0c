package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/batuta-dev/batuta/engines/internal/enginetest"
	"github.com/batuta-dev/batuta/internal/run/runtest"
)

var rounds = flag.Int("rounds", 1, "rounds of each fault before the witness")

// TestMain lets the test binary be batuta-engine, its guard, and the command that it runs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "worker":
			runtest.Work(os.Args[:2], os.Args[2:])
			return
		case "run", "guard":
			os.Exit(execute(context.Background(), os.Args[1:], env{os.Stdout, os.Stderr, os.LookupEnv}))
		}
	}
	os.Exit(m.Run())
}

// serveEtcd starts a real server and gives its address.
func serveEtcd(t *testing.T) string {
	t.Helper()
	program := enginetest.Program(t, "etcd", "etcd-server")
	ports, dir := enginetest.Ports(t, 2), t.TempDir()
	url := func(i int) string { return fmt.Sprintf("http://127.0.0.1:%d", ports[i]) }
	enginetest.Serve(t, func() *exec.Cmd {
		return exec.Command(program, "--data-dir", dir, "--listen-client-urls", url(0), "--advertise-client-urls", url(0), "--listen-peer-urls", url(1),
			"--initial-advertise-peer-urls", url(1), "--initial-cluster", "default="+url(1), "--unsafe-no-fsync", "--logger", "zap", "--log-level", "warn")
	})
	addr := strings.TrimPrefix(url(0), "http://")
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	enginetest.Await(t, "etcd answers", func(ctx context.Context) error {
		_, err := client.Put(ctx, "up", "")
		return err
	})
	return addr
}

// ask runs a command that asks, in this process.
func ask(args ...string) (code int, said string) {
	var out bytes.Buffer
	code = execute(context.Background(), args, env{&out, &out, func(string) (string, bool) { return "", false }})
	return code, out.String()
}

// runs are three processes of "batuta-engine run", each with a line of its own to etcd. What they run must be alone to lock a
// file: that is the witness from outside.
type runs struct {
	t       *testing.T
	factory *runtest.Factory
	etcd    string
	lock    string
	lines   [3]*enginetest.Proxy
	servers [3]*enginetest.Server
}

func (r *runs) start() {
	for i := range r.lines {
		r.lines[i] = enginetest.NewProxy(r.t, r.etcd)
		argv := []string{"run", "--etcd", r.lines[i].Addr(), "--id", strconv.Itoa(i + 1), "--lease", "6s", "--http", "off", "--grace", "100ms", "--", os.Args[0], "worker"}
		argv = append(argv, r.factory.Argv("lock="+r.lock, "deaf")...)
		r.servers[i] = enginetest.Serve(r.t, func() *exec.Cmd { return exec.Command(os.Args[0], argv...) })
	}
}

// next is the next command that runs, of a leadership above epoch, and whose it is.
func (r *runs) next(epoch uint64) (w *runtest.Worker, number uint64, leader int) {
	r.t.Helper()
	for {
		w = r.factory.Next()
		if !w.Alone {
			r.t.Errorf("the command of %s begins while another's still runs", w.Token)
		}
		if _, err := fmt.Sscanf(w.Token, "%d:%d", &number, &leader); err != nil {
			r.t.Fatalf("BATUTA_TOKEN is %q", w.Token)
		}
		if number < epoch {
			r.t.Errorf("%s comes after epoch %d", w.Token, epoch)
		}
		if number > epoch {
			return w, number, leader - 1
		}
	}
}

// Whatever happens to the leader, its command is dead before the next one's begins.
func TestAWitnessSeesOneCommand(t *testing.T) {
	t.Parallel()
	r := &runs{t: t, factory: runtest.NewFactory(t), etcd: serveEtcd(t), lock: filepath.Join(t.TempDir(), "lock")}
	r.start()
	_, epoch, leader := r.next(0)
	for range *rounds {
		for _, strike := range []struct {
			name string
			hit  func() (mend func())
		}{
			{"kill -9", func() func() { r.servers[leader].Kill(); return r.servers[leader].Start }},
			{"SIGSTOP", r.freeze(&leader)},
			{"it is cut off from etcd", func() func() { return r.lines[leader].Cut() }},
			{"SIGTERM", func() func() {
				s := r.servers[leader]
				s.Signal(syscall.SIGTERM)
				return func() { s.Kill(); s.Start() }
			}},
		} {
			struck, began := leader, time.Now()
			mend := strike.hit()
			_, epoch, leader = r.next(epoch)
			t.Logf("%s of %d: %d works %v later", strike.name, struck+1, leader+1, time.Since(began).Round(time.Millisecond))
			mend()
		}
	}
}

// freeze stops the leader's process, and not its guard.
func (r *runs) freeze(leader *int) func() func() {
	return func() func() { return r.servers[*leader].Freeze() }
}

// status tells who leads as long as it renews, and nobody when all have gone.
func TestStatus(t *testing.T) {
	t.Parallel()
	etcd := serveEtcd(t)
	if code, said := ask("leader", "--etcd", etcd); code != exitNoLeader {
		t.Errorf("leader, when nobody has ever led, ends with %d: %s", code, said)
	}
	f := runtest.NewFactory(t)
	argv := append([]string{"run", "--etcd", etcd, "--id", "one", "--election", "db", "--lease", "6s", "--http", "off", "--advertise", "db.example:5432", "--", os.Args[0], "worker"}, f.Argv("quit=0")...)
	s := enginetest.Serve(t, func() *exec.Cmd { return exec.Command(os.Args[0], argv...) })
	w := f.Next()
	code, said := ask("status", "--etcd", etcd, "--election", "db", "--json")
	var a answer
	if err := json.Unmarshal([]byte(said), &a); code != exitDone || err != nil || a.Leader == nil || *a.Leader != "one" || a.Address != "db.example:5432" {
		t.Errorf("status ends with %d: %s", code, said)
	}
	if code, said := ask("leader", "--etcd", etcd, "--election", "db"); code != exitDone || said != "one\n" {
		t.Errorf("leader ends with %d: %s", code, said)
	}
	s.Kill()
	f.Dies(w)
	if code, said := ask("status", "--etcd", etcd, "--election", "db"); code != exitNoLeader {
		t.Errorf("status, when all have gone, ends with %d: %s", code, said)
	}
}

// What is wrong with a command line is said in a line, with exit code 2.
func TestWrongUsage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f.yaml")
	if err := os.WriteFile(file, []byte("leese: 3s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"run", "--", "ls"},
		{"run", "--etcd", "127.0.0.1:1"},
		{"run", "--etcd", "127.0.0.1:1", "--", "/no/such/command"},
		{"run", "--etcd", "127.0.0.1:1", "--postgres", "postgres://h/d", "--", "ls"},
		{"run", "--etcd", "127.0.0.1:1", "--http", "off", "--lease", "1ms", "--", "ls"},
		{"agent", "--etcd", "127.0.0.1:1", "--http", "0.0.0.0:0"},
		{"agent", "--etcd", "127.0.0.1:1", "--events", "xml"},
		{"agent", "--etcd", "127.0.0.1:1", "--config", file},
		{"agent", "--etcd", "127.0.0.1:1", "--etcd-ca", file},
		{"status", "--postgres", "nonsense://"},
		{"status", "--kubernetes", "default", "--election", "Not A Name"},
		{"status", "--kubernetes", "default", "--kubeconfig", file},
		{"status", "--no-such-flag"},
		{"no-such-command"},
	} {
		code, said := ask(args...)
		if code != exitUsage || strings.Count(said, "\n") != 1 {
			t.Errorf("%q ends with %d: %s", args, code, said)
		}
	}
}
