package epoch

// Health is whether a disk can be relied on. A disk may refuse a write, be slow, or not
// answer at all. A member that cannot write in time leaves leadership to the rest.
//
// A disk that was slow would be slow again if this member were elected, and leadership would
// be given up at once, repeatedly. It therefore counts until a write has taken less, or until
// no member has led for some time: see [Health.Forgive].
type Health struct {
	busy    bool // a write is outstanding
	failing bool // the last write was refused
	hung    bool // the outstanding write has taken T
	slow    bool // the last write had taken T
}

// Begin notes that a write is outstanding.
func (h *Health) Begin() { h.busy = true }

// Busy reports whether a write is outstanding.
func (h *Health) Busy() bool { return h.busy }

// Hang notes that the outstanding write has taken T.
func (h *Health) Hang() { h.hung = true }

// Hung reports whether the outstanding write has taken T.
func (h *Health) Hung() bool { return h.hung }

// End notes how the outstanding write has ended, and reports whether it had hung. A disk that
// was failing stays so until [Health.Work].
func (h *Health) End(err error) (hung bool) {
	hung = h.hung
	h.busy, h.hung = false, false
	h.failing = h.failing || err != nil
	return hung
}

// Work notes that the disk works, however slowly.
func (h *Health) Work(slow bool) { h.failing, h.slow = false, slow }

// Forgive notes that no member has led for as long as a slow disk waits for that.
func (h *Health) Forgive() { h.slow = false }

// Failing reports whether the last write was refused.
func (h *Health) Failing() bool { return h.failing }

// Slow reports whether the last write had taken T.
func (h *Health) Slow() bool { return h.slow }

// Unusable reports whether nothing can be written now.
func (h *Health) Unusable() bool { return h.failing || h.hung }

// Unfit reports whether this member has to leave leadership to the rest.
func (h *Health) Unfit() bool { return h.Unusable() || h.slow }
