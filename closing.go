package batuta

import (
	"errors"
	"io"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file ends a node: its work first, then the others are told, then the disk.

// leave begins the end: whoever works is told, and the lead is given away when
// that has returned.
func (n *Node) leave() {
	if !n.closing {
		n.closing = true
		n.emit(election.Event{Kind: election.Closing})
	}
}

// end stops everything. Nothing works any more, and the others know.
func (n *Node) end() {
	n.timer.Stop()
	if v := n.view(); v.Defined() {
		n.loseTo(v.Token, election.CauseStopped, time.Now())
	}
	if n.departing.Load() {
		n.emit(election.Event{Kind: election.Leaving})
		n.drain()
	}
	if n.named != nil {
		n.perform(n.named.Flush(n.now()))
	}
	n.disconnect()
	saved := n.awaitSave()
	n.last = n.status()
	if saved {
		n.err = errors.Join(n.err, n.closeStore())
	}
	n.history.End()
	n.endElections()
	n.close()
	n.closeLogs()
	n.release()
	close(n.done)
}

// awaitSave waits for the outstanding save, T at most, and tells whether it has ended.
// One that hangs is left behind, and closes the store when it ends: until then nobody
// else may open that.
func (n *Node) awaitSave() bool {
	saved := make(chan struct{})
	go func() {
		n.saving.Wait()
		close(saved)
	}()
	timer := time.NewTimer(n.timeout)
	defer timer.Stop()
	select {
	case <-saved:
		return true
	case <-timer.C:
	}
	n.cfg.Logger.Error("the node ends while a save hangs: its goroutine, and the lock on the data directory, are left until the disk answers; end the process to free them", "error", n.trouble())
	go func() {
		<-saved
		_ = n.closeStore() // nobody is left to be told
	}()
	return false
}

func (n *Node) closeStore() error {
	if n.records != nil {
		defer n.records.Close()
	}
	if c, ok := n.store.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
