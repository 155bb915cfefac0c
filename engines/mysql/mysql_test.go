package mysql_test

import (
	"errors"
	"testing"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/internal/enginetest"
	"github.com/batuta-dev/batuta/engines/mysql"
)

func start(t *testing.T, addr, name string) *engines.Election {
	t.Helper()
	return enginetest.Start(t, mysql.New(enginetest.DialMySQL(t, addr), name), engines.Config{ID: "1", StandAlways: true})
}

// The one conformance call, on a real server that is killed and started again.
func TestConformance(t *testing.T) {
	t.Parallel()
	s := enginetest.ServeMySQL(t)
	enginetest.Conform(t, []string{s.Addr}, s.Fail, func(name string, lines []string) engines.Engine {
		return mysql.New(enginetest.DialMySQL(t, lines[0]), name)
	})
}

// A transaction that is fenced happens while its leadership holds the election, and not after. Epochs rise when the row is
// deleted, too. Names that differ by a space or a case are two elections.
func TestFence(t *testing.T) {
	t.Parallel()
	s := enginetest.ServeMySQL(t)
	db := enginetest.DialMySQL(t, s.Addr)
	e := start(t, s.Addr, "fence")
	check := func(token batuta.Token) error {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		return mysql.Fence(t.Context(), tx, "fence", token)
	}
	first := enginetest.Leads(t, batuta.Token{}, e).Leader().Token
	if err := check(first); err != nil && e.Leader().Token == first {
		t.Errorf("the leader's transaction: %v", err)
	}
	for _, name := range []string{"fence ", "Fence"} {
		enginetest.Leads(t, batuta.Token{}, start(t, s.Addr, name))
	}
	if err := e.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := enginetest.Leads(t, first, e).Leader().Token
	if err := check(first); !errors.Is(err, engines.ErrTaken) {
		t.Errorf("a transaction of %s while %s leads: %v", first, second, err)
	}
	if _, err := db.ExecContext(t.Context(), "DELETE FROM batuta_elections"); err != nil {
		t.Fatal(err)
	}
	enginetest.Leads(t, second, e)
}

// A server that has lost its tables, as an empty one that takes its place, has epochs above those that a candidate has read.
// The table of epochs is made again when only it is missing.
func TestTheTablesAreMissing(t *testing.T) {
	t.Parallel()
	s := enginetest.ServeMySQL(t)
	db := enginetest.DialMySQL(t, s.Addr)
	e := start(t, s.Addr, "x")
	last := enginetest.Leads(t, batuta.Token{}, e).Leader().Token
	for range 3 {
		if err := e.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		last = enginetest.Leads(t, last, e).Leader().Token
	}
	for _, tables := range []string{"batuta_elections", "batuta_epochs, batuta_elections", "batuta_epochs"} {
		if _, err := db.ExecContext(t.Context(), "DROP TABLE "+tables); err != nil {
			t.Fatal(err)
		}
		if err := e.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		last = enginetest.Leads(t, last, e).Leader().Token
	}
}

// Damaged records are refused.
func TestDamage(t *testing.T) {
	t.Parallel()
	db := enginetest.DialMySQL(t, enginetest.ServeMySQL(t).Addr)
	for _, statement := range mysql.Schema {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	enginetest.Damage(t, "row %q of batuta_elections", func(name string, r enginetest.Raw) {
		if _, err := db.ExecContext(t.Context(), "INSERT INTO batuta_elections VALUES (?, ?, ?, ?, ?, 0, ?, FALSE)", name, r.ID, r.Address, r.Process, r.Epoch, r.Lasts); err != nil {
			t.Fatal(err)
		}
	}, nil, func(name string) engines.Engine { return mysql.New(db, name) })
}

// Servers that may forget what they have confirmed, take no writes, or do not commit by themselves are refused.
func TestServers(t *testing.T) {
	t.Parallel()
	s := enginetest.ServeMySQL(t, "--log-bin=log", "--server-id=1", "--sync-binlog=1")
	db := enginetest.DialMySQL(t, s.Addr)
	e := start(t, s.Addr, "x")
	enginetest.Leads(t, batuta.Token{}, e)
	for _, setting := range []struct{ wrong, right, reason string }{
		{"innodb_flush_log_at_trx_commit = 2", "innodb_flush_log_at_trx_commit = 1", "innodb_flush_log_at_trx_commit is 2"},
		{"sync_binlog = 0", "sync_binlog = 1", "sync_binlog is 0"},
		{"read_only = 1", "read_only = 0", "this server is read-only"},
		{"autocommit = 0", "autocommit = 1", "autocommit is 0"},
	} {
		if _, err := db.ExecContext(t.Context(), "SET GLOBAL "+setting.wrong); err != nil {
			t.Fatal(err)
		}
		enginetest.Reports(t, start(t, s.Addr, "y"), setting.reason)
		if _, err := db.ExecContext(t.Context(), "SET GLOBAL "+setting.right); err != nil {
			t.Fatal(err)
		}
	}
	enginetest.Leads(t, batuta.Token{}, e)
}

// A server that does not commit by itself is refused also by the candidate that makes the tables.
func TestFirstClaimIsCommitted(t *testing.T) {
	t.Parallel()
	s := enginetest.ServeMySQL(t, "--autocommit=0")
	enginetest.Reports(t, start(t, s.Addr, "x"), "autocommit is 0")
}
