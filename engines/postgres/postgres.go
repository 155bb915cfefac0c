// Package postgres holds elections on PostgreSQL, 12 or later.
//
// An election is a row of the table batuta_elections; its epoch comes from the sequence
// batuta_epochs, and fences. The table is made when it is missing, if that is allowed; [Schema] makes it
// beforehand. Each call is a single statement on a single row, so no connection has to stay open.
// PostgreSQL's clock is not used: the candidates count the lease, see package engines.
//
// An advisory lock is not used: PostgreSQL frees it as soon as it sees the session end, whether or not
// the work that the lock protects has ended, and keeps it while it does not see that.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/internal/record"
)

// Schema makes what elections need. A candidate needs SELECT, INSERT and UPDATE on the table, and USAGE on the
// sequence.
const Schema = `
CREATE SEQUENCE IF NOT EXISTS batuta_epochs;
CREATE TABLE IF NOT EXISTS batuta_elections (
	name     text PRIMARY KEY,
	holder   text NOT NULL,            -- id of the leader; empty: none
	address  text NOT NULL,
	process  text NOT NULL,
	epoch    bigint NOT NULL,
	beat     bigint NOT NULL,          -- rises with each renewal
	lasts_ms bigint NOT NULL,
	resigned boolean NOT NULL
)`

// Engine is an [engines.Engine] on PostgreSQL.
type Engine struct {
	pool     *pgxpool.Pool
	name     string
	listener chan *pgx.Conn // holds the connection that listens; nil in it: there is none
	seen     record.Highest
}

// New returns the engine of the election of that name, for a single candidate. The pool remains the caller's, and must be
// closed after the [engines.Election] only; it must lead to a server that takes writes
// (with several servers, target_session_attrs=read-write and a short connect_timeout).
func New(pool *pgxpool.Pool, name string) *Engine {
	e := &Engine{pool: pool, name: name, listener: make(chan *pgx.Conn, 1)}
	e.listener <- nil
	return e
}

// Fence returns [engines.ErrTaken] unless the leadership of that token holds the election of that
// name. No candidate can claim it before tx ends. The leader's own renewals wait for that too, so
// keep the transaction short.
func Fence(ctx context.Context, tx pgx.Tx, name string, token batuta.Token) error {
	var one int
	err := tx.QueryRow(ctx, `SELECT 1 FROM batuta_elections WHERE name = $1 AND epoch = $2 AND holder <> '' FOR SHARE`, name, int64(token.Epoch)).Scan(&one)
	if errors.Is(err, pgx.ErrNoRows) {
		return engines.ErrTaken
	}
	return err
}

// Name implements [engines.Engine].
func (e *Engine) Name() string { return "postgres" }

// none is the Version of a row that is not there.
const none = "none"

func version(epoch, beat int64) string { return fmt.Sprintf("%d.%d", epoch, beat) }

// Look implements [engines.Engine].
func (e *Engine) Look(ctx context.Context) (engines.Record, error) {
	var r engines.Record
	var standby bool
	var id string
	var epoch, beat, lasts int64
	err := e.pool.QueryRow(ctx, `SELECT pg_is_in_recovery(), holder, address, process, epoch, beat, lasts_ms, resigned FROM batuta_elections WHERE name = $1`, e.name).
		Scan(&standby, &id, &r.Address, &r.Process, &epoch, &beat, &lasts, &r.Resigned)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return engines.Record{Version: none}, nil
	case coded(err, noRelation):
		if err := e.create(ctx); err != nil {
			return engines.Record{}, err
		}
		return engines.Record{Version: none}, nil
	case err != nil:
		return engines.Record{}, explain(err)
	case standby:
		return engines.Record{}, errors.New("this server is a standby: elections need the one that takes writes; connect with target_session_attrs=read-write")
	}
	r.ID, r.Epoch, r.Version = batuta.ID(id), uint64(epoch), version(epoch, beat)
	r, err = record.Check(fmt.Sprintf("row %q of batuta_elections", e.name), r, lasts)
	if err == nil {
		e.seen.Note(r.Epoch)
	}
	return r, err
}

// create makes the table and the sequence; a different candidate may do so at this moment.
func (e *Engine) create(ctx context.Context) error {
	_, err := e.pool.Exec(ctx, Schema)
	const missing = "the table batuta_elections or the sequence batuta_epochs is missing, and cannot be made: %w"
	switch {
	case err == nil, coded(err, "23505", "42P07", "42710"):
		return nil
	case coded(err, noRight):
		return engines.Denied(missing, err)
	}
	return fmt.Errorf(missing, err)
}

// Codes of PostgreSQL's errors.
const (
	noRelation = "42P01" // a table or sequence does not exist
	noRight    = "42501"
)

func coded(err error, codes ...string) bool {
	said, ok := errors.AsType[*pgconn.PgError](err)
	return ok && slices.Contains(codes, said.Code)
}

// explain adds to a refusal what a candidate needs.
func explain(err error) error {
	switch {
	case coded(err, "28P01", "28000"):
		return engines.Denied("PostgreSQL refuses the user or the password: %w", err)
	case coded(err, noRight):
		return engines.Denied("PostgreSQL refuses: %w; "+needs, err)
	}
	return err
}

const needs = "a candidate needs SELECT, INSERT and UPDATE on batuta_elections, and USAGE on batuta_epochs"

// Check gives an error that wraps [engines.ErrDenied] when PostgreSQL would refuse a candidate's calls, and the client's
// error when PostgreSQL does not answer. It makes the table if that is missing, as Look does, and writes nothing else.
func (e *Engine) Check(ctx context.Context) error {
	if _, err := e.Look(ctx); err != nil {
		return err
	}
	var may bool // also with rights on columns only
	err := e.pool.QueryRow(ctx, `SELECT has_any_column_privilege('batuta_elections', 'INSERT') AND has_any_column_privilege('batuta_elections', 'UPDATE')
		AND has_sequence_privilege('batuta_epochs', 'USAGE, UPDATE')`).Scan(&may)
	if err == nil && !may {
		return engines.Denied("PostgreSQL would refuse a claim; " + needs)
	}
	return explain(err)
}

// Claim implements [engines.Engine].
func (e *Engine) Claim(ctx context.Context, seen, mine engines.Record) (engines.Record, error) {
	r, err := e.claim(ctx, seen, mine)
	if coded(err, noRelation) {
		if err := e.create(ctx); err != nil {
			return engines.Record{}, err
		}
		r, err = e.claim(ctx, seen, mine)
	}
	e.seen.Note(r.Epoch)
	return r, err
}

func (e *Engine) claim(ctx context.Context, seen, mine engines.Record) (engines.Record, error) {
	const row = `holder = $2, address = $3, process = $4, lasts_ms = $5, resigned = false`
	values := []any{e.name, string(mine.ID), mine.Address, mine.Process, max(mine.Lasts.Milliseconds(), 1)}
	statement := `INSERT INTO batuta_elections (name, holder, address, process, lasts_ms, resigned, beat, epoch)
		VALUES ($1, $2, $3, $4, $5, false, 0, greatest(nextval('batuta_epochs'), $6::bigint + 1)) ON CONFLICT DO NOTHING RETURNING epoch, beat`
	if seen.Version != none {
		var epoch, beat int64
		if _, err := fmt.Sscanf(seen.Version, "%d.%d", &epoch, &beat); err != nil {
			return engines.Record{}, err
		}
		statement = `UPDATE batuta_elections SET ` + row + `, beat = 0, epoch = greatest(nextval('batuta_epochs'), epoch + 1)
			WHERE name = $1 AND epoch = $6 AND beat = $7 RETURNING epoch, beat`
		values = append(values, epoch, beat)
	} else {
		values = append(values, int64(e.seen.Load()))
	}
	return e.swap(ctx, mine, true, statement, values...)
}

// Renew implements [engines.Engine].
func (e *Engine) Renew(ctx context.Context, mine engines.Record) (engines.Record, error) {
	return e.swap(ctx, mine, false, `UPDATE batuta_elections SET beat = beat + 1
		WHERE name = $1 AND epoch = $2 AND process = $3 RETURNING epoch, beat`, e.name, int64(mine.Epoch), mine.Process)
}

// Release implements [engines.Engine].
func (e *Engine) Release(ctx context.Context, mine engines.Record) error {
	_, err := e.swap(ctx, mine, true, `UPDATE batuta_elections SET beat = beat + 1, holder = '', address = '', process = '', resigned = true
		WHERE name = $1 AND epoch = $2 AND process = $3 RETURNING epoch, beat`, e.name, int64(mine.Epoch), mine.Process)
	return err
}

// channel is the channel of the notifications of a new leader.
const channel = "batuta_elections"

// swap runs a statement that returns the row's epoch and beat if it has replaced the row. The change
// is on disk before swap returns, of the synchronous standby too, whatever synchronous_commit is.
func (e *Engine) swap(ctx context.Context, mine engines.Record, tell bool, statement string, values ...any) (engines.Record, error) {
	var batch pgx.Batch // a single transaction
	batch.Queue(`SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') <> 'remote_apply'`)
	if tell {
		batch.Queue(`SELECT pg_notify($1, $2)`, channel, e.name)
	}
	var epoch, beat int64
	taken := false
	batch.Queue(statement, values...).QueryRow(func(row pgx.Row) error {
		err := row.Scan(&epoch, &beat)
		if taken = errors.Is(err, pgx.ErrNoRows); taken {
			return nil
		}
		return err
	})
	if err := e.pool.SendBatch(ctx, &batch).Close(); err != nil {
		return engines.Record{}, explain(err)
	}
	if taken {
		return engines.Record{}, engines.ErrTaken
	}
	mine.Epoch, mine.Version = uint64(epoch), version(epoch, beat)
	return mine, nil
}

// Changed implements [engines.Engine].
func (e *Engine) Changed(ctx context.Context, _ engines.Record) error {
	var conn *pgx.Conn
	select {
	case conn = <-e.listener:
	case <-ctx.Done():
		return ctx.Err()
	}
	if conn == nil {
		var err error
		if conn, err = e.listen(ctx); err != nil {
			e.listener <- nil
			return err
		}
		e.listener <- conn
		return nil // earlier notifications are missed
	}
	for {
		told, err := conn.WaitForNotification(ctx)
		if conn.IsClosed() {
			conn = nil
		}
		if err != nil || told.Payload == e.name {
			e.listener <- conn
			return err
		}
	}
}

// listen takes a connection out of the pool for good.
func (e *Engine) listen(ctx context.Context) (*pgx.Conn, error) {
	pooled, err := e.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	conn := pooled.Hijack()
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}

// Close implements [engines.Engine].
func (e *Engine) Close() error {
	conn := <-e.listener
	e.listener <- nil
	if conn == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return conn.Close(ctx)
}
