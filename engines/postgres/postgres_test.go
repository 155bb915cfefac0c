package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/internal/enginetest"
	"github.com/batuta-dev/batuta/engines/postgres"
)

func start(t *testing.T, p *pgxpool.Pool, name string, c engines.Config) *engines.Election {
	t.Helper()
	return enginetest.Start(t, postgres.New(p, name), c)
}

// The one conformance call, on a real server that is killed and started again.
func TestConformance(t *testing.T) {
	t.Parallel()
	server := enginetest.ServePostgres(t)
	enginetest.Conform(t, []string{server.Addr}, server.Fail, func(name string, lines []string) engines.Engine {
		return postgres.New(enginetest.DialPostgres(t, lines[0]), name)
	})
}

// A transaction that is fenced happens while its leadership holds the election, and not after; epochs rise when the row is
// deleted, too. The server does not wait for its disk by default: an election does.
func TestFence(t *testing.T) {
	t.Parallel()
	server := enginetest.ServePostgres(t, "synchronous_commit=off")
	p := enginetest.DialPostgres(t, server.Addr)
	e := start(t, p, "fence", engines.Config{ID: "1", StandAlways: true})
	check := func(token batuta.Token) error {
		tx, err := p.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(context.Background())
		return postgres.Fence(t.Context(), tx, "fence", token)
	}
	first := enginetest.Leads(t, batuta.Token{}, e).Leader().Token
	if err := check(first); err != nil && e.Leader().Token == first {
		t.Errorf("the leader's transaction: %v", err)
	}
	if err := e.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := enginetest.Leads(t, first, e).Leader().Token
	if err := check(first); !errors.Is(err, engines.ErrTaken) {
		t.Errorf("a transaction of %s while %s leads: %v", first, second, err)
	}
	if _, err := p.Exec(t.Context(), "DELETE FROM batuta_elections"); err != nil {
		t.Fatal(err)
	}
	enginetest.Leads(t, second, e)
}

// A server that has lost its table and sequence, as an empty one that takes its place, has epochs above those that a
// candidate has read. The sequence is made again when only it is missing.
func TestTheTableIsMissing(t *testing.T) {
	t.Parallel()
	p := enginetest.DialPostgres(t, enginetest.ServePostgres(t).Addr)
	e := start(t, p, "x", engines.Config{ID: "1", StandAlways: true})
	last := enginetest.Leads(t, batuta.Token{}, e).Leader().Token
	for _, what := range []string{"TABLE batuta_elections; DROP SEQUENCE batuta_epochs", "TABLE batuta_elections; DROP SEQUENCE batuta_epochs", "SEQUENCE batuta_epochs"} {
		if _, err := p.Exec(t.Context(), "DROP "+what); err != nil {
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
	p := enginetest.DialPostgres(t, enginetest.ServePostgres(t).Addr)
	if _, err := p.Exec(t.Context(), postgres.Schema); err != nil {
		t.Fatal(err)
	}
	enginetest.Damage(t, "row %q of batuta_elections", func(name string, r enginetest.Raw) {
		if _, err := p.Exec(t.Context(), "INSERT INTO batuta_elections VALUES ($1, $2, $3, $4, $5, 0, $6, false)", name, r.ID, r.Address, r.Process, r.Epoch, r.Lasts); err != nil {
			t.Fatal(err)
		}
	}, nil, func(name string) engines.Engine { return postgres.New(p, name) })
}

// Who may not make the table is told what is missing.
func TestNoTable(t *testing.T) {
	t.Parallel()
	server := enginetest.ServePostgres(t, "default_transaction_read_only=on")
	e := start(t, enginetest.DialPostgres(t, server.Addr), "none", engines.Config{ID: "1", StandAlways: true})
	enginetest.Await(t, "status tells", func(context.Context) error {
		if s := statusOf(e); s.StandingWhy == "" || s.Role != batuta.RoleCandidate {
			return fmt.Errorf("it is %s, %q", s.Role, s.StandingWhy)
		}
		return nil
	})
}

// statusOf is what a member reports; the last, once it has ended.
func statusOf(n *engines.Election) batuta.Status {
	s, _ := n.Status(context.Background())
	return s
}
