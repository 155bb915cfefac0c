package quorum

import (
	"slices"

	"github.com/batuta-dev/batuta/election"
)

// This file has members know what each tells of itself. It is not in the log: nothing
// is decided by it, and it must not cost a majority. Each tells all whom it is connected
// to, which are all whom it reaches; a digest in every message finds what was missed.

// metaChunk is how many members one message tells of.
const metaChunk = 128

// metaFrom takes in what another knows, or asks for, before this member takes part, too:
// at the first start that may be long in coming, and who has heard its word does not say
// so again. It reports whether the message was of that.
func (c *Core) metaFrom(p *peer, m *election.Message) bool {
	if m.Kind == election.Members {
		c.learned(c.metas.Merge(m.Meta, c.Knows))
		return true
	}
	if !p.guest || p.number != 0 { // else it has not said who it is
		c.compareMeta(p, m)
	}
	if m.Kind == election.GetMembers {
		c.sendMeta(p, c.metas.List())
	}
	return m.Kind == election.GetMembers
}

// learned tells the driver what members say of themselves now; the others, if that is
// this one's own word: of the others' the digest tells.
func (c *Core) learned(news []election.Meta) {
	for _, e := range news {
		c.note("learns", e.ID, election.Token{}, "what it tells of itself")
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

// sendMeta tells one member.
func (c *Core) sendMeta(p *peer, entries []election.Meta) {
	for chunk := range slices.Chunk(entries, metaChunk) {
		c.send(p, election.Message{Kind: election.Members, Meta: chunk})
	}
}

// greetMeta tells one that has just connected what this member tells of itself, and what
// an earlier process of the other's has told, so that it may say otherwise.
func (c *Core) greetMeta(p *peer) {
	var words []election.Meta
	for _, e := range c.metas.List() {
		if e.ID == c.cfg.Self.ID || e.ID == p.rank.ID && e.Incarnation != p.incarnation {
			words = append(words, e)
		}
	}
	c.sendMeta(p, words)
}

// compareMeta asks another what it knows if that is not the same, once in T at most: who
// tells of itself now is about to say so to both.
func (c *Core) compareMeta(p *peer, m *election.Message) {
	if m.MetaDigest == 0 || m.MetaDigest == c.metas.Digest() || !p.link || c.now.Before(p.pullAt) {
		return
	}
	p.pullAt = c.now.Add(c.t)
	c.send(p, election.Message{Kind: election.GetMembers})
}
