package enginetest

import (
	"context"
	"database/sql"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// MySQL is a real server of MariaDB.
type MySQL struct {
	*Server
	Addr string // HOST:PORT
}

// ServeMySQL starts a server with its own directory. Its user batuta has no password and all rights.
func ServeMySQL(t testing.TB, settings ...string) *MySQL {
	t.Helper()
	install, program := Program(t, "mariadb-install-db", "mariadb-server"), Program(t, "mariadbd", "mariadb-server", "/usr/sbin")
	dir := t.TempDir()
	data, port := filepath.Join(dir, "data"), strconv.Itoa(Ports(t, 1)[0])
	args := []string{"--no-defaults", "--datadir=" + data, "--tmpdir=" + dir} // a server that starts empties the directory of temporary tables
	if os.Getuid() == 0 {
		u, err := user.Current()
		if err != nil {
			t.Fatal(err)
		}
		args = append(args, "--user="+u.Username)
	}
	if said, err := exec.Command(install, append(args, "--auth-root-authentication-method=normal", "--skip-test-db")...).CombinedOutput(); err != nil {
		t.Fatalf("mariadb-install-db: %v\n%s", err, said)
	}
	const users = "CREATE DATABASE IF NOT EXISTS batuta;\nCREATE USER IF NOT EXISTS batuta;\nGRANT ALL ON *.* TO batuta WITH GRANT OPTION;\n"
	first := filepath.Join(dir, "first.sql")
	if err := os.WriteFile(first, []byte(users), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append(args, "--init-file="+first, "--bind-address=127.0.0.1", "--port="+port, "--socket="+filepath.Join(dir, "s"), "--pid-file="+filepath.Join(dir, "pid"), "--skip-name-resolve", "--innodb-buffer-pool-size=16M", "--innodb-log-file-size=8M")
	args = append(args, settings...)
	m := &MySQL{Addr: "127.0.0.1:" + port}
	m.Server = Serve(t, func() *exec.Cmd { return exec.Command(program, args...) })
	up := DialMySQL(t, m.Addr)
	Await(t, "MariaDB answers", func(ctx context.Context) error { return up.PingContext(ctx) })
	return m
}

// MySQLURL is the database of a server, reached at addr.
func MySQLURL(addr string) string { return "mysql://batuta@" + addr + "/batuta" }

// DialMySQL makes a pool of its own.
func DialMySQL(t testing.TB, addr string) *sql.DB {
	t.Helper()
	config := mysql.NewConfig()
	config.User, config.Net, config.Addr, config.DBName, config.Timeout, config.Logger = "batuta", "tcp", addr, "batuta", time.Second, &mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}
