package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "modernc.org/sqlite" // the driver

	"github.com/batuta-dev/batuta"
)

// ErrFenced says that a later leader has written: the caller has lost leadership, whatever
// it believes.
var ErrFenced = errors.New("a later leader has written")

// Register is a number in a table that only the latest leader may write. The token stands
// in the row that it guards, and is compared where the row is written, in one statement:
// between a check and a write of its own a leader can be stopped for any time.
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

// Close lets go of the file.
func (r *Register) Close() error { return r.db.Close() }

// Add adds n under a leadership and gives the new value, or [ErrFenced] and nothing is
// written. An epoch belongs to one leadership forever; that holds under a quorum
// alone. Under another algorithm two sides of a partition may have one epoch, and this
// lets in whichever comes first.
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

// Value is what the register holds, and who has written it last.
func (r *Register) Value(ctx context.Context) (value int64, epoch uint64, leader string, err error) {
	err = r.db.QueryRowContext(ctx, `SELECT value, epoch, leader FROM register WHERE name = 'counter'`).Scan(&value, &epoch, &leader)
	return value, epoch, leader, err
}
