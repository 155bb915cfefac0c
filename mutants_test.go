package batuta_test

import (
	"path"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/fulltest"
	"github.com/batuta-dev/batuta/internal/mutant"
)

// mutants are the runtime with one thing wrong each, and the test of the same package
// that must see it. What the lab sees has mutants of its own, in package sim.
var mutants = []mutant.Mutant{
	{Name: "Watch drops a view", File: "events.go",
		Old: "return ev.Kind == EventLeader || ev.Kind == EventLost || ",
		New: "return ev.Kind == EventLeader || ",
		By:  "TestEveryWatcherSeesEveryViewInOrder"},
	{Name: "who has no work leads on", File: "leadership.go",
		Old: "			n.emit(election.Event{Kind: election.Candidacy})\n",
		New: "",
		By:  "TestWhoIsAloneAndHasNoWorkDoesNotLead"},
	{Name: "Events takes its place when it is read", File: "internal/past/past.go",
		Old: "	taken.Store(join())\n",
		New: "",
		By:  "TestAPlaceIsTakenBeforeItIsRead"},
	{Name: "a late reader hears of an end first", File: "events.go",
		Old: "s.led != nil && (v.Defined() || v.Lost.Defined())",
		New: "s.led != nil && v.Defined()",
		By:  "TestTheFirstEventOfALeadershipIsItsLeader"},
	{Name: "a reader is ended at the limit", File: "internal/past/past.go",
		Old: "r.behind > l.limit",
		New: "r.behind >= l.limit",
		By:  "TestAReaderAtTheLimitGoesOn"},
	{Name: "a reader that stops is kept all", File: "internal/past/past.go",
		Old: "			r.at = nil // what waits for it is garbage\n",
		New: "",
		By:  "TestNothingIsKeptForAReaderThatStops"},
	{Name: "a watcher is not told that it has missed views", File: "internal/past/past.go",
		Old: "			if late {\n",
		New: "			if false && late {\n",
		By:  "TestAReaderBehindTheLimitIsToldSo"},
	{Name: "a reader that leaves keeps its place", File: "internal/past/past.go",
		Old: "func (l *List[E]) leave(r *Reader[E]) {\n",
		New: "func (l *List[E]) leave(r *Reader[E]) {\n	return\n",
		By:  "TestAReaderThatLeavesKeepsNothing"},
	{Name: "Lead begins with an event that is a leadership's", File: "leadership.go",
		Old: "		if v.Token.Leader.ID == n.id {\n",
		New: "		if v.Token.Leader.ID == n.id && at.Event.Kind != EventMember {\n",
		By:  "TestLeadBeginsWithThePresentLeadership"},
	{Name: "work begins under a leadership that has ended", File: "leadership.go",
		Old: "begun = n.view().Token == token && !n.closing;",
		New: "begun = !n.closing;",
		By:  "TestNoWorkBeginsUnderALeadershipThatHasEnded"},
	{Name: "a function that returns keeps the lead", File: "leadership.go",
		Old: "		if led {\n			n.emit(election.Event{Kind: election.Resigned})\n		}\n",
		New: "",
		By:  "TestStandAlways"},
	{Name: "the lead passes on when one of several has returned", File: "leadership.go",
		Old: "		if len(n.working) == 0 {\n			n.emit(election.Event{Kind: election.Working, On: false})\n		}\n",
		New: "		n.emit(election.Event{Kind: election.Working, On: false})\n",
		By:  "TestTheLeadWaitsForEveryFunction"},
	{Name: "work is not said to run", File: "leadership.go",
		Old: "			n.emit(election.Event{Kind: election.Working, On: true})\n",
		New: "",
		By:  "TestTheLeadIsGivenAwayOnlyWhenTheWorkHasReturned"},
	{Name: "work is not told", File: "leadership.go",
		Old: "			w.cancel(&LostError{token, cause})\n",
		New: "",
		By:  "TestWorkIsToldBeforeTheViewChanges"},
	{Name: "the view changes before the work is told", File: "node.go",
		Old: "	n.cancelWork(token, cause)\n	n.lost[cause]++\n",
		New: "	defer n.cancelWork(token, cause)\n	n.lost[cause]++\n",
		By:  "TestWorkIsToldBeforeTheViewChanges"},
	{Name: "IsLeader reads no clock", File: "node.go",
		Old: "return n.view().Token.Leader.ID == n.id && n.late() <= 0",
		New: "return n.view().Token.Leader.ID == n.id",
		By:  "TestAStalledLeaderKnowsBeforeItsLoopRuns"},
	{Name: "Leader reads no clock", File: "node.go",
		Old: "v.Token.Leader.ID == n.id && late > 0",
		New: "v.Token.Leader.ID == n.id && late > time.Hour",
		By:  "TestAStalledLeaderKnowsBeforeItsLoopRuns"},
	{Name: "IsLeader is true again before the loss is told", File: "node.go",
		Old: "	now := time.Now() // for people",
		New: "	n.prolong()\n	now := time.Now() // for people",
		By:  "TestAStalledLeaderDoesNotLeadWhileItsWorkIsTold"},
	{Name: "a leadership is published before it lasts", File: "node.go",
		Old: "	n.prolong()\n	n.history.add",
		New: "	n.history.add",
		By:  "TestALeadershipLastsWhenItIsPublished"},
	{Name: "Close does not wait for the work", File: "node.go",
		Old: "for !n.closing || len(n.working)+n.atWork > 0 {",
		New: "for !n.closing {",
		By:  "TestCloseWaitsForTheWork"},
	{Name: "a call waits for a loop that is stuck with it", File: "node.go",
		Old: "	case <-ctx.Done():\n		return ctx.Err() // the loop has begun with it, and is stuck\n",
		New: "",
		By:  "TestALoopThatGetsStuckWithACallIsTold"},
	{Name: "a timer outlives the machine's sleep", File: "node.go",
		Old: "at != n.armed || wait <= 0 {",
		New: "at != n.armed {",
		By:  "TestATimerDoesNotWaitForTimeThatHasPassed"},
	{Name: "the log is written on the loop", File: "start.go",
		Old: "	n.cfg.Logger = slog.New(n.logs.Handler(h))\n",
		New: "",
		By:  "TestALogThatNobodyReadsDoesNotCostTheLead"},
	{Name: "a disk that fails is not told of", File: "node.go",
		Old: "			n.wasSaved(err)\n",
		New: "",
		By:  "TestAFailingDiskIsSeen"},
	{Name: "a disk that fails is logged at every try", File: "standing.go",
		Old: "was == nil || was.Error() != err.Error()",
		New: "true",
		By:  "TestAFailingDiskIsSeen"},
	{Name: "a disk that hangs is not told of", File: "standing.go",
		Old: "n.disk.began > 0 && since > n.timeout",
		New: "false",
		By:  "TestADiskThatHangsIsSeen"},
	{Name: "the loop takes a failed save for a good one", File: "node.go",
		Old: "election.Event{Kind: election.Saved, Err: err}",
		New: "election.Event{Kind: election.Saved}",
		By:  "TestAFailingDiskIsSeen"},
	{Name: "the directory is not synced", File: "internal/statefile/statefile.go",
		Old: "if err := s.syncDir(s.dir); err != nil {",
		New: "if err := s.syncDir(s.dir); false {",
		By:  "TestTheDirectoryIsSyncedBehindTheFile"},
	{Name: "damage in the middle of the log is taken for its end", File: "internal/logfile/layout.go",
		Old: "for at := p.at; at < int64(len(data)); at += sector {",
		New: "for at := p.at; false; at += sector {",
		By:  "TestDamageBeforeTheLastAppendIsRefusedByName"},
	{Name: "the log goes on behind what is left of an append", File: "internal/logfile/logfile.go",
		Old: "	if err := l.cut(data); err != nil {",
		New: "	if err := l.cut(data[:l.end.at]); err != nil {",
		By:  "TestAnAppendThatWasCutOffIsCutAway"},
	{Name: "an append is told before the log's name is safe", File: "internal/logfile/logfile.go",
		Old: "	if l.rename {",
		New: "	if false {",
		By:  "TestNothingIsAppendedBehindANameThatIsNotSafe"},
	{Name: "a save goes over the last one", File: "internal/statefile/slots.go",
		Old: "int64(s.number%2) * s.size",
		New: "int64(s.number/2%2) * s.size",
		By:  "TestASaveIsOneWriteIntoTheOtherSlot"},
	{Name: "after a failed save the next one goes over the good one", File: "internal/statefile/statefile.go",
		Old: "		return false, err\n	}\n	s.last = into\n",
		New: "		s.last = into\n		return false, err\n	}\n	s.last = into\n",
		By:  "TestASaveAfterAnErrorGoesToTheSameSlot"},
	{Name: "the checksum of a save is not looked at", File: "internal/statefile/slots.go",
		Old: "if f[5] != checksum(strings.Join(f[1:5], \" \"), body) {",
		New: "if f[5] == \"\" {",
		By:  "TestAPowerCutDuringASaveLeavesTheLastOneOrTheOneBefore"},
	{Name: "each end keeps the connection that it dialed", File: "election/connection.go",
		Old: "return c.Dialed == (self.Compare(peer) > 0)",
		New: "return c.Dialed",
		By:  "TestBothEndsUseTheSameConnection"},
	{Name: "the end of the connection in use is not told", File: "internal/transport/transport.go",
		Old: "if !lost && len(p.conns) > 0 {",
		New: "if (!lost || true) && len(p.conns) > 0 {",
		By:  "TestTheEndOfTheConnectionInUseIsTold"},
	{Name: "a retired connection that is torn is not told", File: "internal/transport/transport.go",
		Old: "lost := p.active == c || wasTorn(err)",
		New: "lost := p.active == c",
		By:  "TestARetiredConnectionThatIsTornIsTold"},
	{Name: "a retired connection ends while it is in use", File: "internal/transport/conn.go",
		Old: "		at = time.Now().Add(c.bounds.idle)\n",
		New: "		at = time.Now().Add(c.bounds.idle / 2)\n",
		By:  "TestARetiredConnectionIsReadUntilItIsIdle"},
	{Name: "what is posted to a network that has ended waits for ever", File: "internal/network/inbox.go",
		Old: "	case <-i.over:\n		return false\n",
		New: "",
		By:  "TestAnInboxTakesNothingOnceItIsOver"},
	{Name: "the machine's sleep does not count", File: "internal/clock/clock.go",
		Old: " + r.Asleep - c.first.Asleep",
		New: "",
		By:  "TestWhatCountsAsTimeThatHasPassed"},
	{Name: "a wall clock ahead by T is a stall", File: "internal/clock/clock.go",
		Old: "step > c.leap",
		New: "step >= c.leap",
		By:  "TestWhatCountsAsTimeThatHasPassed"},
	{Name: "a wall clock far ahead is none", File: "internal/clock/clock.go",
		Old: "			c.leapt += step\n",
		New: "",
		By:  "TestWhatCountsAsTimeThatHasPassed"},
	{Name: "a wall clock set back hides a pause", File: "internal/clock/clock.go",
		Old: "		c.ahead = ahead\n",
		New: "		c.ahead = max(c.ahead, ahead)\n",
		By:  "TestStepsOfTheWallClock"},
	{Name: "clocks that do not go together are compared", File: "internal/clock/clock.go",
		Old: "if !r.Torn {",
		New: "if true {",
		By:  "TestWhatCountsAsTimeThatHasPassed"},
	{Name: "a full log stops who logs", File: "internal/logqueue/logqueue.go",
		Old: "	default:\n		h.queue.dropped.Add(1)\n",
		New: "",
		By:  "TestALogThatNobodyReadsStopsNobody"},
	{Name: "nobody is told what the log lacks", File: "internal/logqueue/logqueue.go",
		Old: "			tell(r.handler, n-told, n)\n",
		New: "",
		By:  "TestALogThatNobodyReadsStopsNobody"},
	{Name: "Close waits for a log that nobody reads", File: "internal/logqueue/logqueue.go",
		Old: "	case <-late.C:\n",
		New: "",
		By:  "TestCloseDoesNotWaitForEver"},
	{Name: "a run is stopped when its election is handed over", File: "internal/run/finish.go",
		Old: "lost.Cause == batuta.CauseResigned",
		New: "lost.Cause == batuta.CauseCrashed",
		By:  "TestARunMayEndBeforeItsElectionIsHandedOver"},
	{Name: "a run goes on past the time of its lead", File: "internal/run/finish.go",
		Old: "err != nil || left <= 0",
		New: "err != nil || left < -1<<62",
		By:  "TestARunEndsWithTheTimeOfItsLead"},
	{Name: "a run goes on although its process is to end", File: "internal/run/finish.go",
		Old: "		case <-r.run.Done():\n			return\n",
		New: "",
		By:  "TestARunMayEndBeforeItsElectionIsHandedOver"},
	{Name: "a job's ticks are unknown to the other members", File: "internal/jobs/ticks.go",
		Old: "last = run.LaterTick(last, toldTick(m.Meta[TicksKey], l.mark))",
		New: "_ = m",
		By:  "TestEachTickOfEachJobRunsOnceAcrossFailovers"},
	{Name: "ticks of jobs that are gone are told for ever", File: "internal/jobs/ticks.go",
		Old: "return !marks[mark]",
		New: "return !marks[mark] && false",
		By:  "TestTicksAreToldAsTheyAre"},
	{Name: "two jobs have one mark", File: "internal/jobs/file.go",
		Old: "f.Jobs && marks[mark] > 0",
		New: "f.Jobs && marks[mark] > 1<<20",
		By:  "TestTwoJobsWhoseTicksWouldBeOneAreRefused"},
	{Name: "what a burst leaves is kept", File: "internal/resident/resident.go",
		Old: "rests && now.held",
		New: "rests && false && now.held",
		By:  "TestWhatABurstLeavesIsGivenBackAtRest"},
	{Name: "memory is given back in the middle of a burst", File: "internal/resident/resident.go",
		Old: "rests && now.held",
		New: "(rests || true) && now.held",
		By:  "TestWhatABurstLeavesIsGivenBackAtRest"},
	{Name: "the lease of run is renewed while not leading", File: "internal/run/runner.go",
		Old: "leads || ctx.Err() != nil",
		New: "leads || true",
		By:  "TestWhenTheLeaseIsRenewed"},
	{Name: "it is renewed under another leadership", File: "internal/run/runner.go",
		Old: "node.IsLeader() && node.Leader().Token == token",
		New: "node.IsLeader() && token.Defined()",
		By:  "TestWhenTheLeaseIsRenewed"},
	{Name: "the lease outlasts the others' patience", File: "internal/run/runner.go",
		Old: "max(r.cfg.T-r.cfg.Heartbeat, r.cfg.T/2)",
		New: "max(r.cfg.T, r.cfg.T/2)",
		By:  "TestWhenTheLeaseIsRenewed"},
	{Name: "a strict lease is left to a guard that is stopped", File: "internal/run/keeper.go",
		Old: "		if t.last != 0 {\n",
		New: "		if false {\n",
		By:  "TestAStrictLeaseEndsWithoutTheGuard"},
	{Name: "a command is not asked to end at half its lease", File: "internal/run/guard.go",
		Old: "if g.ask != 0 && at >= g.ask && g.killAt == 0 {",
		New: "if false {",
		By:  "TestACommandIsAskedOnceItsLeaseIsHalfOver"},
	{Name: "a late renewal counts", File: "internal/run/guard.go",
		Old: "	g.checkTime(o.at) // a",
		New: "	// a",
		By:  "TestARenewalThatIsLateIsNone"},
	{Name: "a renewal counts from when it is obeyed", File: "internal/run/guard.go",
		Old: "	g.checkTime(o.at) // a",
		New: "	g.checkTime(now()) // a",
		By:  "TestARenewalThatWaitsCounts"},
	{Name: "a renewal shortens the lease", File: "internal/run/guard.go",
		Old: "g.until, g.ask = max(g.until, o.Until), ",
		New: "g.until, g.ask = o.Until, ",
		By:  "TestARenewalNeverShortensTheLease"},
	{Name: "the lease outlives a pause of the machine", File: "internal/run/guard.go",
		Old: " || g.clock.Leapt() > 0",
		New: "",
		By:  "TestAPausedMachineEndsTheLease"},
	{Name: "the lease is never renewed", File: "internal/run/keeper.go",
		Old: "		if t, ok := renew(); ok {",
		New: "		if t, ok := renew(); ok && t.until == 0 {",
		By:  "TestARenewedLeaseLasts"},
	{Name: "a stuck node is healthy", File: "internal/agent/server.go",
		Old: "	if _, ok := s.ask(w, r); ok {\n		answer(w, http.StatusOK, map[string]bool{\"healthy\": true})\n	}\n",
		New: "	answer(w, http.StatusOK, map[string]bool{\"healthy\": true})\n",
		By:  "TestAStuckNodeIsNotHealthy"},
	{Name: "metrics of a stuck node are all zero", File: "internal/agent/metrics.go",
		Old: "		ch <- prometheus.NewInvalidMetric(c.info, fmt.Errorf(",
		New: "		_ = prometheus.NewInvalidMetric(c.info, fmt.Errorf(",
		By:  "TestAStuckNodeIsNotHealthy"},
	{Name: "a load balancer is sent to a follower", File: "internal/agent/server.go",
		Old: "func (s *Server) leads(w http.ResponseWriter, _ *http.Request) {\n	if !s.node.IsLeader() {",
		New: "func (s *Server) leads(w http.ResponseWriter, _ *http.Request) {\n	if !s.node.Leader().Defined() {",
		By:  "TestAnswers"},
	{Name: "the wait for the first leader is a failover", File: "internal/agent/leaderless.go",
		Old: "	if d.lost {\n",
		New: "	if true {\n",
		By:  "TestLeaderlessTime"},
	{Name: "a stream loses what happened before the node's end", File: "internal/agent/stream.go",
		Old: "	f := NewFeed(ctx, s.log)\n",
		New: "	f := NewFeed(ctx, s.log)\n	go func() { <-s.node.Done(); f.cancel() }()\n",
		By:  "TestStreamEndsWithNode"},
	{Name: "the lead does not wait for on-lose", File: "internal/hooks/hooks.go",
		Old: "past.Compare(l.Token) >= 0",
		New: "past.Compare(l.Token) < 2",
		By:  "TestTheLeadWaitsForOnLoseAfterALongStart"},
	{Name: "the lead is not held during the start hook", File: "internal/hooks/hooks.go",
		Old: "	f.holding.Go(func() { f.node.Lead(context.Background(), f.hold) })\n",
		New: "	defer f.holding.Go(func() { f.node.Lead(context.Background(), f.hold) })\n",
		By:  "TestALeadLostDuringTheStartHook"},
}

// TestTidyMutants finds at once which mutants a change of the sources leaves behind.
func TestTidyMutants(t *testing.T) {
	dir := t.TempDir()
	for _, m := range mutants {
		if _, err := m.Overlay(".", dir); err != nil {
			t.Error(err)
		}
	}
}

// TestRuntimeMutants breaks the runtime in single ways and demands that the test
// of each notices, and that none of them notices what is not broken. By default it
// tries a few of this package: the tests of each package are compiled for it.
func TestRuntimeMutants(t *testing.T) {
	var tried []mutant.Mutant
	for i, m := range mutants {
		if fulltest.Enabled() || i%10 == 7 && path.Dir(m.File) == "." {
			tried = append(tried, m)
		}
	}
	joined, err := mutant.Join(".", t.TempDir(), tried)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string][]string{} // the tests of each package
	for _, m := range tried {
		pkg := "./" + path.Dir(m.File)
		by[pkg] = append(by[pkg], m.By)
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			if by := failing(t, joined, m, pkg, m.By, 90*time.Second); by == "" {
				t.Fatalf("it lives: %s does not see it", m.By)
			}
		})
	}
	for pkg, tests := range by {
		t.Run("none of "+pkg, func(t *testing.T) {
			t.Parallel()
			if by := failing(t, joined, mutant.Mutant{}, pkg, strings.Join(tests, "|"), 10*time.Minute); by != "" {
				t.Fatalf("%s fails, and nothing is broken", by)
			}
		})
	}
}

// failing gives the first of a package's tests that fails, "" if none does.
func failing(t *testing.T, joined *mutant.Joined, m mutant.Mutant, pkg, tests string, limit time.Duration) string {
	t.Helper()
	name, err := joined.Fails(t.Context(), m, pkg, "-test.run=^("+tests+")$", "-test.timeout="+limit.String())
	if err != nil {
		t.Fatal(err)
	}
	return name
}
