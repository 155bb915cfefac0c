package superpeer

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/memberlist"
)

// withCore makes conf's memberlist join no node: it carries messages, and answers nodes that ask
// for our list. The fork has room for the core's memberlist.
func (m *Member) withCore(conf *memberlist.Config) {
	under, ok := conf.Transport.(memberlist.NodeAwareTransport)
	if !ok {
		under = unnamed{conf.Transport}
	}
	m.fork = newFork(under, conf.Label)
	conf.Transport, conf.SkipInboundLabelCheck = m.fork, true
	conf.ProbeInterval, conf.GossipInterval = 0, 0 // there is no node to probe, and nothing to gossip
	m.room -= len(coreSuffix)
	m.book.core = true
	m.book.bound(clientBook)
	m.core = newCore(m.driver)
	m.driver.group = m.core
	m.peers.most = maxMet(m.cfg.Fraction, m.cfg.Capacity)
	m.peers.adorn, m.peers.read = m.core.adorn, m.core.read
	d := &door{delegate{m}}
	conf.Delegate, conf.Ping, conf.Events, conf.Alive, conf.Merge = d, nil, m.peers, d, m.peers
}

// coreSuffix turns a label into the core's label.
const coreSuffix = "/core"

// coreRetransmit times log₁₀ of the members, each rounded up, is how often a node passes on a join
// or leave. With more than 100 members that is nine times, which misses one in e⁹ until lists are
// compared. In the core nodes come and go with the tokens; the list of all nodes changes less.
const coreRetransmit = 3

// comeback is added to memberlist's incarnation of a node that reenters the core, so that it
// exceeds the incarnation with which the node last denied its death. With a lower one it would be
// listed only by nodes that have not received its departure. The rest, among them holders of tokens
// of which it is the registrar, would not send to it.
const comeback = 8

// openCore joins the core through any of doors; without doors it creates a core.
func (m *Member) openCore(doors []string) (*memberlist.Memberlist, error) {
	conf := m.memberlistConfig(m.peers.self)
	conf.Label += coreSuffix
	conf.Transport, conf.SkipInboundLabelCheck = m.fork.prong(conf.Label), true
	conf.AdvertiseAddr, conf.AdvertisePort = m.node.Addr.String(), int(m.node.Port)
	conf.BindPort = int(m.node.Port)
	conf.RetransmitMult = coreRetransmit
	f := &feed{m.peers}
	conf.Events = f
	m.peers.mu.Lock()
	m.peers.feed = f
	m.peers.mu.Unlock()
	list, err := memberlist.Create(conf)
	if err != nil {
		return nil, errors.Join(err, conf.Transport.Shutdown())
	}
	for range m.core.entries * comeback {
		_ = list.UpdateNode(time.Millisecond) // no node receives it yet
	}
	m.core.entries++
	if len(doors) == 0 {
		return list, nil
	}
	var errs []error
	for _, addr := range doors {
		n, err := list.Join([]string{addr})
		if n > 0 && err == nil {
			return list, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", addr, err))
	}
	return nil, errors.Join(append(errs, list.Shutdown())...)
}

// feed receives the events of a single memberlist of the core; a later memberlist replaces it. It
// is a [memberlist.EventDelegate].
type feed struct{ p *peers }

func (f *feed) NotifyJoin(n *memberlist.Node)   { f.p.joined(n, f) }
func (f *feed) NotifyUpdate(n *memberlist.Node) { f.p.joined(n, f) }
func (f *feed) NotifyLeave(n *memberlist.Node)  { f.p.left(n, f) }

// door is the [memberlist.Delegate] and [memberlist.AliveDelegate] of the memberlist without peers.
type door struct{ delegate }

// errElsewhere keeps memberlist from listing nodes outside the core.
var errElsewhere = errors.New("it is in no list of this node's")

func (d *door) NotifyAlive(n *memberlist.Node) error {
	if n.Name != d.m.peers.self.name() {
		return errElsewhere
	}
	return nil
}

// GetBroadcasts implements [memberlist.Delegate]: gossip is the core's.
func (d *door) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState implements [memberlist.Delegate]: the nodes that we know.
func (d *door) LocalState(bool) []byte            { return d.m.know() }
func (d *door) MergeRemoteState(b []byte, _ bool) { d.NotifyMsg(b) }

// unnamed is a [memberlist.NodeAwareTransport] that only uses addresses.
type unnamed struct{ memberlist.Transport }

func (t unnamed) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return t.WriteTo(b, a.Addr)
}

func (t unnamed) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return t.DialTimeout(a.Addr, timeout)
}
