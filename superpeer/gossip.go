package superpeer

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"sync"

	rules "github.com/batuta-dev/batuta/internal/superpeer"
)

// Gossip of announcements. Each is some 36 bytes; a node passes news on to tellTimes
// others, and never more than tellRate bytes of it a round whatever there is to tell:
// the more super peers there are, the more seldom each repeats what has not changed. News rides
// on pings and their answers, which cost half of a round's wait; only what has waited longer
// than tellWait has packets of its own.
const (
	tellTimes   = 3
	tellRate    = 350  // bytes a round that a node gives to announcements
	tellBurst   = 1400 // bytes that may be saved up
	tellSize    = 48   // bytes of one, with its frame
	tellWait    = 1    // rounds
	minTellGap  = 4    // rounds between two announcements of what has not changed
	maxHeard    = 4096 // super peers that a node hears of
	changedTell = 0.25 // by how much gain, loss or price must differ to be told early
)

// The few that make the core of a large overlay may spend more on it, and do not wait: they add up
// what each serves.
const coreTellRate = 8 * tellRate

// tellGap is the number of rounds between two announcements of what has not changed.
func tellGap(tokens int) rules.Round { return gapAt(tellRate, tokens) }

// gapAt is it at that many bytes a round.
func gapAt(rate float64, tokens int) rules.Round {
	return max(minTellGap, rules.Round(math.Ceil(float64(tokens*tellTimes*tellSize)/rate)))
}

// notice is an announcement as it travels: Holder is not used, uid stands for it. Load and
// Mean say how many the holder serves and how far, so that everybody can add them up.
type notice struct {
	rules.Announcement
	holder uid
	seq    uint32
	load   int32
	mean   float32 // milliseconds; negative: not measured
	waits  int32   // nodes that nobody serves and that it has no room for; of the core alone; over: it holds the token no more
}

// over in place of waits says that an announcement is a holder's last.
const over = math.MaxInt32

// encode writes n in some 36 bytes: lengths in milliseconds as bfloat16, positions in
// tenths of a millisecond.
func (n *notice) encode() []byte {
	b := make([]byte, 1, tellSize)
	b[0] = tagAnnounce
	b = binary.BigEndian.AppendUint64(b, uint64(n.holder))
	b = binary.AppendUvarint(b, uint64(n.Token))
	b = binary.AppendUvarint(b, uint64(n.Version))
	b = binary.AppendUvarint(b, uint64(n.seq))
	spare := uint64(0) // no limit
	if n.Spare != math.MaxInt32 {
		spare = uint64(n.Spare) + 1
	}
	b = binary.AppendUvarint(b, spare)
	b = binary.AppendUvarint(b, uint64(n.load))
	for _, f := range []float32{n.Price, n.Gain, n.Loss, n.mean, n.At.Height} {
		b = binary.BigEndian.AppendUint16(b, uint16(math.Float32bits(f)>>16))
	}
	for _, x := range n.At.X {
		b = binary.BigEndian.AppendUint16(b, uint16(int16(max(-32767, min(32767, 10*x)))))
	}
	if n.waits > 0 {
		b = binary.AppendUvarint(b, uint64(n.waits))
	}
	return b
}

// decodeNotice reads what encode writes, after its first byte. It is ok only if all of it
// may be true in an overlay of that many tokens and that capacity.
func decodeNotice(b []byte, tokens, capacity int) (n notice, ok bool) {
	if len(b) < 8 {
		return n, false
	}
	n.holder, b = uid(binary.BigEndian.Uint64(b)), b[8:]
	var v [5]uint64
	for i := range v {
		x, size := binary.Uvarint(b)
		if size <= 0 || x > math.MaxInt32 {
			return n, false
		}
		v[i], b = x, b[size:]
	}
	const fixed = 2*5 + 2*rules.MaxDims
	if len(b) > fixed {
		x, size := binary.Uvarint(b[fixed:])
		if size != len(b)-fixed || x > math.MaxInt32 {
			return n, false
		}
		n.waits, b = int32(x), b[:fixed]
	}
	if len(b) != fixed {
		return n, false
	}
	n.Token, n.Version, n.seq, n.load = int32(v[0]), uint32(v[1]), uint32(v[2]), int32(v[4])
	n.Spare = math.MaxInt32
	if v[3] > 0 {
		n.Spare = int32(v[3] - 1)
	}
	for i, f := range []*float32{&n.Price, &n.Gain, &n.Loss, &n.mean, &n.At.Height} {
		*f = math.Float32frombits(uint32(binary.BigEndian.Uint16(b[2*i:])) << 16)
		if !(math.Abs(float64(*f)) <= maxSum) {
			return n, false
		}
	}
	for i := range n.At.X {
		n.At.X[i] = float32(int16(binary.BigEndian.Uint16(b[10+2*i:]))) / 10
	}
	return n, n.possible(tokens, capacity)
}

func (n *notice) possible(tokens, capacity int) bool {
	if capacity > 0 && (n.Spare > int32(capacity) || n.load > int32(capacity) || int(n.Spare)+int(n.load) > capacity) {
		return false // nobody has more places than there may be
	}
	return int(n.Token) < tokens && n.Price >= 0 && n.Gain >= 0 && n.At.Height >= 0 && n.At.Height <= maxExtent && n.mean <= maxRTT
}

// entry is what is known of a token.
type entry struct {
	notice
	heard rules.Round
	sent  int  // times passed on
	old   bool // another has taken its place, or it has been dropped
}

// book is what gossip has brought. The driver and memberlist's goroutines share it.
type book struct {
	mu      sync.Mutex
	entries map[int32]*entry
	hot     []*entry      // news to be passed on; may hold what has been replaced
	token   map[uid]int32 // by holder
	rivals  map[uid]rival // by holder: see trouble.go
	said    map[uid]word  // the last of each holder, also of what has been dropped since
	round   rules.Round
	swept   rules.Round // when it was last looked for what is too old
	tokens  int         // that were wanted then
	budget  float64     // bytes
	most    int         // entries
	core    bool        // the core's: see core.go
}

// word is an announcement's number, and when it was learned.
type word struct {
	seq uint32
	at  rules.Round
}

// remember is how many times longer than an announcement its number is kept. Books drop what is old at
// different times: whoever has not yet done so tells it again, and so it would be told for ever.
const remember = 4

func newBook() *book {
	return &book{entries: map[int32]*entry{}, token: map[uid]int32{}, rivals: map[uid]rival{}, said: map[uid]word{}, budget: tellBurst, most: maxHeard}
}

// gap is the number of rounds between two announcements of what has not changed.
func (b *book) gap(tokens int) rules.Round {
	if b.core {
		return gapAt(coreTellRate, tokens)
	}
	return tellGap(tokens)
}

// bound has the book hold most entries at most: those heard last.
func (b *book) bound(most int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.most = most; len(b.entries) > most; {
		b.unlearn(b.oldest())
	}
}

// passesOn reports whether its holder tells others what it hears: who is outside the core does not.
func (b *book) passesOn() bool { return b.most == maxHeard }

// oldest is the token that has not been heard of for longest.
func (b *book) oldest() (token int32) {
	var old *entry
	for t, e := range b.entries {
		if old == nil || e.heard < old.heard || e.heard == old.heard && t < token {
			token, old = t, e
		}
	}
	return token
}

// unlearn drops what has been announced of token, which may be learned again.
func (b *book) unlearn(token int32) {
	if e := b.entries[token]; e != nil {
		delete(b.said, e.holder)
	}
	b.drop(token)
}

// learn takes n in and tells whether it is news. Of what a holder says the last counts, whatever its
// version: a token's record may have been lost and begun anew. A holder's next token is believed once
// its last has not been heard of for a while: nobody is named for two.
func (b *book) learn(n *notice, now rules.Round) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if last, ok := b.said[n.holder]; ok && n.seq <= last.seq {
		if e := b.entries[n.Token]; e != nil && e.holder == n.holder && e.seq == n.seq && !b.passesOn() {
			e.heard = now // whom we hear it from hears of it still
		}
		return false
	}
	if last, ok := b.token[n.holder]; ok && last != n.Token {
		e := b.entries[last]
		if e != nil && e.waits != over && now-e.heard < minTellGap {
			return false
		}
		b.drop(last)
	}
	e := b.entries[n.Token]
	switch {
	case e != nil && e.holder == n.holder:
	case e == nil:
		if len(b.entries) >= b.most {
			if b.passesOn() {
				return false
			}
			b.unlearn(b.oldest())
		}
	case n.Version < e.Version:
		b.suspect(n, now)
		return false
	case n.Version == e.Version && now-e.heard < minTellGap:
		b.suspect(n, now)
		return false // a duplicate; its registrar will see to it
	}
	if e != nil {
		e.old = true
		if e.holder != n.holder {
			delete(b.token, e.holder)
			if n.Version == e.Version {
				b.contend(e.holder, e.heard) // two by turns
			}
		}
	}
	e = &entry{notice: *n, heard: now}
	b.entries[n.Token], b.token[n.holder], b.said[n.holder] = e, n.Token, word{n.seq, now}
	if b.passesOn() {
		b.hot = append(b.hot, e)
	}
	return true
}

func (b *book) drop(token int32) {
	if e := b.entries[token]; e != nil {
		e.old = true
		delete(b.entries, token)
		if b.token[e.holder] == token {
			delete(b.token, e.holder)
		}
	}
}

// forget drops what holder has announced: it is gone, or holds no token.
func (b *book) forget(holder uid) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.rivals, holder)
	if t, ok := b.token[holder]; ok {
		b.drop(t)
	}
}

// doubt drops what has been announced of token: it was not true, nor perhaps who has said it.
func (b *book) doubt(token int32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unlearn(token)
}

// expire drops what has not been heard of for long and what is wanted no more, and lets
// the next round's bytes be spent. It looks through all now and then alone, not in each round.
func (b *book) expire(now rules.Round, rounds int, tokens int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.round = now
	rate, burst := float64(tellRate), float64(tellBurst)
	if b.core {
		rate, burst = coreTellRate, 2*coreTellRate
	}
	b.budget = min(burst, b.budget+float64(rounds)*rate)
	b.cool()
	if tokens >= b.tokens && now < b.swept+minTellGap {
		return
	}
	b.swept, b.tokens = now, tokens
	gap := b.gap(tokens)
	if b.core {
		tokens = surplus(tokens) // whom their holders serve are counted until they are dropped
	}
	old := 3*gap + 2
	for t, e := range b.entries {
		if now-e.heard > old || int(t) >= tokens {
			b.drop(t)
		}
	}
	for u, r := range b.rivals {
		if now-r.last > old {
			delete(b.rivals, u)
		}
	}
	for u, last := range b.said {
		if now-last.at > remember*old {
			delete(b.said, u)
		}
	}
}

// surplus is up to which token one may be spoken of: those that are wanted no more, because nodes
// have gone, are still to be dropped.
func surplus(tokens int) int { return 4*tokens + 64 }

// cool takes off hot what has been told or replaced, and puts what is to be told first at its
// head: the least told, and of those the latest.
func (b *book) cool() {
	b.hot = slices.DeleteFunc(b.hot, func(e *entry) bool { return e.sent >= tellTimes || e.old })
	slices.SortFunc(b.hot, func(x, y *entry) int {
		return cmp.Or(cmp.Compare(x.sent, y.sent), cmp.Compare(y.heard, x.heard), cmp.Compare(x.Token, y.Token))
	})
}

// waited tells whether some news has waited for too long.
func (b *book) waited() bool {
	return slices.ContainsFunc(b.hot, func(e *entry) bool { return b.round-e.heard > tellWait && !e.old && e.sent < tellTimes })
}

// broadcasts is what to tell the next node. free: the packet is sent anyhow.
func (b *book) broadcasts(overhead, limit int, free bool) (list [][]byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.hot) == 0 || b.budget < tellSize || !free && !b.core && !b.waited() {
		return nil
	}
	b.cool()
	for _, e := range b.hot {
		raw := e.encode()
		if limit -= overhead + len(raw); limit < 0 || b.budget < float64(len(raw)) {
			break
		}
		b.budget -= float64(overhead + len(raw))
		e.sent++
		list = append(list, raw)
	}
	return list
}

// snapshot lists what is known, by token.
func (b *book) snapshot() []notice {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := make([]notice, 0, len(b.entries))
	for _, e := range b.entries {
		if e.waits != over {
			list = append(list, e.notice)
		}
	}
	slices.SortFunc(list, func(x, y notice) int { return cmp.Compare(x.Token, y.Token) })
	return list
}

// holder is who holds token, as far as is known.
func (b *book) holder(token int32) (uid, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.entries[token]; e != nil && e.waits != over {
		return e.holder, true
	}
	return 0, false
}

// hear answers a node's query: the nearest, some with room, and a random sample. handle
// says who is listed; the others are left out.
func (b *book) hear(q *rules.Query, metric *rules.Metric, handle func(uid) rules.Peer) []rules.Announcement {
	var all []rules.Announcement
	for _, n := range b.snapshot() {
		if n.Announcement.Holder = handle(n.holder); n.Announcement.Holder != rules.None {
			all = append(all, n.Announcement)
		}
	}
	slices.SortStableFunc(all, func(x, y rules.Announcement) int {
		return cmp.Compare(metric.Estimate(&q.At, &x.At), metric.Estimate(&q.At, &y.At))
	})
	list := append([]rules.Announcement(nil), all[:min(q.Near, len(all))]...)
	var room []rules.Announcement
	for _, a := range all {
		if a.Spare > 0 {
			room = append(room, a)
		}
	}
	seed := q.Seed
	pick := func(from []rules.Announcement) {
		if len(from) > 0 {
			seed = rules.Mix(seed + 0x9e3779b97f4a7c15)
			list = append(list, from[seed%uint64(len(from))])
		}
	}
	if q.Spare > 0 {
		list = append(list, room[:min(q.Spare, len(room))]...)
		pick(room)
		pick(room)
	}
	for range q.Sample {
		pick(all)
	}
	return list
}
