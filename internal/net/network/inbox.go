package network

// Turn is the right to use what a node's loop owns. A goroutine receives from it to have the turn, and
// sends to give it back: the loop, or a goroutine that has read a message and need not wake the loop.
type Turn chan struct{}

// waiting is how many goroutines of an Inbox may wait for a turn at the same time. The loop waits for
// no more turns than that, whatever arrives.
const waiting = 64

// Inbox does what arrives in a turn of the node.
type Inbox struct {
	turn   Turn
	slots  chan struct{}
	settle func()
	over   <-chan struct{}
	drops  bool
}

// NewInbox makes an Inbox that accepts nothing more once over is closed.
func NewInbox(s Site, over <-chan struct{}) Inbox {
	return Inbox{turn: s.Turn, slots: make(chan struct{}, waiting), settle: s.Settle, over: over}
}

// Post calls f in a turn, with all that comes of it; it returns false once the node is over. It must
// not be called in a turn.
func (i *Inbox) Post(f func()) (posted bool) {
	select {
	case i.slots <- struct{}{}:
		defer func() { <-i.slots }()
	case <-i.over:
		return false
	}
	select {
	case <-i.turn:
		if !i.drops {
			f()
			i.settle()
		}
		i.turn <- struct{}{}
		return true
	case <-i.over:
		return false
	}
}

// Await gives this turn to what arrives, until done is closed.
func (i *Inbox) Await(done <-chan struct{}) {
	i.turn <- struct{}{}
	<-done
	<-i.turn
}

// Discard drops what is posted until done is closed.
func (i *Inbox) Discard(done <-chan struct{}) {
	i.drops = true
	i.Await(done)
}
