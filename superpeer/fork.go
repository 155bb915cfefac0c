package superpeer

import (
	"net"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// fork is a transport shared by two memberlists: its label decides which of them receives a packet
// or stream.
type fork struct {
	memberlist.NodeAwareTransport
	done chan struct{}

	mu     sync.Mutex
	prongs map[string]*prong // by label
}

// prong is the [memberlist.Transport] of a single memberlist. It removes labels.
type prong struct {
	*fork
	label   string
	trunk   bool // shutting it down ends the fork
	packets chan *memberlist.Packet
	streams chan net.Conn
	closed  chan struct{}
	close   sync.Once
}

// labelWait is how long a stream may take to send its label.
const labelWait = 10 * time.Second

// newFork divides t. Shutting down the returned prong ends the fork.
func newFork(t memberlist.NodeAwareTransport, label string) *prong {
	f := &fork{NodeAwareTransport: t, done: make(chan struct{}), prongs: map[string]*prong{}}
	p := f.prong(label)
	p.trunk = true
	go f.run()
	return p
}

// prong opens a prong, and replaces any with the same label.
func (f *fork) prong(label string) *prong {
	p := &prong{fork: f, label: label, packets: make(chan *memberlist.Packet), streams: make(chan net.Conn), closed: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.prongs[label] = p
	return p
}

func (f *fork) find(label string) *prong {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.prongs[label]
}

func (f *fork) run() {
	for {
		select {
		case p := <-f.NodeAwareTransport.PacketCh():
			f.packet(p)
		case c := <-f.NodeAwareTransport.StreamCh():
			go f.stream(c)
		case <-f.done:
			return
		}
	}
}

func (f *fork) packet(p *memberlist.Packet) {
	rest, label, err := memberlist.RemoveLabelHeaderFromPacket(p.Buf)
	to := f.find(label)
	if err != nil || to == nil {
		return // no receiver, as with any packet
	}
	p.Buf = rest
	select {
	case to.packets <- p:
	case <-to.closed:
	case <-f.done:
	}
}

func (f *fork) stream(c net.Conn) {
	if c.SetDeadline(time.Now().Add(labelWait)) != nil {
		c.Close()
		return
	}
	rest, label, err := memberlist.RemoveLabelHeaderFromStream(c)
	to := f.find(label)
	if err != nil || to == nil {
		c.Close()
		return
	}
	select {
	case to.streams <- rest:
	case <-to.closed:
		c.Close()
	case <-f.done:
		c.Close()
	}
}

func (p *prong) PacketCh() <-chan *memberlist.Packet { return p.packets }
func (p *prong) StreamCh() <-chan net.Conn           { return p.streams }

func (p *prong) Shutdown() (err error) {
	p.close.Do(func() {
		p.mu.Lock()
		if p.prongs[p.label] == p {
			delete(p.prongs, p.label)
		}
		p.mu.Unlock()
		close(p.closed)
		if p.trunk {
			close(p.done)
			err = p.NodeAwareTransport.Shutdown()
		}
	})
	return err
}
