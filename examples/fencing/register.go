package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "modernc.org/sqlite" // the driver

	"github.com/batuta-dev/batuta"
)

// ErrFenced is returned when a later leader has written: the caller has lost leadership,
// even if it has not noticed yet.
var ErrFenced = errors.New("a later leader has written")

// Register is a number in a table that only the latest leader may write. The row that is
// guarded holds the token, and the statement that writes the row compares it: between a
// separate check and a write a leader can be stopped for any time.
type Register struct{ db *sql.DB }

// Open opens the table in a file, and creates both if need be.
func Open(ctx context.Context, file string) (*Register, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)")
	if err != nil {
		return nil, err
	}
	const table = `
		CREATE TABLE IF NOT EXISTS register (name TEXT PRIMARY KEY, value INTEGER NOT NULL, epoch INTEGER NOT NULL, leader TEXT NOT NULL);
		INSERT OR IGNORE INTO register VALUES ('counter', 0, 0, '');`
	if _, err := db.ExecContext(ctx, table); err != nil {
		return nil, errors.Join(fmt.Errorf("table in %s: %w", file, err), db.Close())
	}
	return &Register{db}, nil
}

// Close closes the file.
func (r *Register) Close() error { return r.db.Close() }

// Add adds n under a leadership and returns the new value, or [ErrFenced], and then
// nothing is written. With a quorum an epoch belongs to a single leadership forever. With
// the best-effort algorithms two sides of a partition may have the same epoch, and Add
// accepts the side that writes first.
func (r *Register) Add(ctx context.Context, t batuta.Token, n int64) (value int64, err error) {
	const write = `
		UPDATE register SET value = value + ?1, epoch = ?2, leader = ?3
		WHERE name = 'counter' AND (epoch < ?2 OR epoch = ?2 AND leader = ?3)
		RETURNING value`
	err = r.db.QueryRowContext(ctx, write, n, int64(t.Epoch), string(t.Leader.ID)).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("leadership %s: %w", t, ErrFenced)
	}
	return value, err
}

// Value returns what the register holds, and the leader that has written it last.
func (r *Register) Value(ctx context.Context) (value int64, epoch uint64, leader string, err error) {
	err = r.db.QueryRowContext(ctx, `SELECT value, epoch, leader FROM register WHERE name = 'counter'`).Scan(&value, &epoch, &leader)
	return value, epoch, leader, err
}
