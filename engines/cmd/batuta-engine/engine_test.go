package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/internal/enginetest"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/work/run/runtest"
)

var rounds = flag.Int("rounds", 1, "rounds of each fault before the witness")

// TestMain lets the test binary be batuta-engine, its guard, and the command that it runs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "worker":
			runtest.Work(os.Args[:2], os.Args[2:])
			return
		case "client-go":
			standByClientGo(os.Args[2], os.Args[3:6], os.Args[6:])
			return
		case "nats-key", "set-nx":
			standByOwnWay(os.Args[1], os.Args[2], os.Args[3], os.Args[4:])
			return
		case "run", "agent", "status", "watch", "guard":
			os.Exit(execute(context.Background(), os.Args[1:], env{os.Stdout, os.Stderr, os.LookupEnv}))
		}
	}
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		os.Setenv(name, enginetest.S3User) // of this process and those that it starts
	}
	os.Exit(m.Run())
}

// place is a real server of an engine, and the flags that name it by an address.
type place struct {
	addr  string
	flags func(addr string) []string
}

func serveEtcd(t *testing.T) place {
	return place{enginetest.ServeEtcd(t, 1).Addrs[0], func(addr string) []string { return []string{"--etcd", addr} }}
}

func servePostgres(t *testing.T) place {
	return place{enginetest.ServePostgres(t).Addr, func(addr string) []string { return []string{"--postgres", enginetest.PostgresURL(addr)} }}
}

func serveKubernetes(t *testing.T) place {
	k := enginetest.ServeKubernetes(t)
	return place{k.Addr, func(addr string) []string {
		return []string{"--kubernetes", "default", "--kubeconfig", k.Kubeconfig(t, addr)}
	}}
}

func serveNats(t *testing.T) place {
	return place{enginetest.ServeNats(t, 1).Addrs[0], func(addr string) []string { return []string{"--nats", "nats://" + addr} }}
}

func serveRedis(t *testing.T) place {
	s := enginetest.ServeRedis(t)
	// It has had a leader: without a record the first one waits for a lease.
	if err := enginetest.DialRedis(t, s.Addr).HSet(t.Context(), "batuta:default", "epoch", 1, "lasts_ms", 1, "beat", 0, "resigned", 1).Err(); err != nil {
		t.Fatal(err)
	}
	return place{s.Addr, func(addr string) []string { return []string{"--redis", addr} }}
}

func serveMySQL(t *testing.T) place {
	return place{enginetest.ServeMySQL(t).Addr, func(addr string) []string { return []string{"--mysql", enginetest.MySQLURL(addr)} }}
}

func serveS3(t *testing.T) place {
	_, addrs := enginetest.ServeS3(t, 1)
	return place{addrs[0], func(addr string) []string {
		return []string{"--s3", "s3://" + enginetest.Bucket, "--s3-endpoint", "http://" + addr}
	}}
}

func serveConsul(t *testing.T) place {
	return place{enginetest.ServeConsul(t, 1, nil).Addrs[0], func(addr string) []string { return []string{"--consul", addr} }}
}

var places = map[string]func(*testing.T) place{"etcd": serveEtcd, "postgres": servePostgres, "kubernetes": serveKubernetes, "nats": serveNats, "redis": serveRedis, "mysql": serveMySQL, "s3": serveS3, "consul": serveConsul}

// ask runs a command that asks, in this process.
func ask(args ...string) (code int, said string) {
	var out bytes.Buffer
	code = execute(context.Background(), args, env{&out, &out, func(string) (string, bool) { return "", false }})
	return code, out.String()
}

// runs are three processes of "batuta-engine run", each with a line of its own to the engine. What they run must be alone to lock a
// file: that is the witness from outside.
type runs struct {
	t       *testing.T
	factory *runtest.Factory
	engine  place
	lock    string
	lines   [3]*enginetest.Proxy
	servers [3]*enginetest.Server
}

func (r *runs) start(lease time.Duration) {
	for i := range r.lines {
		r.lines[i] = enginetest.NewProxy(r.t, r.engine.addr)
		argv := append([]string{"run", "--id", strconv.Itoa(i + 1), "--lease", lease.String(), "--http", "off", "--grace", "100ms"}, r.engine.flags(r.lines[i].Addr())...)
		argv = append(argv, "--", os.Args[0], "worker")
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

// onEach starts three candidates on each engine, and does that with them.
func onEach(t *testing.T, lease time.Duration, do func(r *runs)) {
	t.Parallel()
	for name, serve := range places {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &runs{t: t, factory: runtest.NewFactory(t), engine: serve(t), lock: filepath.Join(t.TempDir(), "lock")}
			r.start(lease)
			do(r)
		})
	}
}

// Whatever happens to the leader, its command is dead before the next one's begins.
func TestAWitnessSeesOneCommand(t *testing.T) {
	onEach(t, enginetest.Lease, func(r *runs) { r.strike(*rounds) })
}

// When a leader's process is killed, its guard gives the lead up as soon as the command is dead: nobody waits for the lease.
func TestAKilledLeaderIsNotWaitedFor(t *testing.T) {
	onEach(t, time.Minute, func(r *runs) {
		_, epoch, leader := r.next(0)
		began := time.Now()
		r.servers[leader].Kill()
		r.next(epoch)
		r.t.Logf("the next command begins %v later", time.Since(began).Round(time.Millisecond))
	})
}

// strike hits the leader by each fault in turn, and waits for the next command each time.
func (r *runs) strike(rounds int) {
	r.t.Helper()
	_, epoch, leader := r.next(0)
	for round := range rounds {
		for _, fault := range []struct {
			name string
			hit  func() (mend func())
		}{
			{"kill -9", func() func() { r.servers[leader].Kill(); return r.servers[leader].Start }},
			{"SIGSTOP", func() func() { return r.servers[leader].Freeze() }}, // and not its guard
			{"it is cut off from the engine", func() func() { return r.lines[leader].Cut() }},
			{"SIGTERM", func() func() {
				s := r.servers[leader]
				s.Signal(syscall.SIGTERM)
				return func() { s.Kill(); s.Start() }
			}},
		} {
			struck, began := leader, time.Now()
			mend := fault.hit()
			_, epoch, leader = r.next(epoch)
			r.t.Logf("round %d: %s of %d: %d works %v later", round+1, fault.name, struck+1, leader+1, time.Since(began).Round(time.Millisecond))
			mend()
		}
	}
}

// A leader keeps its lead when the server vanishes that its connections have led to, and new ones reach another.
func TestAServerBehindTheAddressVanishes(t *testing.T) {
	t.Parallel()
	k := enginetest.ServeKubernetes(t)
	line := enginetest.NewProxy(t, k.Addr)
	flags := engineFlags{kubernetes: "default", kubeconfig: k.Kubeconfig(t, line.Addr()), election: "vanishes"}
	engine, err := flags.open()
	if err != nil {
		t.Fatal(err)
	}
	e := enginetest.Start(t, engine, engines.Config{ID: "1", Lease: 20 * time.Second, StandAlways: true})
	enginetest.Await(t, "it leads", func(context.Context) error {
		if !e.IsLeader() {
			return errors.New("it does not")
		}
		return nil
	})
	token := e.Leader().Token
	line.Drop()
	before := k.Lease(t, "vanishes").Spec.RenewTime
	enginetest.Await(t, "it renews its lease", func(context.Context) error {
		if k.Lease(t, "vanishes").Spec.RenewTime.Equal(before) {
			return errors.New("it has not")
		}
		return nil
	})
	if now := e.Leader().Token; now != token {
		t.Errorf("it led under %s, and does under %q", token, now)
	}
}

// status tells who leads as long as it renews, and nobody when all have gone.
func TestStatus(t *testing.T) {
	t.Parallel()
	etcd := serveEtcd(t).addr
	if code, said := ask("leader", "--etcd", etcd); code != cli.NoLeader {
		t.Errorf("leader, when nobody has ever led, ends with %d: %s", code, said)
	}
	f := runtest.NewFactory(t)
	argv := append([]string{"run", "--etcd", etcd, "--id", "one", "--election", "db", "--lease", "6s", "--http", "off", "--advertise", "db.example:5432", "--", os.Args[0], "worker"}, f.Argv("quit=0")...)
	s := enginetest.Serve(t, func() *exec.Cmd { return exec.Command(os.Args[0], argv...) })
	w := f.Next()
	code, said := ask("status", "--etcd", etcd, "--election", "db", "--json")
	var a answer
	if err := json.Unmarshal([]byte(said), &a); code != cli.Done || err != nil || a.Leader == nil || *a.Leader != "one" || a.Address != "db.example:5432" {
		t.Errorf("status ends with %d: %s", code, said)
	}
	if code, said := ask("leader", "--etcd", etcd, "--election", "db"); code != cli.Done || said != "one\n" {
		t.Errorf("leader ends with %d: %s", code, said)
	}
	s.Kill()
	f.Dies(w)
	if code, said := ask("status", "--etcd", etcd, "--election", "db"); code != cli.NoLeader {
		t.Errorf("status, when all have gone, ends with %d: %s", code, said)
	}
}

// A reader of text sees what is off, what is not published, and which server to look for.
func TestTextNamesWhatIsMissing(t *testing.T) {
	var b strings.Builder
	if err := writeLine(&b, "text", api.Line{Event: "ready", ID: "one", Election: "db", Algorithm: "etcd"}); err != nil || !strings.HasSuffix(b.String(), "on etcd, HTTP API off\n") {
		t.Errorf("%s, %v", b.String(), err)
	}
	if code, said := ask("status", "--redis", "127.0.0.1:1"); code != cli.Failed || !strings.HasSuffix(said, "connection refused; check the server, and the address in --redis\n") {
		t.Errorf("a server that is down: %d, %s", code, said)
	}
	if code, said := ask("status", "--redis", "127.0.0.1:1", "--etcd", "127.0.0.1:1"); code != cli.Usage || !strings.Contains(said, "2 engines are given") {
		t.Errorf("two engines: %d, %s", code, said)
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
		{"status", "--postgres", "postgres://127.0.0.1:1/d", "--election", "\xff"},
		{"status", "--no-such-flag"},
		{"no-such-command"},
	} {
		code, said := ask(args...)
		if code != cli.Usage || strings.Count(said, "\n") != 1 {
			t.Errorf("%q ends with %d: %s", args, code, said)
		}
	}
}

// The first of two servers accepts connections and does not answer: the second one is asked within a call or two.
func TestASilentPostgresIsPassedOver(t *testing.T) {
	t.Parallel()
	server := enginetest.ServePostgres(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	flags := engineFlags{postgres: "postgres://batuta@" + silent.Addr().String() + "," + server.Addr + "/postgres?sslmode=disable", election: "silent"}
	e, err := flags.openPostgres()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := e.Look(ctx); err != nil {
		t.Error(err)
	}
}
