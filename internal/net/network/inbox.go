package network

// Inbox takes what comes in to the node's loop.
type Inbox struct {
	waiting chan func()
	over    <-chan struct{}
}

// inboxSize is how many frames may wait for the loop before readers do.
const inboxSize = 64

// NewInbox makes an Inbox that takes nothing more once over is closed.
func NewInbox(over <-chan struct{}) Inbox {
	return Inbox{make(chan func(), inboxSize), over}
}

// Post has f called on the node's loop; false once it is over. It is not for the
// loop itself.
func (i Inbox) Post(f func()) (posted bool) {
	select {
	case i.waiting <- f:
		return true
	case <-i.over:
		return false
	}
}

// Arrivals gives what was posted.
func (i Inbox) Arrivals() <-chan func() { return i.waiting }

// Discard drops what is posted until done is closed.
func (i Inbox) Discard(done <-chan struct{}) {
	for {
		select {
		case <-i.waiting:
		case <-done:
			return
		}
	}
}
