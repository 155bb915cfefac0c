// Package mysql holds elections on MySQL 8.0 or later, or MariaDB 10.3 or later.
//
// An election is a row of the table batuta_elections. Its epoch comes from the single row of the table batuta_epochs, and
// fences. The tables are made when they are missing, if that is allowed; [Schema] makes them beforehand. Each call changes
// the row by a single statement, so that no lock is left when a candidate stops in the middle. The server's clock is not
// used: the candidates count the lease, see package engines.
//
// GET_LOCK is not used: the lock is free as soon as the server sees the session end, whether or not the work that it
// protects has, and it is not replicated.
package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	driver "github.com/go-sql-driver/mysql"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/internal/record"
)

// Schema is the statements that create what elections need. A candidate needs SELECT, INSERT and UPDATE on both tables.
var Schema = []string{
	`CREATE TABLE IF NOT EXISTS batuta_epochs (one TINYINT PRIMARY KEY, epoch BIGINT NOT NULL) ENGINE=InnoDB`,
	`INSERT IGNORE INTO batuta_epochs VALUES (1, 0)`,
	`CREATE TABLE IF NOT EXISTS batuta_elections (
		name     VARBINARY(256) PRIMARY KEY,
		holder   VARBINARY(1000) NOT NULL, -- id of the leader; empty: none
		address  VARBINARY(1000) NOT NULL,
		process  VARBINARY(200) NOT NULL,
		epoch    BIGINT NOT NULL,
		beat     BIGINT NOT NULL, -- rises with each renewal
		lasts_ms BIGINT NOT NULL,
		resigned BOOLEAN NOT NULL
	) ENGINE=InnoDB`,
}

// Engine is an [engines.Engine] on MySQL or MariaDB.
type Engine struct {
	db   *sql.DB
	name string
	seen record.Highest
}

// New returns the engine of the election of that name, for a single candidate. The pool remains the caller's, and must be
// closed after the [engines.Election] only. It must lead to a single server that takes writes, with autocommit. If its
// address can come to lead to a different server, limit the life of its connections ([sql.DB.SetConnMaxLifetime], such as
// a minute): a pool keeps connections to a server that has become read-only.
func New(db *sql.DB, name string) *Engine { return &Engine{db: db, name: name} }

// Fence returns [engines.ErrTaken] unless the leadership of that token holds the election of that name. No candidate can
// claim it before tx ends. The leader's own renewals wait for that too, so keep the transaction short.
func Fence(ctx context.Context, tx *sql.Tx, name string, token batuta.Token) error {
	var one int
	err := tx.QueryRowContext(ctx, `SELECT 1 FROM batuta_elections WHERE name = ? AND epoch = ? AND holder <> '' LOCK IN SHARE MODE`, []byte(name), int64(token.Epoch)).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return engines.ErrTaken
	}
	return err
}

// Name implements [engines.Engine].
func (e *Engine) Name() string { return "mysql" }

// none is the Version of a row that is not there.
const none = "none"

func version(epoch, beat int64) string { return fmt.Sprintf("%d.%d", epoch, beat) }

// Look implements [engines.Engine].
func (e *Engine) Look(ctx context.Context) (engines.Record, error) {
	var readOnly string // 0, 1; from MariaDB 12: OFF, ON, NO_LOCK…
	var binlog, autocommit bool
	var flush, sync int
	var id, address, process sql.NullString
	var epoch, beat, lasts sql.NullInt64
	var resigned sql.NullBool
	err := e.db.QueryRowContext(ctx, `SELECT @@global.read_only, @@global.innodb_flush_log_at_trx_commit, @@global.log_bin, @@global.sync_binlog, @@autocommit,
		holder, address, process, epoch, beat, lasts_ms, resigned
		FROM (SELECT 1 AS one) o LEFT JOIN batuta_elections ON name = ?`, []byte(e.name)).
		Scan(&readOnly, &flush, &binlog, &sync, &autocommit, &id, &address, &process, &epoch, &beat, &lasts, &resigned)
	switch {
	case coded(err, noTable):
		if err := e.create(ctx); err != nil {
			return engines.Record{}, err
		}
		return e.Look(ctx)
	case err != nil:
		return engines.Record{}, e.explain(err)
	case !autocommit:
		return engines.Record{}, errors.New("autocommit is 0: a claim would not be committed; set 1, on the server or for the connections of the pool")
	case readOnly != "0" && readOnly != "OFF":
		return engines.Record{}, errors.New("this server is read-only: elections need the one that takes writes")
	case flush != 1:
		return engines.Record{}, fmt.Errorf("innodb_flush_log_at_trx_commit is %d: a loss of power would take confirmed writes; set 1", flush)
	case binlog && sync != 1:
		return engines.Record{}, fmt.Errorf("sync_binlog is %d: after a loss of power the server takes back what its binary log lacks; set 1", sync)
	case !epoch.Valid:
		return engines.Record{Version: none}, nil
	}
	r := engines.Record{ID: batuta.ID(id.String), Address: address.String, Process: process.String, Epoch: uint64(epoch.Int64), Version: version(epoch.Int64, beat.Int64), Resigned: resigned.Bool}
	r, err = record.Check(fmt.Sprintf("row %q of batuta_elections", e.name), r, lasts.Int64)
	if err == nil {
		e.seen.Note(r.Epoch)
	}
	return r, err
}

func (e *Engine) create(ctx context.Context) error {
	for _, statement := range Schema {
		if _, err := e.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("the tables batuta_elections and batuta_epochs are missing, and cannot be made: %w", e.explain(err))
		}
	}
	return nil
}

// Changed implements [engines.Engine]. The server announces no change.
func (e *Engine) Changed(ctx context.Context, _ engines.Record) error {
	<-ctx.Done()
	return ctx.Err()
}

// Claim implements [engines.Engine].
func (e *Engine) Claim(ctx context.Context, seen, mine engines.Record) (engines.Record, error) {
	taken, err := e.nextEpoch(ctx, seen)
	if coded(err, noTable) {
		if err := e.create(ctx); err != nil {
			return engines.Record{}, err
		}
		taken, err = e.nextEpoch(ctx, seen)
	}
	if err != nil {
		return engines.Record{}, e.explain(err)
	}
	if rows, _ := taken.RowsAffected(); rows != 1 {
		return engines.Record{}, errors.New("the table batuta_epochs is empty: insert into it (1, EPOCH), above the last epoch")
	}
	epoch, err := taken.LastInsertId()
	if err != nil {
		return engines.Record{}, err
	}
	lasts := max(mine.Lasts.Milliseconds(), 1)
	if seen.Version == none {
		return e.swap(ctx, mine, epoch, `INSERT INTO batuta_elections (name, holder, address, process, epoch, beat, lasts_ms, resigned) VALUES (?, ?, ?, ?, ?, 0, ?, FALSE)`,
			[]byte(e.name), []byte(mine.ID), []byte(mine.Address), []byte(mine.Process), epoch, lasts)
	}
	var before, beat int64
	if _, err := fmt.Sscanf(seen.Version, "%d.%d", &before, &beat); err != nil {
		return engines.Record{}, err
	}
	return e.swap(ctx, mine, epoch, `UPDATE batuta_elections SET holder = ?, address = ?, process = ?, epoch = ?, beat = 0, lasts_ms = ?, resigned = FALSE
		WHERE name = ? AND epoch = ? AND beat = ?`, []byte(mine.ID), []byte(mine.Address), []byte(mine.Process), epoch, lasts, []byte(e.name), before, beat)
}

// nextEpoch takes the next epoch. A number that is taken, and then not used, is missing from the epochs. That does no
// harm. A server that has lost its tables counts on from what this candidate has read.
func (e *Engine) nextEpoch(ctx context.Context, seen engines.Record) (sql.Result, error) {
	return e.db.ExecContext(ctx, `UPDATE batuta_epochs SET epoch = LAST_INSERT_ID(GREATEST(epoch, ?) + 1) WHERE one = 1`, int64(max(seen.Epoch, e.seen.Load())))
}

// Renew implements [engines.Engine].
func (e *Engine) Renew(ctx context.Context, mine engines.Record) (engines.Record, error) {
	return e.advance(ctx, mine, "")
}

// Release implements [engines.Engine].
func (e *Engine) Release(ctx context.Context, mine engines.Record) error {
	_, err := e.advance(ctx, mine, `, holder = '', address = '', process = '', resigned = TRUE`)
	return err
}

// advance raises the beat of the leadership's row by one, and returns it in the Version.
func (e *Engine) advance(ctx context.Context, mine engines.Record, also string) (engines.Record, error) {
	done, err := e.db.ExecContext(ctx, `UPDATE batuta_elections SET beat = LAST_INSERT_ID(beat + 1)`+also+` WHERE name = ? AND epoch = ? AND process = ?`,
		[]byte(e.name), int64(mine.Epoch), []byte(mine.Process))
	if err != nil {
		return engines.Record{}, e.explain(err)
	}
	if rows, err := done.RowsAffected(); err != nil || rows == 0 {
		return engines.Record{}, cmp.Or(err, engines.ErrTaken)
	}
	beat, err := done.LastInsertId()
	if err != nil {
		return engines.Record{}, err
	}
	mine.Version = version(int64(mine.Epoch), beat)
	return mine, nil
}

// swap does a statement that replaces the row, or changes none.
func (e *Engine) swap(ctx context.Context, mine engines.Record, epoch int64, statement string, values ...any) (engines.Record, error) {
	done, err := e.db.ExecContext(ctx, statement, values...)
	switch {
	case coded(err, duplicate):
		return engines.Record{}, engines.ErrTaken
	case err != nil:
		return engines.Record{}, e.explain(err)
	}
	if rows, err := done.RowsAffected(); err != nil || rows == 0 {
		return engines.Record{}, cmp.Or(err, engines.ErrTaken)
	}
	e.seen.Note(uint64(epoch))
	mine.Epoch, mine.Version = uint64(epoch), version(epoch, 0)
	return mine, nil
}

// Numbers of the server's errors.
const (
	duplicate = 1062
	noTable   = 1146
)

// denials are those for a right.
var denials = []uint16{1044, 1142, 1143, 1227}

func coded(err error, numbers ...uint16) bool {
	said, ok := errors.AsType[*driver.MySQLError](err)
	return ok && slices.Contains(numbers, said.Number)
}

func (e *Engine) explain(err error) error {
	if coded(err, 1045, 1698) {
		return engines.Denied("MySQL refuses the user or the password: %w", err)
	}
	if coded(err, denials...) {
		return engines.Denied("MySQL refuses: %w; a candidate needs SELECT, INSERT and UPDATE on batuta_elections and batuta_epochs", err)
	}
	return err
}

// Check returns an error that wraps [engines.ErrDenied] when the server refuses a look or a release, and the driver's error
// when the server does not answer. It changes nothing.
func (e *Engine) Check(ctx context.Context) error {
	if _, err := e.Look(ctx); err != nil {
		return err
	}
	if err := e.Release(ctx, engines.Record{Process: "none"}); err != nil && !errors.Is(err, engines.ErrTaken) {
		return err
	}
	return nil
}

// Close implements [engines.Engine].
func (e *Engine) Close() error { return nil }
