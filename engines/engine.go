package engines

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/batuta-dev/batuta"
)

// Engine keeps the record of an election. Its methods are called by several goroutines,
// each with a context that has a deadline.
//
// Each of Claim, Renew and Release replaces the record in a single step, or returns [ErrTaken] and
// changes nothing. After any other error the change may or may not be done, now or later; it is no
// longer done once the record was released or claimed by a different process. Every Look that begins
// after an engine has confirmed a change sees the change, in every process.
type Engine interface {
	// Name is what status calls it, such as "etcd".
	Name() string
	// Look reads the record.
	Look(ctx context.Context) (Record, error)
	// Changed returns when the record may differ from seen, and at the latest when ctx ends. It is a hint
	// that shortens a wait; an engine that announces no changes waits for ctx.
	Changed(ctx context.Context, seen Record) error
	// Claim puts mine in the place of seen if the record still has its Version, and gives mine with Epoch and Version. The
	// Epoch belongs to this claim only and is above that of every earlier claim.
	Claim(ctx context.Context, seen, mine Record) (Record, error)
	// Renew gives mine a new Version if the record still has its Epoch and Process.
	Renew(ctx context.Context, mine Record) (Record, error)
	// Release leaves a record without a holder, if it still has the Epoch and Process of mine.
	Release(ctx context.Context, mine Record) error
	// Close frees what the engine holds. It is the last call.
	Close() error
}

// ErrTaken is what an engine returns when the record is not the record that was to be replaced.
var ErrTaken = errors.New("the record is another's by now")

// ErrDamaged is wrapped by an engine's error about a record that is damaged, or is not batuta's. A candidate never claims that
// record.
var ErrDamaged = errors.New("is not batuta's, or is damaged")

// ErrDenied is wrapped by the error of an engine that refuses the caller's credentials, gives them no right to the
// record, or cannot hold an election. Such a call has changed nothing. An [Election] logs the error once a minute at most,
// and asks again.
var ErrDenied = errors.New("the engine refuses access")

// Denied gives an error with the text of [fmt.Errorf] that wraps [ErrDenied].
func Denied(format string, args ...any) error { return denied{fmt.Errorf(format, args...)} }

type denied struct{ error }

func (d denied) Unwrap() []error { return []error{d.error, ErrDenied} }

// Record is the present leadership, as an engine keeps it.
type Record struct {
	ID       batuta.ID     // the leader; none: there is no leader
	Epoch    uint64        // of its leadership; of the last leadership while there is no leader, if that is known
	Address  string        // published by the leader, see [Config.Address]
	Process  string        // a unique name of its process, never used again; "": the process is not batuta's
	Lasts    time.Duration // for how long after it was read no other process may claim it, if its Version does not change
	Version  string        // new with each change of the record
	Resigned bool          // while there is no leader: the last leader released it
}

// held reports whether there is a leader.
func (r Record) held() bool { return r.ID != "" }

// token names the leadership of the record.
func (r Record) token() batuta.Token {
	return batuta.Token{Epoch: r.Epoch, Leader: batuta.Rank{ID: r.ID}}
}

// Release releases the leadership of a process, named as [Election.Process] names it, so that no
// candidate waits for its lease. The caller must be certain that this process is dead, and that
// nothing that it has begun as leader goes on. If that process does not hold leadership, nothing is
// done. An engine that does not answer is asked again until ctx ends; the error is then the last error.
func Release(ctx context.Context, engine Engine, process string) error {
	for {
		err := releaseOnce(ctx, engine, process)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(releaseAgain):
		}
	}
}

// An attempt to release takes this long at most; so does the pause after an attempt that failed.
const (
	releaseAsking = 2 * time.Second
	releaseAgain  = 100 * time.Millisecond
)

func releaseOnce(ctx context.Context, engine Engine, process string) error {
	ctx, cancel := context.WithTimeout(ctx, releaseAsking)
	defer cancel()
	r, err := engine.Look(ctx)
	if err == nil && r.held() && r.Process == process && process != "" {
		err = engine.Release(ctx, r)
	}
	if errors.Is(err, ErrTaken) {
		return nil
	}
	return err
}
