package machine

import (
	"slices"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/meta"
)

// This file exchanges metadata, which package meta keeps.

// mergeMeta takes in what another knows that members tell of themselves. A leader tells
// all others with its next beat; everyone else leaves that to the digests, but for its
// own word.
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

// learn tells the driver what members say of themselves now.
func (m *Machine) learn(news []election.Meta) {
	for _, e := range news {
		m.note("learns", e.ID, election.Token{}, "what it tells of itself")
		m.do(election.Action{Kind: election.Learn, Member: e.ID, Meta: e.Pairs})
	}
}

// spreadMeta tells everyone a link stands to.
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

// sendMeta tells one member.
func (m *Machine) sendMeta(to int, entries []election.Meta) {
	for chunk := range slices.Chunk(entries, meta.Chunk) {
		m.send(to, election.Message{Kind: election.Members, Meta: chunk})
	}
}
