// Package metric has the metrics of a process as plain facts: whatever shows them needs no more.
package metric

import (
	"maps"
	"slices"
	"sync"
)

// Kind is how the values of a family move.
type Kind int

// The kinds of families.
const (
	Gauge     Kind = iota // up and down
	Counter               // up
	Histogram             // observations by size
)

// Family is a metric with all its series.
type Family struct {
	Name, Help string
	Kind       Kind
	Labels     []string // names
	Samples    []Sample // one for each series
	Err        error    // why there are no samples; nil: there is no reason
}

// Source gives families. Those are the same each time, also where they have no samples.
type Source func() []*Family

// Sample is the value of a series.
type Sample struct {
	Labels []string           // their values, in the order of the family's names
	Value  float64            // of a histogram: the sum
	Count  uint64             // of a histogram
	UpTo   map[float64]uint64 // of a histogram: how many observations are up to each bound
}

// Add adds a sample.
func (f *Family) Add(value float64, labels ...string) {
	f.Samples = append(f.Samples, Sample{Labels: labels, Value: value})
}

// OneIf is the value of a gauge of something that holds or not.
func OneIf(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

// Observe adds an observation to the sample of a histogram.
func (s *Sample) Observe(value float64) {
	s.Count++
	s.Value += value
	for bound := range s.UpTo {
		if value <= bound {
			s.UpTo[bound]++
		}
	}
}

// List is what a [Source] gives, as it grows.
type List []*Family

// Gauge adds a family without samples.
func (l *List) Gauge(name, help string, labels ...string) *Family {
	*l = append(*l, &Family{Name: name, Help: help, Labels: labels})
	return (*l)[len(*l)-1]
}

// Counter adds a family without samples.
func (l *List) Counter(name, help string, labels ...string) *Family {
	f := l.Gauge(name, help, labels...)
	f.Kind = Counter
	return f
}

// Counts are a counter with one label.
type Counts struct {
	name, help, label string

	mu sync.Mutex
	n  map[string]uint64 // by the label's value
}

// NewCounts makes Counts with these values of the label, each zero.
func NewCounts(name, help, label string, values ...string) *Counts {
	c := &Counts{name: name, help: help, label: label, n: map[string]uint64{}}
	for _, value := range values {
		c.n[value] = 0
	}
	return c
}

// Inc adds one.
func (c *Counts) Inc(value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[value]++
}

// Families is the [Source] of the counter.
func (c *Counts) Families() []*Family {
	c.mu.Lock()
	defer c.mu.Unlock()
	var l List
	f := l.Counter(c.name, c.help, c.label)
	for _, value := range slices.Sorted(maps.Keys(c.n)) {
		f.Add(float64(c.n[value]), value)
	}
	return l
}
