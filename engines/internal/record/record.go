// Package record is what engines that keep a record as text have in common, and the checks of every record that is read.
package record

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/engines"
)

// Longest is the maximum length of a record's text, in bytes.
const Longest = 16 << 10

// value is a record as text.
type value struct {
	ID       string `json:"id,omitempty"` // empty: there is no leader
	Address  string `json:"address,omitempty"`
	Process  string `json:"process,omitempty"`
	Epoch    uint64 `json:"epoch,omitempty"` // 0: the revision of this value
	Lasts    int64  `json:"lasts_ms,omitempty"`
	Write    uint64 `json:"write,omitempty"` // of the process
	Resigned bool   `json:"resigned,omitempty"`
}

// Encode gives the text of a record. Write makes it differ from the texts before, where that is required.
func Encode(r engines.Record, write uint64) []byte {
	v := value{string(r.ID), r.Address, r.Process, r.Epoch, 0, write, r.Resigned}
	if v.ID != "" {
		v.Lasts = max(r.Lasts.Milliseconds(), 1)
	}
	text, _ := json.Marshal(v) // of strings and numbers
	return text
}

// Decode gives the record of a text, without a Version. Place names it in errors. Revision is that of the text, which its epoch
// does not exceed; 0: it has none.
func Decode(place string, text []byte, revision uint64) (engines.Record, error) {
	var v value
	if len(text) > Longest {
		return engines.Record{}, Damaged(place, "it has more than %d bytes", Longest)
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return engines.Record{}, Damaged(place, "%v", err)
	}
	if v.ID != "" {
		v.Epoch = cmp.Or(v.Epoch, revision)
	}
	if revision != 0 && v.Epoch > revision {
		return engines.Record{}, Damaged(place, "epoch %d is above its revision %d", v.Epoch, revision)
	}
	return Check(place, engines.Record{ID: batuta.ID(v.ID), Epoch: v.Epoch, Address: v.Address, Process: v.Process, Resigned: v.Resigned}, v.Lasts)
}

// Check gives r, which lasts so many milliseconds, or the error of [Damaged].
func Check(place string, r engines.Record, lasts int64) (engines.Record, error) {
	_, err := election.ParseID(string(r.ID))
	switch {
	case r.Epoch == 0 || r.Epoch >= 1<<53-1:
		err = Damaged(place, "epoch is %d", int64(r.Epoch))
	case r.ID == "":
		return r, nil
	case err != nil:
		err = Damaged(place, "%v", err)
	case r.Process == "" || len(r.Process) > 128:
		err = Damaged(place, "process is %.40q", r.Process)
	case lasts <= 0 || lasts > engines.MaxLease.Milliseconds():
		err = Damaged(place, "lasts_ms is %d", lasts)
	case len(r.Address) > 256 || strings.ContainsFunc(r.Address, unicode.IsControl):
		err = Damaged(place, "address is %.40q", r.Address)
	}
	r.Lasts = time.Duration(lasts) * time.Millisecond
	return r, err
}

// Damaged gives the error for a record that cannot be used.
func Damaged(place, why string, args ...any) error {
	return fmt.Errorf("%s %w: %.200s; stop the candidates and delete it, or keep elections in a place of their own", place, engines.ErrDamaged, fmt.Sprintf(why, args...))
}

// Replace puts r in the place of mine if the record is still mine, also if an earlier write without an answer has changed its
// version. A Version "" is read first.
func Replace(ctx context.Context, place string, mine, r engines.Record, look func(context.Context) (engines.Record, error), put func(ctx context.Context, r engines.Record, version string) (string, error)) (engines.Record, error) {
	for {
		if mine.Version != "" {
			next, err := put(ctx, r, mine.Version)
			if !errors.Is(err, engines.ErrTaken) {
				mine.Version = next
				return mine, err
			}
		}
		now, err := look(ctx)
		switch {
		case err == nil && (now.Epoch != mine.Epoch || now.Process != mine.Process):
			err = engines.ErrTaken
		case err == nil && now.Version == mine.Version:
			err = fmt.Errorf("%s is written at the same time", place)
		}
		if err != nil {
			return engines.Record{}, err
		}
		mine.Version = now.Version
	}
}

// Released is what is left of a record that mine has held.
func Released(mine engines.Record) engines.Record {
	return engines.Record{Epoch: mine.Epoch, Resigned: true}
}
