// Package named holds many named elections on one membership. The leader of the
// cluster itself, whatever algorithm has elected it, is their coordinator: it assigns
// each name to one of its candidates and spreads the names over the members.
//
// A [Core] goes around the core of a member ([machine.Core]), is stepped in its place and
// is as pure. It knows who coordinates from that core, and until when from its beats.
//
// # How long a lead lasts
//
// Each acknowledgement that a member sends bears a stamp of its own time, and the
// coordinator's next beat echoes it. A member leads what it was assigned until [Core.Until]:
// 2·T and a heartbeat after the last stamp that was echoed. So a coordinator that has
// heard nothing of a member for as long knows that whatever it led is over, also where
// what it has sent since arrives late; and a coordinator that falls silent, and is
// replaced a little after T, interrupts nobody. Where leaderships are leases (quorum) the
// member counts that much less as clocks may drift, and a beat counts only while the
// coordinator's own lease is in force.
//
// # How a name is given to another
//
// After its leader's release, which comes when the work has stopped; at once when its
// process is known to be gone; else when the time above has passed. A new coordinator
// keeps what members tell that they hold, and assigns nothing before each member has
// handle it, is gone, or has lost what it held by time. Under a lease it always waits that
// time, so that a name is never led twice. A resignation carries what is left of it, which
// the coordinator of the next epoch waits for.
//
// # Epochs
//
// A name's epoch is made of the coordinator's and of a count: the coordinator's epoch
// shifted by [EpochBits], or one above the highest known of that name. The coordinator's
// rises with each that takes office and is on disk, so a name's epochs rise across
// leaderships, coordinators and restarts as far as the cluster's own do, and no disk need
// remember ten thousand names. With a best-effort algorithm two sides of a partition may
// count alike; once they meet, the higher token stays, and later ones are above both that
// are told of. Under quorum an epoch names one leadership.
package named
