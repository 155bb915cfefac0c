package engines

import (
	"context"
	"errors"
	"time"

	"github.com/batuta-dev/batuta"
)

// Engine keeps the record of one election. Its methods are called by several goroutines,
// each with a context that has a deadline.
//
// Each of Claim, Renew and Release replaces the record in one step or gives [ErrTaken], having changed
// nothing. With another error it is not known which: it may be done yet, but nothing is after the
// record was released or claimed by another. What an engine has confirmed is seen by every Look that begins later, wherever.
type Engine interface {
	// Name is what status calls it, such as "etcd".
	Name() string
	// Look reads the record.
	Look(ctx context.Context) (Record, error)
	// Changed returns when the record may be another than seen, and with ctx at the
	// latest. It is a hint that spares a wait; an engine without such a thing waits for ctx.
	Changed(ctx context.Context, seen Record) error
	// Claim puts mine in the place of seen if the record still has its Version, and gives mine with Epoch and Version. The
	// Epoch is this claim's alone and above that of every earlier one.
	Claim(ctx context.Context, seen, mine Record) (Record, error)
	// Renew gives mine another Version if the record still has its Epoch and Process.
	Renew(ctx context.Context, mine Record) (Record, error)
	// Release makes a record that nobody holds, if it still has the Epoch and Process of mine.
	Release(ctx context.Context, mine Record) error
	// Close frees what the engine holds. Nothing is asked any more.
	Close() error
}

// ErrTaken is what an engine answers when the record is not the one that was to be replaced.
var ErrTaken = errors.New("the record is another's by now")

// ErrDenied is wrapped by the error of an engine that refuses the caller's credentials, or gives them no right to the
// record. Such a call has changed nothing. An [Election] logs the error once a minute at most, and asks again.
var ErrDenied = errors.New("the engine refuses access")

// Record is who leads, as an engine keeps it.
type Record struct {
	ID       batuta.ID     // who; none: nobody leads
	Epoch    uint64        // of its leadership; of the last one while nobody leads, if that is known
	Address  string        // what it tells the others of itself, see [Config.Address]
	Process  string        // a name of its process that no other has, before or after; "": it is not one of batuta's
	Lasts    time.Duration // from seeing it for how long nobody else may claim it, unless its Version changes
	Version  string        // another with each change of the record
	Resigned bool          // while nobody leads: the last leader gave it up
}

// held reports whether somebody leads.
func (r Record) held() bool { return r.ID != "" }

// token is the leadership that the record tells of.
func (r Record) token() batuta.Token {
	return batuta.Token{Epoch: r.Epoch, Leader: batuta.Rank{ID: r.ID}}
}

// Release gives up the leadership of a process, named as [Election.Process] names it, so that nobody
// waits for its lease. The caller knows that this process is dead, and that nothing which it has begun as leader goes on.
// Where another holds leadership, or nobody does, nothing is done. An engine that does not
// answer is asked again until ctx ends; the error is the last one then.
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

// One attempt to release takes this long at most, and the pause after one that failed this long.
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
