package epoch

import "github.com/batuta-dev/batuta/election"

// Disk is what a member's disk has: the newest leadership and the member list. At most one
// write is outstanding. A copy is independent.
type Disk struct {
	Health

	token   election.Token // on disk
	writing election.Token // in the outstanding write, or in the last
	listed  bool           // the member list is on disk, or in the outstanding write
	dropped election.Token // a claim of this member that was given up while its write hung
}

// NewDisk begins with the leadership that the disk has.
func NewDisk(saved election.Token) Disk { return Disk{token: saved, listed: true} }

// OnDisk returns the newest leadership on disk.
func (d *Disk) OnDisk() election.Token { return d.token }

// Writing returns the leadership in the outstanding write, or in the last.
func (d *Disk) Writing() election.Token { return d.writing }

// Has reports whether t, or a higher leadership, is on disk.
func (d *Disk) Has(t election.Token) bool { return !t.Above(d.token) }

// Listed reports whether the member list is on disk, or in the outstanding write.
func (d *Disk) Listed() bool { return d.listed }

// ListChanged notes that the disk does not have the member list as it is now.
func (d *Disk) ListChanged() { d.listed = false }

// Write begins a write of the member list and of the highest leadership among a, b and what
// is on disk, and returns that leadership.
func (d *Disk) Write(a, b election.Token) election.Token {
	d.writing = d.token
	for _, t := range [...]election.Token{a, b} {
		if t.Above(d.writing) {
			d.writing = t
		}
	}
	d.listed = true
	d.Begin()
	return d.writing
}

// Saved notes how the write has ended, and reports whether it had hung.
func (d *Disk) Saved(err error) (hung bool) {
	if hung = d.End(err); err == nil {
		d.token = d.writing
	}
	return hung
}

// Drop notes a claim of this member that it gives up while the write hangs. No message had
// it. When it has reached the disk after all, the next claim may have its epoch, so that no
// epoch is left out: see [Seen.Next].
func (d *Disk) Drop(claim election.Token) { d.dropped = claim }
