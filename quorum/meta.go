package quorum

import (
	"slices"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/meta"
)

// This file propagates the metadata of members. It is not in the log: it decides nothing, and must
// not depend on a majority. Each member sends its own to all peers that it is connected to. A
// digest in every message reveals what was missed.

// gossip exchanges the metadata of members with the peers.
type gossip struct {
	*crew
}

// metaFrom handles metadata, or a request for it, and reports whether m was either. It also does so
// before this member takes part: a first start may take long, and metadata is not resent to a
// member that has received it.
func (c *gossip) metaFrom(p *peer, m *election.Message) bool {
	if m.Kind == election.Members {
		c.learned(c.metas.Merge(m.Meta, c.Knows))
		return true
	}
	if !p.guest || p.number != 0 { // otherwise it has not identified itself
		c.compareMeta(p, m)
	}
	if m.Kind == election.GetMembers {
		c.sendMeta(p, c.metas.List())
	}
	return m.Kind == election.GetMembers
}

// learned passes new metadata to the driver, and this member's own to all peers. The rest reaches
// them through the digest.
func (c *gossip) learned(news []election.Meta) {
	for _, e := range news {
		c.note("learns", e.ID, election.Token{}, "its metadata")
		c.do(election.Action{Kind: election.Learn, Member: e.ID, Meta: e.Pairs})
	}
	if !slices.ContainsFunc(news, func(e election.Meta) bool { return e.ID == c.cfg.Self.ID }) {
		return
	}
	for i := range c.peers {
		if p := &c.peers[i]; p.link {
			c.sendMeta(p, c.metas.Own())
		}
	}
}

// sendMeta sends entries to a member.
func (c *gossip) sendMeta(p *peer, entries []election.Meta) {
	for chunk := range slices.Chunk(entries, meta.Chunk) {
		c.send(p, &election.Message{Kind: election.Members, Meta: chunk})
	}
}

// greetMeta sends a newly connected peer this member's metadata, and what an earlier process of the
// peer published, so that the peer can replace it.
func (c *gossip) greetMeta(p *peer) {
	var words []election.Meta
	for _, e := range c.metas.List() {
		if e.ID == c.cfg.Self.ID || e.ID == p.rank.ID && e.Incarnation != p.incarnation {
			words = append(words, e)
		}
	}
	c.sendMeta(p, words)
}

// compareMeta requests a peer's metadata if its digest differs, at most once in T: a member that
// has just changed its metadata is about to send it to both.
func (c *gossip) compareMeta(p *peer, m *election.Message) {
	if !c.metas.Differs(m.MetaDigest) || !p.link || c.now.Before(p.pullAt) {
		return
	}
	p.pullAt = c.now.Add(c.t)
	c.send(p, &election.Message{Kind: election.GetMembers})
}
