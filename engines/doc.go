// Package engines holds elections on an engine that a user already runs, with the API of
// batuta: functions that run while one leads and are waited for, views in order,
// IsLeader by the clock. Packages etcd, kubernetes, mysql, nats, postgres and redis are
// such engines.
//
// An engine keeps one record an election, and replaces it only where it is as it was seen.
// All else is done here, alike for each of them. Who leads holds the record, and renews it. A renewal holds for
// [Config.Lease], counted by the leader from before it was sent. Who would lead instead
// waits until it has seen the record unchanged for as long as the record says, by a
// clock of its own, and replaces it then. So it matters to nobody what the clocks of
// machines and engines show, but only that no two differ in rate by more than
// [Config.Drift].
//
// An [Election] ends its leadership well before its lease does: [Config.Stop] is what
// is left to the work to stop in. It gives the record up only when the work has stopped, and goes
// on renewing it until then.
//
// What is promised: at every instant at most one candidate's leadership is in force, and
// the epoch of a leadership is its alone and above those before it, so that it
// [fences]. It holds as long as the engine forgets nothing that it has confirmed: a backup that is put back,
// or a standby that is promoted without the last commits, breaks it.
//
// [fences]: https://github.com/batuta-dev/batuta/blob/main/docs/guarantees.md#fencing
package engines
