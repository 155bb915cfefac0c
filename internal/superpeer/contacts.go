package superpeer

import (
	"cmp"
	"slices"
)

// maxContacts is how many super peers a node remembers, the least costly first; the second is its
// deputy, to which it turns at once if the first fails.
const maxContacts = 8

// maxProbes is how many unknown super peers a node measures at a time.
const maxProbes = 4

// contact is a super peer that the node has measured.
type contact struct {
	peer  Peer
	token int32
	rtt   float32 // milliseconds; negative: not measured
	price float32 // milliseconds that a place there costs the client that loses it
}

// cost returns the total cost of a place at k, in milliseconds.
func (k *contact) cost() float32 { return k.rtt + k.price }

// learn handles announcements: a token that has moved loses its old contact; of the unknown holders
// a few are measured.
func (c *client) learn(s *self, list []Announcement, out *Actions) {
	if c.waiting > 0 {
		return
	}
	var room [24]Announcement
	fresh := room[:0]
	for i := range list {
		if a := &list[i]; a.Holder != s.peer && !c.update(a) && len(fresh) < len(room) {
			fresh = append(fresh, *a)
		}
	}
	if !s.cfg.Metric.Exact {
		// Estimated positions mislead: any of the near holders may be the nearest.
		for i := range fresh {
			j := i + s.rng.Below(len(fresh)-i)
			fresh[i], fresh[j] = fresh[j], fresh[i]
		}
	}
	if c.home == None && s.cfg.Capacity > 0 {
		// Any place first; the nearest later.
		slices.SortStableFunc(fresh, func(a, b Announcement) int { return cmp.Compare(min(b.Spare, 1), min(a.Spare, 1)) })
	}
	for i := range fresh {
		if !c.measure(fresh[i].Holder, fresh[i].Token, fresh[i].Price, out) {
			return
		}
	}
}

// update applies a to its contact, and reports whether there is a contact that still holds.
func (c *client) update(a *Announcement) bool {
	for i := range c.measured() {
		k := &c.contacts[i]
		if k.peer == a.Holder {
			k.token = a.Token
			if k.price != a.Price {
				moved := *k
				if moved.price = a.Price; a.Price > 0 && a.Price < k.price {
					moved.price = (a.Price + k.price) / 2 // gossip is late: a lower price is applied by half
				}
				c.note(moved)
			}
			return true
		}
		if k.token == a.Token && k.peer != c.home {
			c.forget(k.peer)
			return false
		}
	}
	return false
}

// measure probes peer unless enough probes are under way.
func (c *client) measure(peer Peer, token int32, price float32, out *Actions) bool {
	if slices.ContainsFunc(c.asked[:c.waiting], func(k contact) bool { return k.peer == peer }) {
		return true
	}
	if int(c.waiting) == maxProbes {
		return false
	}
	c.asked[c.waiting] = contact{peer: peer, token: token, price: price}
	c.waiting++
	out.Probe = append(out.Probe, peer)
	return true
}

// probed records a round trip that measure requested, and reports whether it did.
func (c *client) probed(peer Peer, rtt float32, ok bool) bool {
	for i := range c.asked[:c.waiting] {
		if c.asked[i].peer != peer {
			continue
		}
		k := c.asked[i]
		c.waiting--
		c.asked[i] = c.asked[c.waiting]
		if ok {
			k.rtt = rtt
			c.note(k)
			if peer == c.home {
				c.homeRTT = rtt
			}
		} else {
			c.forget(peer)
		}
		return true
	}
	return false
}

// note adds k to the contacts if it is near enough, in order of cost.
func (c *client) note(k contact) {
	c.forget(k.peer)
	i := int(c.known)
	for i > 0 && c.contacts[i-1].cost() > k.cost() {
		i--
	}
	if i == maxContacts {
		return
	}
	if c.known < maxContacts {
		c.known++
	}
	copy(c.contacts[i+1:c.known], c.contacts[i:])
	c.contacts[i] = k
}

func (c *client) forget(peer Peer) {
	if i := slices.IndexFunc(c.measured(), func(k contact) bool { return k.peer == peer }); i >= 0 {
		copy(c.contacts[i:], c.contacts[i+1:c.known])
		c.known--
	}
}

func (c *client) contactOf(peer Peer) *contact {
	for i := range c.measured() {
		if c.contacts[i].peer == peer {
			return &c.contacts[i]
		}
	}
	return nil
}

// reprice records the present price of a place at peer.
func (c *client) reprice(peer Peer, price float32) {
	if k := c.contactOf(peer); k != nil {
		moved := *k
		moved.price = price
		c.note(moved)
	}
}

// measured returns the super peers that the node has measured, the least costly first.
func (c *client) measured() []contact { return c.contacts[:c.known] }

// nearest returns the round trip to the least costly super peer in milliseconds; negative: none is known.
func (c *client) nearest() float32 {
	if c.known == 0 {
		return -1
	}
	return c.contacts[0].rtt
}
