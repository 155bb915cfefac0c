package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/electiontest/electortest"
	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/internal/enginetest"
	"github.com/batuta-dev/batuta/engines/postgres"
)

// lease is short, so that the tests are, and bears a machine that stands still for seconds.
const lease = 6 * time.Second

// serve starts a real server, with a database of its own in a directory of its own.
func serve(t *testing.T, settings ...string) (server *enginetest.Server, port int) {
	t.Helper()
	const debian = "/usr/lib/postgresql/*/bin"
	initdb, program := enginetest.Program(t, "initdb", "postgresql", debian), enginetest.Program(t, "postgres", "postgresql", debian)
	dir, err := os.MkdirTemp("", "postgres")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	as := unprivileged(t, dir)
	data := filepath.Join(dir, "data")
	made := exec.Command(initdb, "-D", data, "-U", "batuta", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale", "C")
	made.SysProcAttr, made.Dir = &syscall.SysProcAttr{Credential: as}, dir
	if said, err := made.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, said)
	}
	port = enginetest.Ports(t, 1)[0]
	args := []string{program, "-D", data, "-p", strconv.Itoa(port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off"}
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	server = enginetest.Serve(t, func() *exec.Cmd {
		// One that was killed leaves processes behind for a moment, and a new one refuses to start beside them.
		cmd := exec.Command("sh", append([]string{"-c", `until "$@"; do sleep 0.2; done`, "sh"}, args...)...)
		cmd.SysProcAttr, cmd.Dir = &syscall.SysProcAttr{Credential: as}, dir
		return cmd
	})
	up := pool(t, port)
	enginetest.Await(t, "PostgreSQL answers", func(ctx context.Context) error { return up.Ping(ctx) })
	return server, port
}

// unprivileged is whom the server runs as, to whom dir is given: it refuses to be root.
func unprivileged(t *testing.T, dir string) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

func pool(t *testing.T, port int) *pgxpool.Pool {
	t.Helper()
	p, err := pgxpool.New(context.Background(), fmt.Sprintf("postgres://batuta@127.0.0.1:%d/postgres?sslmode=disable&connect_timeout=5", port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func start(t *testing.T, p *pgxpool.Pool, name string, c engines.Config) *engines.Election {
	t.Helper()
	c.Lease, c.Logger = lease, slog.New(slog.NewTextHandler(t.Output(), nil))
	e, err := engines.Start(t.Context(), postgres.New(p, name), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// The one conformance call, on a real server that is killed and started again.
func TestConformance(t *testing.T) {
	t.Parallel()
	server, port := serve(t)
	electortest.Run(t, func(t *testing.T) electortest.Candidates {
		name := fmt.Sprintf("test %d", rand.Int64())
		lines := map[batuta.ID]*enginetest.Proxy{}
		return electortest.Candidates{
			OneLeader: true,
			Start: func(id batuta.ID) batuta.Elector {
				lines[id] = enginetest.NewProxy(t, fmt.Sprintf("127.0.0.1:%d", port))
				_, at, _ := splitPort(lines[id].Addr())
				return start(t, pool(t, at), name, engines.Config{ID: string(id)})
			},
			Cut: func(id batuta.ID) func() { return lines[id].Cut() },
			Fail: func() func() {
				server.Kill()
				return server.Start
			},
		}
	})
}

func splitPort(addr string) (host string, port int, err error) {
	_, err = fmt.Sscanf(addr, "127.0.0.1:%d", &port)
	return "127.0.0.1", port, err
}

// leads waits until e leads under a token above floor.
func leads(t *testing.T, e *engines.Election, floor batuta.Token) batuta.Token {
	t.Helper()
	var token batuta.Token
	enginetest.Await(t, "it leads", func(context.Context) error {
		if token = e.Leader().Token; !e.IsLeader() || !token.Above(floor) {
			return fmt.Errorf("it sees %q", token)
		}
		return nil
	})
	return token
}

// A transaction that is fenced happens while its leadership holds the election, and not after; epochs rise when the row is
// deleted, too. The server does not wait for its disk by default: an election does.
func TestFence(t *testing.T) {
	t.Parallel()
	_, port := serve(t, "synchronous_commit=off")
	p := pool(t, port)
	e := start(t, p, "fence", engines.Config{ID: "1", StandAlways: true})
	check := func(token batuta.Token) error {
		tx, err := p.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(context.Background())
		return postgres.Fence(t.Context(), tx, "fence", token)
	}
	first := leads(t, e, batuta.Token{})
	if err := check(first); err != nil && e.Leader().Token == first {
		t.Errorf("the leader's transaction: %v", err)
	}
	if err := e.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := leads(t, e, first)
	if err := check(first); !errors.Is(err, engines.ErrTaken) {
		t.Errorf("a transaction of %s while %s leads: %v", first, second, err)
	}
	if _, err := p.Exec(t.Context(), "DELETE FROM batuta_elections"); err != nil {
		t.Fatal(err)
	}
	leads(t, e, second)
}

// Who may not make the table is told what is missing.
func TestNoTable(t *testing.T) {
	t.Parallel()
	_, port := serve(t, "default_transaction_read_only=on")
	e := start(t, pool(t, port), "none", engines.Config{ID: "1", StandAlways: true})
	enginetest.Await(t, "status tells", func(context.Context) error {
		if s := e.Status(); s.StandingWhy == "" || s.Role != batuta.RoleCandidate {
			return fmt.Errorf("it is %s, %q", s.Role, s.StandingWhy)
		}
		return nil
	})
}
