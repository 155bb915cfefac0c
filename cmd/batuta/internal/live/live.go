// Package live runs an overlay of many nodes in a process, each with its own memberlist, over a
// network in memory that imposes measured round trips. It compares the result with the laboratory
// and k-medoids for the same round trips and seed.
package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	rules "github.com/batuta-dev/batuta/internal/superpeer"
	"github.com/batuta-dev/batuta/internal/superpeer/lab"
	"github.com/batuta-dev/batuta/superpeer"
	"github.com/batuta-dev/batuta/superpeer/superpeertest"
)

// Options describe a run. The zero value of each field is its default.
type Options struct {
	RTT      *lab.Matrix   // between the hosts; required
	Nodes    int           // default as many as hosts; with more, several share a host
	Method   rules.Method  // default superpeer.Tokens
	Fraction float64       // default 0.05
	Capacity int           // default 0: no limit
	Round    time.Duration // default 1s
	Rounds   int           // default 120; counted from when all nodes have joined

	Membership superpeer.Membership // default superpeer.MembershipFull

	Loss float64 // share of packets that are lost, in [0, 1)
	Late float64 // share of packets that take up to half a round longer, in [0, 1]

	Kills []Kill
	Seed  uint64       // default 1
	Quick bool         // leave out the laboratory
	Each  func(Sample) // called after each round; may be nil
}

// Kill kills nodes without an announcement.
type Kill struct {
	At     int     // round
	Share  float64 // of all nodes, at random
	Supers int     // super peers, in addition
}

// Sample is the state after a round. Latencies are the imposed round trips.
type Sample struct {
	Round    int     `json:"round"`
	Nodes    int     `json:"nodes"` // alive
	Wanted   int     `json:"wanted"`
	Live     int     `json:"live"`
	Unserved int     `json:"unserved"` // ordinary nodes without a super peer that lives
	Mean     float64 `json:"mean_latency"`
	LoadMax  int     `json:"load_max"`
	Over     int     `json:"over_capacity"`
	Orphans  int     `json:"orphans"`      // clients of the last killed super peers that are not served yet
	Changed  int     `json:"changed_home"` // nodes with a different super peer than a round before
}

// Report is the result of a run.
type Report struct {
	Membership string  `json:"membership"`
	Method     string  `json:"method"`
	Nodes      int     `json:"nodes"`
	Rounds     int     `json:"rounds"`
	RoundMS    float64 `json:"round_ms"`
	Capacity   int     `json:"capacity"`
	Last       Sample  `json:"last"`
	// LabMean is the laboratory's result for the same matrix, seed and rounds; null if not
	// computed.
	LabMean  *float64 `json:"lab_mean_latency"`
	Mean     float64  `json:"mean_latency"`     // over the last tenth
	Exact    *int     `json:"exact_from"`       // first round from which the number was right until the end or the first kill
	CapOver  int      `json:"cap_violations"`   // total of all rounds
	Changes  int      `json:"home_changes"`     // by all nodes, over the last half of the rounds
	Bytes    float64  `json:"bytes_a_node_s"`   // sent, over the last half, headers included
	CPU      float64  `json:"cpu_a_node"`       // of a CPU core, over the last half; 0 if it cannot be measured
	Memory   float64  `json:"memory_a_node"`    // bytes of heap and stacks, at the end
	Recovery []Mended `json:"recovery"`         // by kill
	Joined   float64  `json:"joined_after_s"`   // until all nodes had joined
	Samples  []Sample `json:"samples"`          // by round
	Seconds  float64  `json:"seconds"`          // in total
	Refused  uint64   `json:"messages_refused"` // as impossible; by all nodes
	Dropped  uint64   `json:"messages_dropped"` // because a queue was full
}

// Mended is the recovery from a kill, in rounds; null: not before the next kill or the end.
type Mended struct {
	Round   int  `json:"round"`
	Killed  int  `json:"killed"`
	Orphans int  `json:"orphans"`            // clients of the super peers killed
	Served  *int `json:"orphans_99_after"`   // until 99 % of them were served again
	Exact   *int `json:"number_exact_after"` // until there were as many super peers as wanted again
}

// Validate returns what cannot work, or nil.
func (o Options) Validate() error {
	o, err := o.defaults()
	if err != nil {
		return err
	}
	c := superpeer.Config{Method: o.Method, Fraction: o.Fraction, Capacity: o.Capacity, Round: o.Round, Membership: o.Membership}
	if !(o.Loss >= 0 && o.Loss < 1) {
		return fmt.Errorf("loss %v: want a share from 0 to less than 1", o.Loss)
	}
	if !(o.Late >= 0 && o.Late <= 1) {
		return fmt.Errorf("late %v: want a share from 0 to 1", o.Late)
	}
	for _, k := range o.Kills {
		if k.At >= o.Rounds {
			return fmt.Errorf("kill in round %d: want a round before %d", k.At, o.Rounds)
		}
	}
	return c.Validate()
}

func (o Options) defaults() (Options, error) {
	if o.RTT == nil {
		return o, errors.New("no round trips: give a matrix")
	}
	if o.Nodes == 0 {
		o.Nodes = o.RTT.Size()
	}
	o.Fraction = cmp.Or(o.Fraction, 0.05)
	o.Round = cmp.Or(o.Round, time.Second)
	o.Rounds = cmp.Or(o.Rounds, 120)
	o.Seed = cmp.Or(o.Seed, 1)
	o.Method = cmp.Or(o.Method, rules.Tokens)
	o.Membership = cmp.Or(o.Membership, superpeer.MembershipFull)
	o.RTT = o.RTT.Spread(o.Nodes, o.Seed)
	return o, nil
}

// group is all nodes of a run, by host.
type group struct {
	o         Options
	net       *superpeertest.Network
	members   []*superpeer.Member // nil: killed
	wires     []*superpeertest.Transport
	cfg       rules.Config
	homes     []int // by host, a round ago; -1: not served
	orphans   []int
	killed    uint64 // messages refused by killed nodes
	lost      uint64 // and dropped
	sent      uint64 // bytes, by killed nodes
	rng       rules.Draw
	remaining int
}

// Run runs o. It takes Rounds times Round, plus some time before to join and after to compute.
func Run(ctx context.Context, o Options) (*Report, error) {
	o, err := o.defaults()
	if err != nil {
		return nil, err
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	began := time.Now()
	g := &group{o: o, rng: rules.Draw(o.Seed), members: make([]*superpeer.Member, o.Nodes), wires: make([]*superpeertest.Transport, o.Nodes)}
	g.cfg = rules.Config{Method: o.Method, Fraction: o.Fraction, Capacity: o.Capacity}.Defaults()
	g.net = superpeertest.NewNetwork(func(a, b int) time.Duration {
		return time.Duration(float64(o.RTT.RTT(a, b)) * float64(time.Millisecond))
	})
	if o.Loss > 0 || o.Late > 0 {
		g.net.Disturb(disturbance(o))
	}
	defer g.close()
	if err := g.join(ctx); err != nil {
		return nil, err
	}
	r := &Report{Membership: string(o.Membership), Method: string(o.Method), Nodes: o.Nodes, Rounds: o.Rounds, RoundMS: 1000 * o.Round.Seconds(), Capacity: o.Capacity, Recovery: []Mended{}}
	r.Joined = time.Since(began).Seconds()
	if err := g.play(ctx, r); err != nil {
		return nil, err
	}
	r.Memory = memory() / float64(g.remaining)
	g.traffic(r)
	g.close()
	r.finish()
	if !o.Quick {
		err = r.compare(o)
	}
	r.Seconds = time.Since(began).Seconds()
	return r, err
}

// play waits for the rounds and samples each.
func (g *group) play(ctx context.Context, r *Report) error {
	clock := time.NewTicker(g.o.Round)
	defer clock.Stop()
	var half usage
	for round := range g.o.Rounds {
		for _, k := range g.o.Kills {
			if k.At == round {
				r.Recovery = append(r.Recovery, g.kill(k))
			}
		}
		if round == g.o.Rounds/2 {
			half = g.usage()
		}
		select {
		case <-clock.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		s := g.look(round + 1)
		if s.Live != s.Wanted {
			time.Sleep(g.o.Round / 2) // a token that is being transferred has no holder
			s.Live = g.supers()
		}
		r.Samples = append(r.Samples, s)
		if g.o.Each != nil {
			g.o.Each(s)
		}
	}
	r.Bytes, r.CPU = g.usage().since(half, g.remaining)
	return nil
}

// look samples the present state.
func (g *group) look(round int) Sample {
	s := Sample{Round: round, Nodes: g.remaining, Wanted: g.cfg.Count(g.remaining)}
	sum, served := 0.0, 0
	home := make([]int, len(g.members))
	for i, m := range g.members {
		home[i] = -1
		if m == nil {
			continue
		}
		if m.IsSuperPeer() {
			home[i] = i
			s.Live++
			load := len(m.Clients())
			s.LoadMax = max(s.LoadMax, load)
			if g.o.Capacity > 0 && load > g.o.Capacity {
				s.Over++
			}
			continue
		}
		if h, ok := m.Home(); ok {
			if k, err := strconv.Atoi(h.ID); err == nil && g.members[k] != nil && g.members[k].IsSuperPeer() {
				home[i] = k
				sum += float64(g.o.RTT.RTT(i, k))
				served++
				continue
			}
		}
		s.Unserved++
	}
	s.Mean = sum / float64(max(served, 1))
	for i, k := range home {
		if g.homes != nil && k >= 0 && g.homes[i] >= 0 && k != g.homes[i] {
			s.Changed++
		}
	}
	g.homes = home
	for _, i := range g.orphans {
		if g.members[i] != nil && home[i] < 0 {
			s.Orphans++
		}
	}
	return s
}

func (g *group) supers() (k int) {
	for _, m := range g.members {
		if m != nil && m.IsSuperPeer() {
			k++
		}
	}
	return k
}

// kill kills nodes as kill -9 does.
func (g *group) kill(k Kill) Mended {
	var doomed []int
	live := g.live()
	for range int(k.Share * float64(len(live))) {
		i := g.rng.Below(len(live))
		doomed = append(doomed, live[i])
		live = slices.Delete(live, i, i+1)
	}
	supers := k.Supers
	for _, i := range live {
		if supers > 0 && g.members[i].IsSuperPeer() {
			doomed = append(doomed, i)
			supers--
		}
	}
	g.orphans = nil
	for _, i := range g.live() {
		if h, ok := g.members[i].Home(); ok && !slices.Contains(doomed, i) {
			if k, _ := strconv.Atoi(h.ID); slices.Contains(doomed, k) {
				g.orphans = append(g.orphans, i)
			}
		}
	}
	var wait sync.WaitGroup
	for _, i := range doomed {
		t := g.members[i].Status().Traffic
		g.killed, g.lost = g.killed+t.Refused, g.lost+t.Dropped
		g.sent += g.wires[i].Sent()
		g.wires[i].Shutdown() // it sends nothing more from here on
		wait.Go(g.members[i].Kill)
	}
	wait.Wait()
	for _, i := range doomed {
		g.members[i] = nil
	}
	g.remaining -= len(doomed)
	return Mended{Round: k.At, Killed: len(doomed), Orphans: len(g.orphans)}
}

func (g *group) live() (list []int) {
	for i, m := range g.members {
		if m != nil {
			list = append(list, i)
		}
	}
	return list
}

func (g *group) traffic(r *Report) {
	r.Refused, r.Dropped = g.killed, g.lost
	for _, i := range g.live() {
		t := g.members[i].Status().Traffic
		r.Refused, r.Dropped = r.Refused+t.Refused, r.Dropped+t.Dropped
	}
}

// finish summarizes the rounds.
func (r *Report) finish() {
	n := len(r.Samples)
	r.Last = r.Samples[n-1]
	tail := max(1, n/10)
	for _, s := range r.Samples[n-tail:] {
		r.Mean += s.Mean / float64(tail)
	}
	calm := n
	if len(r.Recovery) > 0 {
		calm = r.Recovery[0].Round
	}
	for i := calm; i > 0 && r.Samples[i-1].Live == r.Samples[i-1].Wanted; i-- {
		r.Exact = &r.Samples[i-1].Round
	}
	for i := range r.Samples {
		r.CapOver += r.Samples[i].Over
		if i >= n/2 {
			r.Changes += r.Samples[i].Changed
		}
	}
	for k := range r.Recovery {
		v := &r.Recovery[k]
		end := n
		if k+1 < len(r.Recovery) {
			end = r.Recovery[k+1].Round
		}
		v.mend(r.Samples[v.Round:end])
	}
}

// mend computes the rounds until recovery.
func (v *Mended) mend(after []Sample) {
	for i, s := range after {
		if v.Served == nil && 100*s.Orphans <= v.Orphans {
			v.Served = new(i + 1)
		}
	}
	for i := len(after); i > 0 && after[i-1].Live == after[i-1].Wanted; i-- {
		v.Exact = new(i)
	}
}

// compare runs the same in the laboratory.
func (r *Report) compare(o Options) error {
	l, err := lab.Run(lab.Options{Method: o.Method, RTT: o.RTT, Fraction: o.Fraction, Capacity: o.Capacity, Rounds: o.Rounds, Seed: o.Seed})
	if err != nil {
		return err
	}
	r.LabMean = new(l.Mean)
	return nil
}

// disturbance randomly chooses which packets are lost and which are late.
func disturbance(o Options) func(a, b int) (lost bool, late time.Duration) {
	var packets atomic.Uint64
	return func(int, int) (bool, time.Duration) {
		draw := rules.Mix(rules.Mix(o.Seed+31) + packets.Add(1))
		share := func(x uint64) float64 { return float64(x>>11) / (1 << 53) }
		if share(draw) < o.Loss {
			return true, 0
		}
		if draw = rules.Mix(draw + 1); share(draw) >= o.Late {
			return false, 0
		}
		return false, time.Duration(share(rules.Mix(draw+2)) * float64(o.Round/2))
	}
}

// Nodes join a few at a time: a joining node exchanges the whole list with a node of the overlay.
const (
	joining   = 16 // at the same time, at most
	joinEvery = 25 // in a round
)

func (g *group) join(ctx context.Context) error {
	if err := g.enter(ctx, 0); err != nil {
		return err
	}
	var wait sync.WaitGroup
	slots := make(chan struct{}, joining)
	errs := make([]error, g.o.Nodes)
	for i := 1; i < g.o.Nodes && ctx.Err() == nil; i++ {
		slots <- struct{}{}
		time.Sleep(g.o.Round / joinEvery)
		wait.Go(func() {
			errs[i] = g.enter(ctx, i)
			<-slots
		})
	}
	wait.Wait()
	g.remaining = g.o.Nodes
	return cmp.Or(ctx.Err(), errors.Join(errs...))
}

func (g *group) enter(ctx context.Context, i int) (err error) {
	g.wires[i] = g.net.Transport(i)
	c := superpeer.Config{
		Method: g.o.Method, Fraction: g.o.Fraction, Capacity: g.o.Capacity, Round: g.o.Round,
		ID: strconv.Itoa(i), Membership: g.o.Membership, Transport: g.wires[i], Seed: rules.Mix(g.o.Seed) + uint64(i),
	}
	if i > 0 {
		c.Join = []string{superpeertest.Address(int(rules.Mix(uint64(i))%uint64(min(i, joining))) / joining)}
	}
	if g.members[i], err = superpeer.Join(ctx, c); err != nil {
		return fmt.Errorf("node %d: %w", i, err)
	}
	return nil
}

func (g *group) close() {
	var wait sync.WaitGroup
	for i, m := range g.members {
		if m != nil {
			wait.Go(m.Kill)
			g.members[i] = nil
		}
	}
	wait.Wait()
}

// usage is what all nodes have used so far.
type usage struct {
	at    time.Time
	bytes uint64
	cpu   time.Duration
}

func (g *group) usage() usage {
	u := usage{at: time.Now(), cpu: cpuTime(), bytes: g.sent}
	for _, i := range g.live() {
		u.bytes += g.wires[i].Sent()
	}
	return u
}

func (u usage) since(v usage, nodes int) (bytes, cpu float64) {
	t := u.at.Sub(v.at).Seconds() * float64(nodes)
	if t <= 0 {
		return 0, 0
	}
	return float64(u.bytes-v.bytes) / t, (u.cpu - v.cpu).Seconds() / t
}

// memory returns the present memory of the process, in bytes.
func memory() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}
