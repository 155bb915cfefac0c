package network

// Inbox passes what arrives to the node's loop.
type Inbox struct {
	waiting chan func()
	over    <-chan struct{}
}

// inboxSize is how many frames may wait for the loop before their readers wait.
const inboxSize = 64

// NewInbox makes an Inbox that accepts nothing more once over is closed.
func NewInbox(over <-chan struct{}) Inbox {
	return Inbox{make(chan func(), inboxSize), over}
}

// Post makes the node's loop call f; it returns false once the loop is over. The loop itself must
// not call it.
func (i Inbox) Post(f func()) (posted bool) {
	select {
	case i.waiting <- f:
		return true
	case <-i.over:
		return false
	}
}

// Arrivals returns the functions that were posted.
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
