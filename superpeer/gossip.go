package superpeer

import (
	"cmp"
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"sync"

	rules "github.com/batuta-dev/batuta/internal/superpeer"
)

// Gossip of announcements. Each is some 36 bytes. A node passes news on to tellTimes nodes, and
// never more than tellRate bytes of it a round. The more super peers there are, the less often each
// repeats what has not changed. News is added to pings and their answers, which on average delays
// it by half a round; only news older than tellWait gets packets of its own.
const (
	tellTimes   = 3
	tellRate    = 350  // bytes per round that a node spends on announcements
	tellBurst   = 1400 // bytes that may accumulate
	tellSize    = 48   // bytes of an announcement, with its frame
	tellWait    = 1    // rounds
	minTellGap  = 4    // rounds between two announcements without a change
	maxHeard    = 4096 // super peers that a node lists
	changedTell = 0.25 // the relative change of gain, loss or price that is announced early
)

// The few nodes of the core of a large overlay may spend more on it, and do not wait: they add up
// their loads.
const coreTellRate = 8 * tellRate

// tellGap returns the number of rounds between two announcements without a change.
func tellGap(tokens int) rules.Round { return gapAt(tellRate, tokens) }

// gapAt does the same, at that many bytes per round.
func gapAt(rate float64, tokens int) rules.Round {
	return max(minTellGap, rules.Round(math.Ceil(float64(tokens*tellTimes*tellSize)/rate)))
}

// notice is an announcement on the wire: Holder is not used, holder replaces it. Load and mean are
// how many nodes the holder serves and at what distance, so that every node can add them up.
type notice struct {
	rules.Announcement
	holder uid
	seq    uint32
	load   int32
	mean   float32 // milliseconds; negative: not measured
	waits  int32   // nodes without a super peer for which it has no room; only in the core; over: it no longer holds the token
}

// over as waits marks the last announcement of a holder.
const over = math.MaxInt32

// encode encodes n in some 36 bytes: durations in milliseconds as bfloat16, positions in tenths of
// a millisecond.
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

// decodeNotice decodes an encoded notice without its first byte. It is ok only if all of it may be
// true in an overlay of that many tokens and that capacity.
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
		return false // no super peer has more places than the capacity
	}
	return int(n.Token) < tokens && n.Price >= 0 && n.Gain >= 0 && n.At.Height >= 0 && n.At.Height <= maxExtent && n.mean <= maxRTT
}

// entry is what is known of a token.
type entry struct {
	notice
	heard rules.Round
	sent  int  // times passed on
	old   bool // it was replaced or dropped
}

// book is what was learned by gossip. The driver and memberlist's goroutines share it.
type book struct {
	mu      sync.Mutex
	entries map[int32]*entry
	hot     []*entry      // news to pass on; may contain replaced entries
	token   map[uid]int32 // by holder
	rivals  map[uid]rival // by holder
	said    map[uid]word  // the last announcement of each holder, even if it was dropped
	round   rules.Round
	swept   rules.Round // when old entries were last removed
	tokens  int         // that were needed then
	budget  float64     // bytes
	most    int         // entries
	core    bool        // the core's: see core.go
}

// word is the number of an announcement, and when it was learned.
type word struct {
	seq uint32
	at  rules.Round
}

// remember is how many times longer than an announcement its number is kept. Books drop old entries
// at different times: a node that has not yet done so repeats it, and without the number it would
// be repeated forever.
const remember = 4

func newBook() *book {
	return &book{entries: map[int32]*entry{}, token: map[uid]int32{}, rivals: map[uid]rival{}, said: map[uid]word{}, budget: tellBurst, most: maxHeard}
}

// gap returns the number of rounds between two announcements without a change.
func (b *book) gap(tokens int) rules.Round {
	if b.core {
		return gapAt(coreTellRate, tokens)
	}
	return tellGap(tokens)
}

// bound limits the book to most entries: those learned last.
func (b *book) bound(most int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.most = most; len(b.entries) > most; {
		b.unlearn(b.oldest())
	}
}

// passesOn reports whether this node passes news on: a node outside the core does not.
func (b *book) passesOn() bool { return b.most == maxHeard }

// oldest returns the token that was learned longest ago.
func (b *book) oldest() (token int32) {
	var old *entry
	for t, e := range b.entries {
		if old == nil || e.heard < old.heard || e.heard == old.heard && t < token {
			token, old = t, e
		}
	}
	return token
}

// unlearn drops the announcement of token, which may be learned again.
func (b *book) unlearn(token int32) {
	if e := b.entries[token]; e != nil {
		delete(b.said, e.holder)
	}
	b.drop(token)
}

// learn records n and reports whether it is news. A holder's last announcement counts, whatever its
// version: a token's record may have been lost and started again. A new token of a holder is
// accepted once its last has not been mentioned for a while: no node is listed for two.
func (b *book) learn(n *notice, now rules.Round) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if last, ok := b.said[n.holder]; ok && n.seq <= last.seq {
		if e := b.entries[n.Token]; e != nil && e.holder == n.holder && e.seq == n.seq && !b.passesOn() {
			e.heard = now // the sender still receives it
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
		return false // a duplicate; its registrar resolves it
	}
	if e != nil {
		e.old = true
		if e.holder != n.holder {
			delete(b.token, e.holder)
			if n.Version == e.Version {
				b.contend(e.holder, e.heard) // two holders in turn
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

// forget drops the announcement of holder: it is gone, or holds no token.
func (b *book) forget(holder uid) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.rivals, holder)
	if t, ok := b.token[holder]; ok {
		b.drop(t)
	}
}

// doubt drops the announcement of token, which was false, and maybe from a false holder.
func (b *book) doubt(token int32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unlearn(token)
}

// expire drops announcements that are old or not needed any more, and adds the byte budget of the
// rounds that passed. It checks all entries only every few rounds.
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
		tokens = surplus(tokens) // nodes served by their holders count until they are dropped
	}
	old := 3*gap + 2
	for t, e := range b.entries {
		if now-e.heard > old || int(t) >= tokens {
			b.drop(t)
		}
	}
	maps.DeleteFunc(b.rivals, func(_ uid, r rival) bool { return now-r.last > old })
	maps.DeleteFunc(b.said, func(_ uid, last word) bool { return now-last.at > remember*old })
}

// surplus returns the bound of tokens that a message may name: tokens that are not needed any more,
// because nodes have gone, still have to be dropped.
func surplus(tokens int) int { return 4*tokens + 64 }

// cool removes entries from hot that were sent often enough or replaced. It sorts the rest: the
// least sent first, and of those the latest.
func (b *book) cool() {
	b.hot = slices.DeleteFunc(b.hot, func(e *entry) bool { return e.sent >= tellTimes || e.old })
	slices.SortFunc(b.hot, func(x, y *entry) int {
		return cmp.Or(cmp.Compare(x.sent, y.sent), cmp.Compare(y.heard, x.heard), cmp.Compare(x.Token, y.Token))
	})
}

// waited reports whether some news has waited for too long.
func (b *book) waited() bool {
	return slices.ContainsFunc(b.hot, func(e *entry) bool { return b.round-e.heard > tellWait && !e.old && e.sent < tellTimes })
}

// broadcasts returns what to send to the next node. free: the packet is sent anyway.
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

// snapshot returns what is known, by token.
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

// holder returns the holder of token, as far as is known.
func (b *book) holder(token int32) (uid, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.entries[token]; e != nil && e.waits != over {
		return e.holder, true
	}
	return 0, false
}

// hear answers a node's query: the nearest, some with room, and a random sample. It skips nodes
// that handle does not list.
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

// rival is a node that continues to announce a token which has a different holder in the book, or
// which is not needed: a surplus super peer.
type rival struct{ first, last rules.Round }

// suspect records that n was refused because its holder should not have the token. A node that has
// passed its token on stops its announcements. A node that still announces it later is a surplus
// super peer, and all nodes have to count those.
func (b *book) suspect(n *notice, now rules.Round) {
	if b.core || n.waits == over || !b.contend(n.holder, now) {
		return
	}
	b.said[n.holder] = word{n.seq, now}
	b.hot = slices.DeleteFunc(b.hot, func(e *entry) bool { return e.holder == n.holder && b.entries[e.Token] != e })
	b.hot = append(b.hot, &entry{notice: *n, heard: now})
}

// contend records that holder was a rival at that round; false: there is no room.
func (b *book) contend(holder uid, at rules.Round) bool {
	r, ok := b.rivals[holder]
	if !ok {
		r.first = at
	}
	if !ok && len(b.rivals) >= maxHeard {
		return false
	}
	r.last = max(r.last, at)
	b.rivals[holder] = r
	return true
}

// surplus records an announcement of a token that is not needed.
func (b *book) surplus(n *notice, now rules.Round) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if last, ok := b.said[n.holder]; !ok || n.seq > last.seq {
		b.suspect(n, now)
	}
}

// supers returns the known number of super peers, with self if it is a super peer.
func (b *book) supers(self uid, super bool) (k int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.entries {
		if e.waits != over && e.holder != self {
			k++
		}
	}
	for u, r := range b.rivals {
		if _, listed := b.token[u]; !listed && u != self && r.last-r.first >= minTellGap {
			k++
		}
	}
	if super {
		k++
	}
	return k
}

// fence limits the versions of tokens. They rise by one with each move, and by up to eight a round
// while a registrar looks for a holder. A version that rises faster is forged, and would in the end
// leave no version for an honest holder. What is refused now is accepted some rounds later, so that
// no node is locked out permanently.
//
// For a token that is new to a node the first version is accepted, even if a malicious node sent
// it. So for some rounds a version that is far lower replaces it.
type fence map[int32]stamp

// stamp is a token's version, and the highest that it can have reached by a round.
type stamp struct {
	version uint32
	limit   uint64
	round   rules.Round
	first   rules.Round // when the token was first mentioned
}

// A version may rise by firstLeap at once and by leap for each round that passes, at every node
// alike: all nodes accept the same versions. If versions differ by absurd, one is false.
const (
	firstLeap = 64
	leap      = 16
	absurd    = 1 << 12
)

func fenced(k rules.Kind) bool {
	switch k {
	case rules.Keep, rules.Grant, rules.Confirm, rules.Transfer, rules.Moved, rules.Accept:
		return true
	}
	return false
}

// allow reports whether token may have reached version. It records nothing about tokens that are
// not needed: a token may be needed later, and then begins at its first version. fooled reports
// that the recorded version was false.
func (f fence) allow(token int32, version uint32, now rules.Round, tokens int) (possible, fooled bool) {
	if int(token) >= tokens {
		return true, false
	}
	last, ok := f[token]
	if !ok {
		last = stamp{version, uint64(version) + firstLeap, now, now}
	}
	last.limit += leap * uint64(max(0, now-last.round))
	last.round = now
	if now-last.first <= hearsay(tokens) && uint64(last.version) > uint64(version)+absurd {
		last.version, last.limit, fooled = version, uint64(version)+firstLeap, true
	}
	possible = uint64(version) <= last.limit
	if possible {
		last.version = max(last.version, version)
	}
	f[token] = last
	return possible, fooled
}

// hearsay returns the most rounds until a token's holder has announced it.
func hearsay(tokens int) rules.Round { return 3 * tellGap(tokens) }

func (f fence) expire(tokens int) {
	maps.DeleteFunc(f, func(t int32, _ stamp) bool { return int(t) >= tokens })
}

// claims are the tokens that nodes have claimed as their own.
type claims map[uid]claim

type claim struct {
	token int32
	at    rules.Round
}

// allow reports whether holder may act for token. A holder may get a new token, but is then silent
// on its last for minTellGap rounds.
func (c claims) allow(holder uid, token int32, now rules.Round) bool {
	if last, ok := c[holder]; ok && last.token != token && now-last.at < minTellGap {
		return false
	}
	c[holder] = claim{token, now}
	return true
}

func (c claims) expire(now rules.Round) {
	maps.DeleteFunc(c, func(_ uid, last claim) bool { return now-last.at >= minTellGap })
}
