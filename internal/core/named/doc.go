// Package named holds many named elections on one membership. The leader of the cluster itself,
// whatever algorithm has elected it, is their coordinator: it assigns each name to a candidate
// of that name, and spreads the names over the members.
//
// A [Core] goes around the core of a member ([machine.Core]), is stepped in its place and is as
// pure. From that core it learns which member coordinates, and from the core's heartbeats until
// when.
//
// # How long a lead lasts
//
// Each acknowledgement that a member sends has a stamp of the member's own time, and the
// coordinator's next heartbeat echoes it. A member leads what it was assigned until
// [Core.Until]: 2·T and a heartbeat after the last stamp that was echoed. So a coordinator that
// has received nothing from a member for that long knows that whatever the member led is over,
// also if what it has sent since arrives late. A coordinator that falls silent, and is replaced
// a little after T, interrupts no work. If leaderships are leases (quorum) the member counts
// that much less as clocks may drift, and a heartbeat counts only while the coordinator's own
// lease is in force.
//
// # How a name moves
//
// After its leader's release, which comes when the work has stopped; without a lease at once when
// its process is known to be gone; else when the time above has passed. A new coordinator keeps
// what members report that they hold. It assigns nothing before each member has reported, is gone,
// or has lost what it held by time. Members that it receives lead on until they have reported,
// for a time that has a bound. Under a lease it always waits that time, so that a name is
// never led twice. A resignation carries what is left of it, and the coordinator of the next
// epoch waits for that.
//
// # Epochs
//
// A name's epoch is made of the coordinator's and of a count: the coordinator's epoch shifted
// by [EpochBits], or the next after the highest known of that name. The coordinator's rises
// with each that takes office and is on disk. So a name's epochs rise across leaderships,
// coordinators and restarts as far as the cluster's own do, and no disk need remember ten
// thousand names. With a best-effort algorithm two sides of a partition may count alike. When
// they meet, the higher token stays, and later tokens are above both. Under quorum an epoch
// belongs to a single leadership.
package named
