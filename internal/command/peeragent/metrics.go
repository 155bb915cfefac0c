package peeragent

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/batuta-dev/batuta/superpeer"
)

// collector reads a node's status for each scrape, and keeps nothing.
type collector struct {
	node    *superpeer.Member
	version string
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("batuta_superpeer_"+name, help, labels, nil)
}

var (
	descInfo     = desc("info", "1, with what does not change.", "id", "overlay", "method", "version")
	descIs       = desc("is_super_peer", "1 on a super peer.")
	descServed   = desc("served", "1 when a super peer serves the node, or it is one.")
	descClients  = desc("clients", "Nodes that this one serves.")
	descCapacity = desc("capacity", "The most that it may serve; 0: no limit.")
	descNodes    = desc("nodes", "Nodes of the overlay, as this one counts them.")
	descWanted   = desc("wanted", "Super peers that there shall be.")
	descLive     = desc("live", "Super peers that this node has learned of lately.")
	descWrong    = desc("share_wrong_seconds", "For how long the number of super peers has not been the wanted one; 0 when it is right.")
	descUnserved = desc("unserved_seconds", "For how long no super peer has served the node; 0 when one does.")
	descRTT      = desc("home_rtt_seconds", "Round trip to the super peer; not there while it is not known.")
	descHolds    = desc("requirement_holds", "1 when a requirement holds as far as this node knows.", "requirement")
	descMessages = desc("messages_total", "Messages of the overlay, without memberlist's own.", "direction")
	descBytes    = desc("message_bytes_total", "Their bytes.", "direction")
	descProbes   = desc("probes_total", "Round trips measured on purpose.")
	descRefused  = desc("messages_refused_total", "Messages that could not be true.")
	descDropped  = desc("messages_dropped_total", "Messages for which there was no room.")
)

// Describe implements [prometheus.Collector].
func (c *collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements [prometheus.Collector].
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := c.node.Status()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge(descInfo, 1, s.ID, s.Overlay, s.Method, c.version)
	gauge(descIs, one(s.SuperPeer))
	gauge(descServed, one(s.SuperPeer || s.Home != nil))
	gauge(descClients, float64(s.Clients))
	gauge(descCapacity, float64(s.Capacity))
	gauge(descNodes, float64(s.Nodes))
	gauge(descWanted, float64(s.Wanted))
	gauge(descLive, float64(s.Live))
	gauge(descWrong, s.ShareWrong)
	gauge(descUnserved, s.Unserved)
	if s.RTTms != nil {
		gauge(descRTT, *s.RTTms/1000)
	}
	r := &s.Requirements
	gauge(descHolds, one(r.Latency.Holds), "low_latency")
	gauge(descHolds, one(r.Spread.Holds), "spread_evenly")
	gauge(descHolds, one(r.Share.Holds), "predefined_share")
	gauge(descHolds, one(r.Capacity.Holds), "bounded_load")
	count(descMessages, s.Traffic.Sent, "sent")
	count(descMessages, s.Traffic.Received, "received")
	count(descBytes, s.Traffic.BytesOut, "sent")
	count(descBytes, s.Traffic.BytesIn, "received")
	count(descProbes, s.Traffic.Probes)
	count(descRefused, s.Traffic.Refused)
	count(descDropped, s.Traffic.Dropped)
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
