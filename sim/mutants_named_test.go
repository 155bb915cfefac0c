package sim_test

var namedMutants = []wrong{
	{"named: a new coordinator assigns before others have told what they hold", "assignment/office.go", "m.ID != o.c.self && !(p != nil && (p.reported || p.down))", "false && p != nil", "test assignment TestANewCoordinatorInterruptsNobody"},
	{"named: who is silent is replaced too early", "assignment/office.go", "o.c.now.Sub(p.heard) > o.c.wait && !p.silent", "o.c.now.Sub(p.heard) > o.c.timing.T() && !p.silent", "test assignment TestASilentMemberIsReplacedWhenItsTimeHasPassed"},
	{"named: a lead ends before its work has stopped", "assignment/member.go", "	if !h.working {\n		c.gaveUp(name, h)", "	if true {\n		c.gaveUp(name, h)", "test assignment TestAHandOverWaitsForTheWork"},
	{"named: what was missed is not asked for", "assignment/core.go", "		if c.welcomed && (s.Version != c.version || s.Digest != c.digest) {", "		if false {", "test assignment TestWhatIsLostIsSaidAgain"},
	{"named: shares are left as they are", "assignment/spread.go", "o.loads[s.leader]-o.loads[to.id] > heaviest &&", "false &&", "test assignment TestAHandOverWaitsForTheWork"},
	{"named: a name's epochs begin anew", "assignment/office.go", "	o.floor = min(t.Epoch, maxEpoch>>EpochBits-2) << EpochBits\n", "	o.floor = 1\n", "test assignment TestAMemberThatRestartsLeadsUnderNewEpochs"},
	{"named: a higher epoch that another knows counts only once its leader has told", "assignment/claims.go", "if !s.expected && s.leader != election.None && top", "if !s.expected && !s.asked.IsZero() && s.leader != election.None && top", "scenario election/ring/testdata/ring/began_anew_below.txt"},
	{"named: who was silent and is heard again gets no share", "assignment/claims.go", "	if late {\n", "	if false && late {\n", "scenario election/bully/testdata/silent_gets_its_share.txt"},
	{"named: a coordinator with another priority is another", "assignment/core.go", "return a.Epoch == b.Epoch && a.Leader.ID == b.Leader.ID", "return a == b", "scenario quorum/testdata/coordinator_ranks_anew.txt"},
	{"named: a drained member is given names", "assignment/spread.go", "	if o.c.drained[id] {\n		return false\n	}\n", "", "test assignment TestDrain"},
	{"named: weights count for nothing", "assignment/claims.go", "weight, want = max(weight, other.weight), ", "weight, want = max(weight, 1), ", "test assignment TestWeightsCount"},
	{"named: who is preferred is not given its names", "assignment/spread.go", "	case to.prefer && !leader.prefer:\n", "	case false:\n", "test assignment TestPreferWeightsAndSeats"},
	{"named: shares move what was transferred", "assignment/spread.go", "	if s.pinned || leader == nil", "	if leader == nil", "test assignment TestWhatWasTransferredStays"},
	{"named: who has resigned a name is given it again", "assignment/claims.go", "				s.avoid, s.pin = id, true\n", "", "test assignment TestWithdrawAndResign"},
	{"named: an unfit member leads on", "assignment/member.go", "	if !fit {\n		c.loseAll(election.CauseResigned)\n	}\n", "", "test assignment TestAnUnfitMemberGivesUp"},
	{"named: what has lapsed is vouched for again", "assignment/member.go", "h != nil && !h.lapsed", "h != nil", "test assignment TestWhatIsLeftOfALeadIsVouchedForOnce"},
	{"named: of two sides that meet the last to tell stays", "assignment/claims.go", "case cl.Epoch > s.epoch, cl.Epoch == s.epoch && id.Compare(s.last) >= 0:", "case true:", "scenario election/bully/testdata/two_count_alike.txt"},
	{"named: a seat is not raised above what others have seen", "assignment/claims.go", "		top := s.top\n", "		top := s.epoch\n", "test assignment TestEverySeatIsRaisedWhenSidesMeet"},
	{"named: parts of two lists of assignments make one", "assignment/learn.go", " || f.Version != c.wholeOf {", " {", "test assignment TestPartsOfTwoListsMakeNone"},
	{"named: parts of two reports make one", "assignment/claims.go", "f.Part != p.part || p.partsOf != (reportID{f.Version, f.Incarnation}) {", "f.Part != p.part {", "test assignment TestPartsOfTwoReportsMakeNone"},
}
