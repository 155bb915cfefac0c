package superpeer

import rules "github.com/batuta-dev/batuta/internal/superpeer"

// announce publishes our token by gossip: at once when holder, version or room has changed, early
// when the figures have, else periodically.
func (d *driver) announce(a *rules.Announcement) {
	n := notice{Announcement: *a, holder: d.self, seq: d.told.seq, load: int32(len(d.node.Serving())), mean: meanOf(d.node.Serving(), func(l *rules.Lease) float32 { return l.RTT })}
	age := d.round - d.toldAt
	old := &d.told
	fresh := old.holder == 0 || old.Token != n.Token || old.Version != n.Version || (old.Spare > 0) != (n.Spare > 0)
	changed := differ(old.Gain, n.Gain) || differ(old.Loss, n.Loss) || differ(old.Price, n.Price) || differ(old.mean, n.mean)
	gap := d.m.book.gap(d.cfg.Count(d.size))
	if c := d.m.core; c != nil {
		n.waits = int32(len(c.unserved))
		fresh = fresh || (old.load != n.load || old.waits != n.waits) && age >= gap/4
	}
	if !fresh && !(changed && age >= gap/2) && age < gap {
		return
	}
	n.seq = uint32(d.round) + 1
	if n.seq <= d.told.seq {
		n.seq = d.told.seq + 1
	}
	d.told, d.toldAt = n, d.round
	d.m.book.learn(&n, d.round)
}

// retire withdraws the announcement of our token. If super peers add up their loads the withdrawal
// is announced too: they would count our clients twice.
func (d *driver) retire() {
	last := d.told
	d.told = notice{seq: last.seq}
	if d.m.core == nil || last.holder == 0 {
		d.m.book.forget(d.self)
		return
	}
	d.told.seq++
	last.seq, last.load, last.waits = d.told.seq, 0, over
	d.m.book.learn(&last, d.round)
}

func differ(a, b float32) bool {
	gap, most := max(a, b)-min(a, b), max(a, b, -a, -b)
	return gap > changedTell*most && gap > 1
}

// meanOf returns the mean of the measured round trips of list; -1: none is measured.
func meanOf[T any](list []T, rtt func(*T) float32) float32 {
	sum, k := float32(0), 0
	for i := range list {
		if ms := rtt(&list[i]); ms >= 0 {
			sum += ms
			k++
		}
	}
	if k == 0 {
		return -1
	}
	return sum / float32(k)
}
