package sim_test

var namedMutants = []wrong{
	{"named: a new coordinator assigns before others have told what they hold", "assignment/office.go", "m.ID != o.c.self && !(p != nil && (p.reported || p.down))", "false && p != nil", "test assignment TestANewCoordinatorInterruptsNobody"},
	{"named: who is silent is replaced too early", "assignment/office.go", "o.c.now.Sub(p.heard) > o.c.wait && !p.silent", "o.c.now.Sub(p.heard) > o.c.timing.T() && !p.silent", "test assignment TestASilentMemberIsReplacedWhenItsTimeHasPassed"},
	{"named: a lead ends before its work has stopped", "assignment/member.go", "	if !h.working {\n		c.gaveUp(name, h)", "	if true {\n		c.gaveUp(name, h)", "test assignment TestAHandOverWaitsForTheWork"},
	{"named: what was missed is not asked for", "assignment/core.go", "		if c.welcomed && (s.Version != c.version || s.Digest != c.digest) {", "		if false {", "test assignment TestWhatIsLostIsSaidAgain"},
	{"named: shares are left as they are", "assignment/spread.go", "o.loads[s.leader]-o.loads[to.id] > heaviest &&", "false &&", "test assignment TestAHandOverWaitsForTheWork"},
	{"named: a name's epochs begin anew", "assignment/office.go", "	o.floor = min(t.Epoch, maxEpoch>>EpochBits-2) << EpochBits\n", "	o.floor = 1\n", "test assignment TestAMemberThatRestartsLeadsUnderNewEpochs"},
	{"named: a higher epoch that another knows counts only once its leader has told", "assignment/claims.go", "k.want == 1 && !s.expected &&", "k.want == 1 && !s.expected && !s.asked.IsZero() &&", "scenario election/ring/testdata/ring/began_anew_below.txt"},
	{"named: who was silent and is heard again gets no share", "assignment/claims.go", "	if late {\n", "	if false && late {\n", "scenario election/bully/testdata/silent_gets_its_share.txt"},
	{"named: a coordinator with another priority is another", "assignment/core.go", "return a.Epoch == b.Epoch && a.Leader.ID == b.Leader.ID", "return a == b", "scenario quorum/testdata/coordinator_ranks_anew.txt"},
}
