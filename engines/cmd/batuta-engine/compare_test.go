package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/batuta-dev/batuta/engines/internal/enginetest"
	"github.com/batuta-dev/batuta/internal/work/run/runtest"
)

var compare = flag.Int("compare", 0, "rounds of each fault before batuta, batuta-engine and each engine's own way; docs/engines.md has the figures")

// way is a way to keep one command running.
type way struct {
	name  string
	serve func(*testing.T) place
	tight bool // it has times that can be set
	argv  func(c *contest, i int, worker []string) []string
}

var ways = []way{
	{"batuta run", serveMembers, false, (*contest).members},
	{"batuta run --algorithm quorum", serveMembers, false, (*contest).quorum},
	{"batuta-engine run --etcd", serveEtcd, true, (*contest).batuta},
	{"etcdctl lock", serveEtcd, true, (*contest).etcdctl},
	{"batuta-engine run --kubernetes", serveKubernetes, true, (*contest).batuta},
	{"client-go leaderelection", serveKubernetes, true, (*contest).clientGo},
	{"batuta-engine run --postgres", servePostgres, true, (*contest).batuta},
	{"psql, pg_advisory_lock", servePostgres, false, (*contest).psql},
	{"batuta-engine run --mysql", serveMySQL, true, (*contest).batuta},
	{"mariadb, GET_LOCK", serveMySQL, false, (*contest).mariadb},
	{"batuta-engine run --nats", serveNats, true, (*contest).batuta},
	{"a key with a TTL in NATS", serveNats, true, (*contest).natsKey},
	{"batuta-engine run --redis", serveRedis, true, (*contest).batuta},
	{"batuta-engine run --s3", serveS3, true, (*contest).batuta},
	{"SET NX PX in Redis", serveRedis, true, (*contest).setNX},
	{"batuta-engine run --consul", serveConsul, true, (*contest).batuta},
	{"consul lock", serveConsul, false, (*contest).consulLock},
}

// contest is five candidates that keep a command running one way.
type contest struct {
	t       *testing.T
	way     way
	tight   bool
	factory *runtest.Factory
	place   place
	lines   [5]*enginetest.Proxy
	servers [5]*enginetest.Server
	ports   []int    // of members
	dirs    []string // of members
}

// serveMembers is no engine: members need none.
func serveMembers(*testing.T) place { return place{} }

func (c *contest) quorum(i int, worker []string) []string {
	argv := c.members(i, worker)
	return slices.Insert(argv, 2, "--algorithm", "quorum")
}

func (c *contest) members(i int, worker []string) []string {
	if c.ports == nil {
		c.ports = enginetest.Ports(c.t, len(c.servers))
		for range c.servers {
			c.dirs = append(c.dirs, c.t.TempDir())
		}
	}
	argv := []string{command(), "run", "--id", strconv.Itoa(i + 1), "--listen", fmt.Sprintf("127.0.0.1:%d", c.ports[i]), "--data-dir", c.dirs[i],
		"--http", "off", "--log-level", "error", "--grace", "100ms"}
	for j, port := range c.ports {
		argv = append(argv, "--member", fmt.Sprintf("%d=127.0.0.1:%d", j+1, port))
	}
	return append(append(argv, "--"), worker...)
}

// command is a batuta that was built of the same tree.
var command = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "batuta-compare")
	if err != nil {
		log.Fatal(err)
	}
	program := filepath.Join(dir, "batuta")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", program, "./cmd/batuta")
	build.Dir = "../../.." // a module of its own
	if said, err := build.CombinedOutput(); err != nil {
		log.Fatalf("go build: %v\n%s", err, said)
	}
	return program
})

func (c *contest) batuta(i int, worker []string) []string {
	argv := append([]string{os.Args[0], "run", "--http", "off", "--log-level", "error", "--grace", "100ms"}, c.place.flags(c.line(i))...)
	if c.tight {
		argv = append(argv, "--lease", "2s")
	}
	return append(append(argv, "--"), worker...)
}

func (c *contest) etcdctl(i int, worker []string) []string {
	argv := []string{enginetest.Program(c.t, "etcdctl", "etcd-client"), "--endpoints", c.line(i), "lock"}
	if c.tight {
		argv = append(argv, "--ttl", "2") // less is taken for 2
	}
	return append(append(argv, "work"), worker...)
}

func (c *contest) consulLock(i int, worker []string) []string {
	if enginetest.ConsulProgram() == "" {
		c.t.Skip("BATUTA_TEST_CONSUL names no Consul")
	}
	return append([]string{enginetest.ConsulProgram(), "lock", "-http-addr", c.line(i), "work"}, strings.Join(worker, " "))
}

func (c *contest) psql(i int, worker []string) []string {
	return []string{enginetest.Program(c.t, "psql", "postgresql-client"), enginetest.PostgresURL(c.line(i)), "-qc", "SELECT pg_advisory_lock(1)", "-c", `\! ` + strings.Join(worker, " ")}
}

func (c *contest) clientGo(i int, worker []string) []string {
	times := []string{"15s", "10s", "2s"} // those of Kubernetes' own components
	if c.tight {
		times = []string{"2s", "1500ms", "300ms"}
	}
	flags := c.place.flags(c.line(i))
	return append(append([]string{os.Args[0], "client-go", flags[len(flags)-1]}, times...), worker...)
}

// line is the address at which a candidate reaches the engine.
func (c *contest) line(i int) string { return c.lines[i].Addr() }

func (c *contest) mariadb(i int, worker []string) []string {
	host, port, _ := strings.Cut(c.line(i), ":")
	return []string{enginetest.Program(c.t, "mariadb", "mariadb-client"), "-ubatuta", "-h" + host, "-P" + port, "-e", "SELECT GET_LOCK('work', 86400);\n\\! " + strings.Join(worker, " ")}
}

func (c *contest) natsKey(i int, worker []string) []string {
	return append([]string{os.Args[0], "nats-key", c.line(i), c.ttl()}, worker...)
}

func (c *contest) setNX(i int, worker []string) []string {
	return append([]string{os.Args[0], "set-nx", c.line(i), c.ttl()}, worker...)
}

// ttl is that of etcdctl lock, for the engines that come without a command of their own.
func (c *contest) ttl() string {
	if c.tight {
		return "2s"
	}
	return "10s"
}

// standByClientGo is a candidate as client-go's example has it: it ends when it leads no more.
func standByClientGo(kubeconfig string, times, command []string) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		log.Fatal(err)
	}
	duration := func(i int) time.Duration {
		d, err := time.ParseDuration(times[i])
		if err != nil {
			log.Fatal(err)
		}
		return d
	}
	leaderelection.RunOrDie(context.Background(), leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{LeaseMeta: meta.ObjectMeta{Name: "work", Namespace: meta.NamespaceDefault}, Client: coordination.NewForConfigOrDie(config),
			LockConfig: resourcelock.ResourceLockConfig{Identity: fmt.Sprint(os.Getpid())}},
		LeaseDuration: duration(0), RenewDeadline: duration(1), RetryPeriod: duration(2), ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				if err := exec.CommandContext(ctx, command[0], command[1:]...).Run(); err != nil {
					log.Print(err)
				}
			},
			OnStoppedLeading: func() { os.Exit(0) },
		},
	})
}

// start starts the five.
func (c *contest) start() {
	lock := filepath.Join(c.t.TempDir(), "lock")
	for i := range c.lines {
		if c.place.addr != "" {
			c.lines[i] = enginetest.NewProxy(c.t, c.place.addr)
		}
		worker := append([]string{os.Args[0], "worker"}, c.factory.Argv("lock="+lock, fmt.Sprintf("at=%d", i))...)
		argv := c.way.argv(c, i, worker)
		c.servers[i] = enginetest.Serve(c.t, func() *exec.Cmd { return exec.Command(argv[0], argv[1:]...) })
	}
}

// next is the next command that begins within limit, and whose it is; nil: none does.
func (c *contest) next(limit time.Duration) (w *runtest.Worker, at int) {
	c.t.Helper()
	if w = c.factory.Within(limit); w == nil {
		return nil, 0
	}
	_, number, _ := strings.Cut(w.Words, "at=")
	at, err := strconv.Atoi(number)
	if err != nil {
		c.t.Fatalf("a command says %q", w.Words)
	}
	return w, at
}

// descendants are the processes that one has started, and those that they have.
func descendants(pid int) (all []int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(task) // one that has ended has none
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(append(all, child), descendants(child)...)
			}
		}
	}
	return all
}

const cutOff = "it is cut off from the engine"

// faults are what can befall the candidate whose command runs.
var faults = []struct {
	name   string
	strike func(c *contest, at int) (mend func())
}{
	{"kill -9 of its process", func(c *contest, at int) func() {
		syscall.Kill(c.servers[at].Pid(), syscall.SIGKILL)
		return func() {}
	}},
	{"kill -9 of all its processes", func(c *contest, at int) func() {
		pid := c.servers[at].Pid()
		for _, p := range append([]int{pid}, descendants(pid)...) {
			syscall.Kill(p, syscall.SIGKILL)
		}
		return func() {}
	}},
	{"its process is stopped", func(c *contest, at int) func() {
		syscall.Kill(c.servers[at].Pid(), syscall.SIGSTOP)
		return func() {}
	}},
	{cutOff, func(c *contest, at int) func() { return c.lines[at].Cut() }},
}

// TestBesideTheEnginesOwnWay prints, for each fault, when the next command begins, and how often the one before still
// runs then. With -compare=N it does; it requires only of batuta-engine and of a quorum that no two run.
func TestBesideTheEnginesOwnWay(t *testing.T) {
	if *compare == 0 {
		t.Skip("it is for figures: go -C engines test ./cmd/batuta-engine -run BesideTheEngines -compare 5 -v -timeout 60m")
	}
	for _, tight := range []bool{false, true} {
		t.Run(map[bool]string{false: "defaults", true: "tight"}[tight], func(t *testing.T) {
			table := make([][]string, len(ways))
			t.Cleanup(func() { // the ways run at once, and have ended
				text := "\n| | kill | power | stop | cut |\n| --- | --- | --- | --- | --- |\n"
				for _, row := range table {
					if row != nil {
						text += "| " + strings.Join(row, " | ") + " |\n"
					}
				}
				t.Log(text)
			})
			for n, w := range ways {
				if tight && !w.tight {
					continue
				}
				t.Run(w.name, func(t *testing.T) {
					t.Parallel()
					c := &contest{t: t, way: w, tight: tight, factory: runtest.NewFactory(t), place: w.serve(t)}
					c.start()
					row := []string{"`" + w.name + "`", "", "", "", ""}
					for i, f := range faults {
						if f.name == cutOff && c.place.addr == "" {
							continue // members are cut off from each other: other tests do that
						}
						t.Run(f.name, func(*testing.T) { row[i+1] = c.measure(f.name, f.strike) })
					}
					table[n] = row
				})
			}
		})
	}
}

// measure has one fault befall the candidate whose command runs, again and again.
func (c *contest) measure(fault string, strike func(c *contest, at int) func()) string {
	c.t.Helper()
	const limit = time.Minute
	var took []time.Duration
	overlaps, never := 0, 0
	for range *compare {
		w, at := c.next(limit)
		if w == nil {
			c.t.Fatalf("within %v no command begins", limit)
		}
		time.Sleep(time.Second) // it is the leader, and all know
		for later, newer := c.next(10 * time.Millisecond); later != nil; later, newer = c.next(10 * time.Millisecond) {
			at = newer
		}
		began := time.Now()
		mend := strike(c, at)
		switch w, _ := c.next(limit); {
		case w == nil:
			never++
		default:
			took = append(took, w.Came.Sub(began))
			if !w.Alone {
				overlaps++
			}
		}
		// All begin anew: whatever a fault has left behind is gone.
		for _, s := range c.servers {
			s.Kill()
		}
		mend()
		c.drain()
		for _, s := range c.servers {
			s.Start()
		}
		if never > 0 {
			break // it would be again, and takes long
		}
	}
	slices.Sort(took)
	cell := fmt.Sprintf("none within %v", limit)
	if len(took) > 0 {
		cell = fmt.Sprintf("%.2f s, %.2f s", took[len(took)/2].Seconds(), took[len(took)-1].Seconds())
	}
	if overlaps > 0 {
		cell += ", **two run**"
	}
	c.t.Logf("%s | %s | median, at most: %s; %d of %d overlap; none within %v: %d", c.way.name, fault, cell, overlaps, *compare, limit, never)
	if overlaps > 0 && (strings.HasPrefix(c.way.name, "batuta-engine") || strings.HasSuffix(c.way.name, "quorum")) {
		c.t.Errorf("commands overlap")
	}
	return cell
}

// drain forgets the commands that have begun.
func (c *contest) drain() {
	for c.factory.Within(10*time.Millisecond) != nil {
	}
}
