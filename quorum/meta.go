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

// setMeta has this member tell other pairs of itself.
func (c *Core) setMeta(pairs map[string]string) {
	if c.metas.Set(pairs) {
		c.learned(c.metas.Own())
	}
}

// mergeMeta takes in what another knows.
func (c *Core) mergeMeta(list []election.Meta) {
	c.learned(c.metas.Merge(list, c.Knows))
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

// compareMeta asks another what it knows if that is not the same, once in T at most: who
// tells of itself now is about to say so to both.
func (c *Core) compareMeta(p *peer, m *election.Message) {
	if m.MetaDigest == 0 || m.MetaDigest == c.metas.Digest() || m.Kind == election.Members || !p.link || c.now.Before(p.pullAt) {
		return
	}
	p.pullAt = c.now.Add(c.t)
	c.send(p, election.Message{Kind: election.GetMembers})
}
