// Package engines holds elections on an engine that a user already runs, with the API of
// batuta: functions that run while this candidate leads and are waited for, views in order,
// IsLeader by the clock. Packages consul, etcd, kubernetes, mysql, nats, postgres,
// redis and s3 are such engines.
//
// An engine keeps a record per election, and replaces it only if it is as it was read.
// This package does the rest, in the same way for each engine. The leader holds the record, and
// renews it. A renewal holds for [Config.Lease], counted by the leader from before it was sent.
// A candidate waits until it has seen the record unchanged for as long as the record holds, by its
// own clock, and then replaces it. What the clocks of machines and engines show does not matter;
// their rates must not differ by more than [Config.Drift].
//
// An [Election] ends its leadership well before its lease does: [Config.Stop] is what
// is left to the work to stop in. It gives the record up only when the work has stopped, and goes
// on renewing it until then.
//
// The promise: at every instant at most a single candidate's leadership is in force. The epoch of a
// leadership is unique and above all earlier epochs, so it [fences]. The
// promise holds as long as the engine keeps everything that it has confirmed: a restored backup, or
// a standby that is promoted without the last commits, breaks it.
//
// [fences]: https://github.com/batuta-dev/batuta/blob/main/docs/guarantees.md#fencing
package engines
