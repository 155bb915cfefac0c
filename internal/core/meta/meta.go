// Package meta keeps the metadata that the members of an election publish. It is a part of
// both cores. It sends nothing: its owner exchanges entries and compares digests.
package meta

import (
	"maps"
	"slices"

	"github.com/batuta-dev/batuta/election"
)

// Chunk is how many entries a message carries.
const Chunk = 128

// Metas is the metadata of all members, as this member has it. The zero Metas has no
// entries and belongs to no member. A copy shares nothing that either changes.
type Metas struct {
	own    election.Meta
	list   []election.Meta // by id, this member's own included; never changed in place
	news   []election.ID   // of entries that a leader has still to pass on; never changed in place
	digest uint32
}

// New is for a member that begins with pairs as its own metadata; none: nothing.
func New(self election.ID, incarnation uint64, pairs map[string]string) Metas {
	k := Metas{own: election.Meta{ID: self, Incarnation: max(incarnation, 1)}}
	if len(pairs) > 0 {
		k.own.Pairs = maps.Clone(pairs)
		k.put(k.own)
	}
	return k
}

// Digest is what to compare by; 0 without entries.
func (k *Metas) Digest() uint32 { return k.digest }

// Differs reports whether a member with that digest has different entries. A member of an earlier
// version sends 0 and has none to give.
func (k *Metas) Differs(digest uint32) bool { return digest != 0 && digest != k.digest }

// List is all entries in the order of the ids; not to be changed.
func (k *Metas) List() []election.Meta { return k.list }

// Of is the metadata of a member; not to be changed.
func (k *Metas) Of(id election.ID) map[string]string {
	if i, ok := k.find(id); ok {
		return k.list[i].Pairs
	}
	return nil
}

// Own is the entry of this member, to be sent; none before it has published anything.
func (k *Metas) Own() []election.Meta {
	if i, ok := k.find(k.own.ID); ok {
		return k.list[i : i+1 : i+1]
	}
	return nil
}

// Set replaces this member's own pairs. It reports whether that is a change.
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

// Merge takes in entries of members only, and gives those that are news here. It never
// changes this member's own pairs. Where the list has different pairs for it, of an earlier process
// or forged, its own entry rises above them.
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

// overrule answers an entry of this member that it has not published. It reports whether
// there is something to send.
func (k *Metas) overrule(e election.Meta) bool {
	_, published := k.find(k.own.ID)
	switch same := e.Incarnation == k.own.Incarnation && e.Version == k.own.Version; {
	case same && maps.Equal(e.Pairs, k.own.Pairs):
		return false // its own entry, come back
	case same || e.Incarnation > k.own.Incarnation || e.Incarnation == k.own.Incarnation && e.Version > k.own.Version:
		k.own.Incarnation, k.own.Version = e.Incarnation, min(e.Version+1, election.MaxVersion)
	case published:
		return false // its present entry is on its way
	}
	k.put(k.own)
	return true
}

// Drop forgets a member that left.
func (k *Metas) Drop(id election.ID) {
	if i, ok := k.find(id); ok && id != k.own.ID {
		k.list = slices.Delete(slices.Clone(k.list), i, i+1)
		k.digest = election.MetaDigest(k.list)
	}
}

// Queue keeps news, which a leader has still to pass on.
func (k *Metas) Queue(news []election.Meta) {
	for _, e := range news {
		if !slices.Contains(k.news, e.ID) {
			k.news = append(slices.Clone(k.news), e.ID)
		}
	}
}

// Queued gives what was queued, as it is by now and in the order of the ids, and forgets that.
func (k *Metas) Queued() []election.Meta {
	news := k.news
	k.news = nil
	if len(news) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(k.list), func(e election.Meta) bool { return !slices.Contains(news, e.ID) })
}

func (k *Metas) put(e election.Meta) {
	i, ok := k.find(e.ID)
	k.list = slices.Clone(k.list) // a caller of List keeps the former
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
