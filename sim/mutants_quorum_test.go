package sim_test

var quorumMutants = []wrong{
	{"quorum: no wait after a restart", "quorum/core.go", "\tc.patience = c.now.Add(c.t)\n\tif c.fresh", "\tc.patience = c.now.Add(1)\n\tif c.fresh", "scenario quorum/testdata/restart_promises.txt"},
	{"quorum: the lease counts from the answer", "quorum/leader.go", "max(p.acked, m.Stamp), m.Eligibility", "max(p.acked, c.stamp()), m.Eligibility", "scenario quorum/testdata/late_answers.txt"},
	{"quorum: drift is forgotten", "quorum/quorum.go", "\treturn t - time.Duration(float64(t)*a.drift) - margin(t)", "\treturn t - margin(t)", "scenario quorum/testdata/drift.txt"},
	{"quorum: a vote is sent before it is saved", "quorum/disk.go", "\t\tc.write(c.recordsOf(ready), false, func() { c.perform(ready) })", "\t\tc.perform(ready)\n\t\tc.write(c.recordsOf(ready), false, nil)", "soak quorum 1:20: a token is on disk before any message or watcher is told of it"},
	{"quorum: a leader is forgotten on silence shorter than T", "quorum/voter.go", "\tc.patience, c.promised = c.now.Add(c.t), b.term", "\tc.patience, c.promised = c.now.Add(c.t*3/4), b.term", "soak quorum 1:500: no two leases are in force at one time"},
	{"quorum: a promise is not kept", "quorum/voter.go", "\tif !forced && !c.patience.IsZero() {", "\tif false {", "soak quorum 1:500: no two leases are in force at one time"},
	{"quorum: a second leadership in one term", "quorum/leader.go", "\tc.end(cause, \"its lease has ended\")", "\tc.unview(cause)\n\tc.until = time.Time{}", "soak quorum 1:500: an epoch names one leadership, and the next has a higher one"},
	{"quorum: a lease outlives a stall", "quorum/core.go", "\t\tc.expire()\n", "", "scenario quorum/testdata/freeze.txt"},
	{"quorum: a leap of the clock ends a promise", "quorum/core.go", "\t\tc.stall()\n", "", "scenario quorum/testdata/clock_jump.txt"},
	{"quorum: half is a majority", "quorum/leader.go", "stamps[(len(stamps)-1)/2]", "stamps[len(stamps)/2]", "scenario quorum/testdata/half.txt"},
	{"quorum: leads before it knows what was committed", "quorum/leader.go", "\tif !c.settled || c.drains", "\tif c.drains", "soak quorum 1:500: what was committed is never lost"},
	{"quorum: one configuration's majority is enough", "quorum/leader.go", "\t\tif i == 0 || at < least {", "\t\tif i == 0 {", "test quorum TestALeaseTakesAMajorityOfBothConfigurations"},
	{"quorum: who is on no list is never let in", "quorum/guests.go", "\treturn guests < MaxMembers && (", "\treturn false && (", "scenario quorum/testdata/away_during_join.txt"},
	{"quorum: a number that was removed is not told of", "quorum/cards.go", "\tif its.Void != 0 && ", "\tif false && ", "scenario quorum/testdata/added_anew.txt"},
	{"quorum: who closes keeps the lead", "quorum/stance.go", "\tc.leave(0, \"it closes\")\n", "", "scenario quorum/testdata/leader_leaves.txt"},
	{"quorum: who is removed keeps the newest log for itself", "quorum/stance.go", "c.roster.votes(c.me.Number)\n", "c.eligible()\n", "scenario quorum/testdata/promoted_unheard.txt"},
	{"quorum: the lease is given up before the work has stopped", "quorum/disk.go", "{ c.leave(0, why) }", "{ c.end(election.CauseResigned, why) }", "scenario quorum/testdata/full_disk_stops_work.txt"},
	{"quorum: a leadership that never began drains", "quorum/stance.go", "\t\tc.unview(election.CauseResigned)\n\t\tif c.working {\n\t\t\tc.drains = true\n\t\t\treturn\n\t\t}\n\t}\n", "\t\tc.unview(election.CauseResigned)\n\t}\n\tif c.working {\n\t\tc.drains = true\n\t\treturn\n\t}\n", "scenario quorum/testdata/never_began.txt"},
	{"quorum: another list at a restart is taken", "quorum/core.go", "\tif digest(r) == s.Digest {", "\tif r.Seats != nil {", "test quorum TestAListThatDiffersAtARestartIsRefused"},
}
