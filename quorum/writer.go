package quorum

import (
	"cmp"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/epoch"
)

// writer manages writes to disk, a single write at a time. No message contains what is not on disk.
type writer struct {
	*ground

	fresh    bool     // nothing is on disk yet
	records  [][]byte // of the outstanding write
	replace  bool
	compacts bool // the outstanding write replaces the log by what it already has
	written  int  // records since the last compaction, including earlier processes

	disk    epoch.Health
	retryAt time.Time // when a failing or slow disk is tried again
	hungAt  time.Time // when the outstanding write has taken T
	wrote   time.Time // when the last write ended
}

// idle is how long a leader may go without a write. Then it tests its disk: without changes it
// would not detect that the disk hangs.
const idle = 30 * time.Second

// retryPause is the time between two attempts to write to a failing disk.
const retryPause = time.Second

// keepRecords is how many records are written before they are compacted, except in the lab.
const keepRecords = 256

// limit is how many records are written before they are compacted.
func (c *writer) limit() int { return cmp.Or(c.cfg.CompactAfter, keepRecords) }

// submit begins a write of records, which replace all before or not.
func (c *writer) submit(records [][]byte, replace bool) {
	c.records, c.replace = records, replace
	c.attempt()
}

// answer handles the result of a write, and reports whether the records are on disk. answered is false
// if no write is outstanding. A compaction that the disk refuses, such as a full disk, is put off:
// the log has all records, and may have room for more.
func (c *writer) answer(err error) (done, answered bool) {
	if !c.disk.Busy() {
		return false, false
	}
	putOff := err != nil && c.compacts
	if c.compacts = false; putOff {
		err = nil
	}
	slow := c.disk.End(err)
	c.hungAt, c.wrote = time.Time{}, c.now
	if err != nil {
		c.retryAt = c.now.Add(retryPause)
		return false, true
	}
	c.slowly(slow)
	switch {
	case putOff:
		c.written = c.limit() / 2
		c.retryAt = c.now.Add(retryPause) // the driver has a fault on record until a write succeeds
	case c.replace:
		c.written = 0
	default:
		c.written += len(c.records)
	}
	c.records = nil
	return true, true
}

// hangs reports, once for each write, that the outstanding write has taken T.
func (c *writer) hangs() bool {
	if !c.passed(c.hungAt) {
		return false
	}
	c.hungAt = time.Time{}
	c.disk.Hang()
	return true
}

func (c *writer) attempt() {
	c.disk.Begin()
	c.retryAt, c.hungAt = time.Time{}, c.now.Add(c.t)
	c.do(election.Action{Kind: election.Append, Records: c.records, Replace: c.replace})
}

// busy reports whether a write is outstanding.
func (c *writer) busy() bool { return c.records != nil }

// slowly records that the disk works, and whether the write took longer than T. After a slow write
// this member is no candidate until a write, for which it tests its disk, takes less, or until no
// member has led for 2·T: see [epoch.Health].
func (c *writer) slowly(on bool) {
	if on && !c.disk.Slow() {
		c.note("cannot save", election.None, election.Token{}, "a write took longer than T")
	}
	if c.disk.Work(on); on {
		c.retryAt = c.now.Add(retryPause)
	}
}

// tryAt returns when to test the disk, of a leader or not; zero: not at all.
func (c *writer) tryAt(leads bool) time.Time {
	if leads && !c.busy() && !c.still && c.retryAt.IsZero() {
		return c.wrote.Add(idle)
	}
	return c.retryAt
}
