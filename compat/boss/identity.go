package boss

import (
	"errors"
	"log/slog"
	"net/netip"

	"github.com/batuta-dev/batuta/election"
)

// identity is this member as its frames name it. It writes the frames and sends none.
type identity struct {
	frame           // the address, as in every frame
	nodeType string // of every frame with a node type
	log      *slog.Logger
}

// envelope returns the part of a frame that batuta members read; m may be nil.
func (i *identity) envelope(m *election.Message) *extra {
	e := *i.Batuta
	if m != nil {
		e.Message = outward(m)
	}
	return &e
}

// begin begins a frame that names this member.
func (i *identity) begin(kind string, m *election.Message) *frame {
	f := i.frame
	f.Type, f.Batuta = kind, i.envelope(m)
	return &f
}

func (i *identity) identification(boss, temporary bool, m *election.Message) []byte {
	f := i.begin(typeIdentification, m)
	f.NodeType, f.IsBoss, f.IsTemporary = i.nodeType, &boss, &temporary
	return i.bytes(f)
}

func (i *identity) announcement(m *election.Message) []byte {
	f := i.begin(typeNewBoss, m)
	f.NodeType = i.nodeType
	return i.bytes(f)
}

func (i *identity) heartbeat(m *election.Message) []byte {
	return i.bytes(&frame{Type: typeHeartbeat, MyID: i.IP, IsBusy: new(bool), Batuta: i.envelope(m)})
}

// nobody returns an address that every member outranks, by value and as text: an election is
// called in its name.
func (i *identity) nobody() string {
	if a, err := netip.ParseAddr(i.IP); err == nil && a.Is6() {
		return "0::"
	}
	return "0.0.0.0"
}

// bytes encodes a frame. If the frame is too long it returns nil, and logs an error.
func (i *identity) bytes(f *frame) []byte {
	b, err := encode(f)
	if errors.Is(err, errTooLong) && f.Batuta != nil && f.Batuta.Message != nil && f.Batuta.Message.States != nil {
		short := *f.Batuta.Message
		short.States = nil // members can do without the states
		f.Batuta.Message = &short
		b, err = encode(f)
	}
	if err != nil {
		i.log.Error("frame not sent", "error", err)
	}
	return b
}
