package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

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

// A claim waits for the synchronous standby, whatever the server's default is: without the standby there is no leader.
func TestTheStandbyConfirms(t *testing.T) {
	t.Parallel()
	server := enginetest.ServePostgres(t, "synchronous_standby_names=standby", "synchronous_commit=local")
	e := start(t, enginetest.DialPostgres(t, server.Addr), "standby", engines.Config{ID: "1", StandAlways: true})
	enginetest.Reports(t, e, `no answer to the call "claim"`)
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

// A user without a right receives which rights a candidate needs, and the log repeats it once a minute.
func TestRights(t *testing.T) {
	t.Parallel()
	server := enginetest.ServePostgres(t)
	p := enginetest.DialPostgres(t, server.Addr)
	as := func(user string) *pgxpool.Pool {
		config := p.Config()
		config.ConnConfig.User = user
		own, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(own.Close)
		return own
	}
	do := func(statement string) {
		t.Helper()
		if _, err := p.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	do("CREATE ROLE app LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	refused := func(user, reason string) {
		t.Helper()
		e := postgres.New(as(user), "rights")
		defer e.Close()
		check := e.Check(t.Context())
		seen, err := e.Look(t.Context())
		if err == nil {
			_, err = e.Claim(t.Context(), seen, engines.Record{ID: "1", Process: "p"})
		}
		for _, err := range []error{check, err} {
			if !errors.Is(err, engines.ErrDenied) || !strings.Contains(err.Error(), reason) {
				t.Errorf("user %s: %v; want a refusal with %q", user, err, reason)
			}
		}
	}
	const needs = "a candidate needs SELECT, INSERT and UPDATE on batuta_elections, and USAGE on batuta_epochs"
	refused("nobody-there", "PostgreSQL refuses the user or the password")
	refused("app", "is missing, and cannot be made: ")
	do(postgres.Schema)
	refused("app", needs)
	do("GRANT SELECT ON batuta_elections TO app; GRANT USAGE ON batuta_epochs TO app")
	refused("app", needs)
	do("REVOKE USAGE ON batuta_epochs FROM app; GRANT INSERT (name), UPDATE (beat) ON batuta_elections TO app")
	refused("app", needs)
	do("GRANT SELECT, INSERT, UPDATE ON batuta_elections TO app")
	refused("app", needs)
	for _, right := range []string{"UPDATE", "USAGE"} { // nextval needs one of these
		do("GRANT " + right + " ON SEQUENCE batuta_epochs TO app")
		if err := postgres.New(as("app"), "rights").Check(t.Context()); err != nil {
			t.Errorf("with %s: %v", right, err)
		}
		if right == "UPDATE" {
			do("REVOKE UPDATE ON SEQUENCE batuta_epochs FROM app")
		}
	}
	enginetest.Leads(t, batuta.Token{}, start(t, as("app"), "rights", engines.Config{ID: "1", StandAlways: true}))
}

// A claim makes what is missing once, and does not claim again and again where that is of no use.
func TestAClaimThatMakesNothingEnds(t *testing.T) {
	t.Parallel()
	p := enginetest.DialPostgres(t, enginetest.ServePostgres(t).Addr)
	for _, statement := range []string{postgres.Schema,
		"CREATE FUNCTION odd() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO missing VALUES (1); RETURN NEW; END'",
		"CREATE TRIGGER odd BEFORE INSERT ON batuta_elections FOR EACH ROW EXECUTE FUNCTION odd()"} {
		if _, err := p.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	e := postgres.New(p, "odd")
	defer e.Close()
	seen, err := e.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := e.Claim(ctx, seen, engines.Record{ID: "1", Process: "p"}); err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), `"missing"`) {
		t.Errorf("the claim ends with %v, %v", err, ctx.Err())
	}
}
