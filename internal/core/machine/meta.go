package machine

import (
	"maps"
	"slices"

	"github.com/batuta-dev/batuta/election"
)

// Metas is what the members tell of themselves, as one of them knows it: of a
// [Machine], and of any [Core] that makes its own. The zero Metas knows nothing and
// has nobody to speak for. A copy of it shares nothing that either changes.
type Metas struct {
	own    election.Meta
	list   []election.Meta // by id, this member's own included; never changed in place
	digest uint32
}

// NewMetas is for a member that begins by telling pairs of itself; none: nothing.
func NewMetas(self election.ID, incarnation uint64, pairs map[string]string) Metas {
	k := Metas{own: election.Meta{ID: self, Incarnation: max(incarnation, 1)}}
	if len(pairs) > 0 {
		k.own.Pairs = maps.Clone(pairs)
		k.put(k.own)
	}
	return k
}

// Digest is what to compare by; 0 when nothing is known.
func (k *Metas) Digest() uint32 { return k.digest }

// List is all that is known, in the order of the ids; not to be changed.
func (k *Metas) List() []election.Meta { return k.list }

// Of is what a member tells of itself; not to be changed.
func (k *Metas) Of(id election.ID) map[string]string {
	if i, ok := k.find(id); ok {
		return k.list[i].Pairs
	}
	return nil
}

// Own is what this member tells of itself, to be sent to another; none while it has
// never told anything.
func (k *Metas) Own() []election.Meta {
	if i, ok := k.find(k.own.ID); ok {
		return k.list[i : i+1 : i+1]
	}
	return nil
}

// Set has this member tell other pairs of itself from now on. It reports whether that
// is a change.
func (k *Metas) Set(pairs map[string]string) bool {
	if maps.Equal(pairs, k.own.Pairs) {
		return false
	}
	k.own.Pairs = maps.Clone(pairs)
	if k.own.Version < election.MaxVersion {
		k.own.Version++
	}
	k.put(k.own)
	return true
}

// Merge takes in what another knows, of members alone, and gives what is news here.
// What others have of this member itself never changes what it says; where that was
// said by an earlier process, or is not its own word, its own goes above it.
func (k *Metas) Merge(list []election.Meta, member func(election.ID) bool) (news []election.Meta) {
	for _, e := range list {
		if e.ID == k.own.ID {
			if k.overrule(e) {
				news = append(news, k.own)
			}
			continue
		}
		i, known := k.find(e.ID)
		if !member(e.ID) || known && !e.Supersedes(k.list[i]) {
			continue
		}
		k.put(e)
		news = append(news, e)
	}
	return news
}

// overrule answers what others have of this member, if that is not its word. It reports
// whether there is something to say.
func (k *Metas) overrule(e election.Meta) bool {
	_, said := k.find(k.own.ID)
	switch same := e.Incarnation == k.own.Incarnation && e.Version == k.own.Version; {
	case same && maps.Equal(e.Pairs, k.own.Pairs):
		return false // its own word, come back
	case same || e.Incarnation > k.own.Incarnation || e.Incarnation == k.own.Incarnation && e.Version > k.own.Version:
		k.own.Incarnation, k.own.Version = e.Incarnation, min(e.Version+1, election.MaxVersion)
	case said:
		return false // they will hear
	}
	k.put(k.own)
	return true
}

// Drop forgets a member that is none any more.
func (k *Metas) Drop(id election.ID) {
	if i, ok := k.find(id); ok && id != k.own.ID {
		k.list = slices.Delete(slices.Clone(k.list), i, i+1)
		k.digest = election.MetaDigest(k.list)
	}
}

func (k *Metas) put(e election.Meta) {
	i, ok := k.find(e.ID)
	k.list = slices.Clone(k.list) // whoever was given the old one keeps it
	if ok {
		k.list[i] = e
	} else {
		k.list = slices.Insert(k.list, i, e)
	}
	k.digest = election.MetaDigest(k.list)
}

func (k *Metas) find(id election.ID) (int, bool) {
	return slices.BinarySearchFunc(k.list, id, func(e election.Meta, id election.ID) int { return e.ID.Compare(id) })
}

// told is what the members tell of themselves, and what of that is to be passed on.
type told struct {
	metas    Metas
	metaNews []election.ID // whose word a leader has still to pass on
}

// setMeta has this member tell other pairs of itself.
func (m *Machine) setMeta(pairs map[string]string) {
	if m.metas.Set(pairs) {
		m.learn(m.metas.Own())
		m.spreadMeta(m.metas.Own())
	}
}

// mergeMeta takes in what another knows that members tell of themselves. A leader tells
// all others with its next beat; everyone else leaves that to the digests, but for its
// own word.
func (m *Machine) mergeMeta(list []election.Meta) {
	if len(list) == 0 || m.cfg.NoDetector {
		return
	}
	news := m.metas.Merge(list, m.Knows)
	m.learn(news)
	if m.beats() {
		for _, e := range news {
			if !slices.Contains(m.metaNews, e.ID) {
				m.metaNews = append(slices.Clone(m.metaNews), e.ID)
			}
		}
		return
	}
	if slices.ContainsFunc(news, func(e election.Meta) bool { return e.ID == m.cfg.Self.ID }) {
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
	if m.cfg.NoDetector || !m.started() {
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
	for chunk := range slices.Chunk(entries, listChunk) {
		m.send(to, election.Message{Kind: election.Members, Meta: chunk})
	}
}

// passMeta has a leader tell all what it has learned since its last beat.
func (m *Machine) passMeta() {
	if len(m.metaNews) == 0 {
		return
	}
	news := slices.DeleteFunc(slices.Clone(m.metas.List()), func(e election.Meta) bool { return !slices.Contains(m.metaNews, e.ID) })
	m.metaNews = nil
	m.spreadMeta(news)
}

// metaDiffers reports whether another knows something else. One of an earlier version
// says nothing of it, and has nothing to tell.
func (m *Machine) metaDiffers(msg *election.Message) bool {
	return msg.MetaDigest != 0 && msg.MetaDigest != m.metas.Digest()
}
