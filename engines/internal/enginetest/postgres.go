package enginetest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Postgres is a real PostgreSQL server.
type Postgres struct {
	*Server
	Addr string // HOST:PORT
}

// ServePostgres starts a server, with its own database in its own directory.
func ServePostgres(t testing.TB, settings ...string) *Postgres {
	t.Helper()
	const debian = "/usr/lib/postgresql/*/bin"
	initdb, program := Program(t, "initdb", "postgresql", debian), Program(t, "postgres", "postgresql", debian)
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
	port := strconv.Itoa(Ports(t, 1)[0])
	args := []string{program, "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=off"}
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	p := &Postgres{Addr: "127.0.0.1:" + port}
	p.Server = Serve(t, func() *exec.Cmd {
		// A killed server leaves processes behind for a moment, and a new server refuses to start while they exist.
		cmd := exec.Command("sh", append([]string{"-c", `until "$@"; do sleep 0.2; done`, "sh"}, args...)...)
		cmd.SysProcAttr, cmd.Dir = &syscall.SysProcAttr{Credential: as}, dir
		return cmd
	})
	up := DialPostgres(t, p.Addr)
	Await(t, "PostgreSQL answers", func(ctx context.Context) error { return up.Ping(ctx) })
	return p
}

// unprivileged is the user of the server, because PostgreSQL refuses to run as root. That user gets dir.
func unprivileged(t testing.TB, dir string) *syscall.Credential {
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

// PostgresURL is the database of a server, reached at addr.
func PostgresURL(addr string) string {
	return fmt.Sprintf("postgres://batuta@%s/postgres?sslmode=disable&connect_timeout=5", addr)
}

// DialPostgres makes a pool of its own.
func DialPostgres(t testing.TB, addr string) *pgxpool.Pool {
	t.Helper()
	p, err := pgxpool.New(context.Background(), PostgresURL(addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}
