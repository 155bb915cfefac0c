package machine

import (
	"slices"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/meta"
)

// This file exchanges metadata, which package meta keeps.

// mergeMeta merges what a member knows of published metadata. A leader sends it to all with its
// next beat; a follower leaves that to the digests, except for its own metadata.
func (m *Machine) mergeMeta(list []election.Meta) {
	if len(list) == 0 || m.cfg.NoDetector {
		return
	}
	news := m.metas.Merge(list, m.Knows)
	m.learn(news)
	if m.tenure.Beats() {
		m.metas.Queue(news)
	} else if slices.ContainsFunc(news, func(e election.Meta) bool { return e.ID == m.cfg.Self.ID }) {
		m.spreadMeta(m.metas.Own())
	}
}

// learn gives the driver the metadata that members publish now.
func (m *Machine) learn(news []election.Meta) {
	for _, e := range news {
		m.note("learns", e.ID, election.Token{}, "what it tells of itself")
		m.do(election.Action{Kind: election.Learn, Member: e.ID, Meta: e.Pairs})
	}
}

// spreadMeta sends it over each link.
func (m *Machine) spreadMeta(news []election.Meta) {
	if m.cfg.NoDetector || !m.tenure.Started() {
		return
	}
	m.others(func(i int, peer *member) {
		if peer.link {
			m.sendMeta(i, news)
		}
	})
}

// sendMeta sends it to a member.
func (m *Machine) sendMeta(to int, entries []election.Meta) {
	for chunk := range slices.Chunk(entries, meta.Chunk) {
		m.send(to, election.Message{Kind: election.Members, Meta: chunk})
	}
}
