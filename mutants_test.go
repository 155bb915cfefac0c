package batuta_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/fulltest"
)

// A mutant is the runtime with one thing wrong, and the test that must see it: the
// compiler is given a changed copy of one file, and that test is run. What the lab
// sees has mutants of its own, in package sim.
type mutant struct {
	name     string
	file     string // the test is in its package
	old, new string // old stands in it exactly once
	test     string
}

var mutants = []mutant{
	{"Watch drops a view", "events.go", "case ev.Kind != EventMember && !yield(ev.View, nil):", "case ev.Kind == EventLeader && !yield(ev.View, nil):", "TestEveryWatcherSeesEveryViewInOrder"},
	{"Events takes its place when it is read", "events.go", "	taken.Store(h.join())\n", "", "TestEventsTakenUpInPrepareMissNothing"},
	{"a late reader hears of an end first", "events.go", "r.first = []Event{h.led, h.lost}", "r.first = []Event{h.lost}", "TestTheFirstEventOfALeadershipIsItsLeader"},
	{"a reader is ended at the limit", "events.go", "r.behind > h.limit", "r.behind >= h.limit", "TestAReaderAtTheLimitGoesOn"},
	{"a reader that stops is kept all", "events.go", "			r.at = nil // what waits for it is garbage\n", "", "TestNothingIsKeptForAReaderThatStops"},
	{"a watcher is not told that it has missed views", "events.go", "				yield(View{}, err)\n", "", "TestAWatcherThatStopsIsToldSo"},
	{"a reader that leaves keeps its place", "events.go", "func (r *reader) leave() {\n", "func (r *reader) leave() {\n	return\n", "TestAReaderThatLeavesKeepsNothing"},
	{"Lead begins with an event that is a leadership's", "leadership.go", "		if v.Token.Leader.ID == n.id {\n", "		if v.Token.Leader.ID == n.id && at.Kind != EventMember {\n", "TestLeadBeginsWithThePresentLeadership"},
	{"work begins under a leadership that has ended", "leadership.go", "begun = n.view().Token == token && !n.closing;", "begun = !n.closing;", "TestNoWorkBeginsUnderALeadershipThatHasEnded"},
	{"a function that returns keeps the lead", "leadership.go", "		if led {\n			n.emit(election.Event{Kind: election.Resigned})\n		}\n", "", "TestAPanicOfTheWorkEndsIt"},
	{"the lead passes on when one of several has returned", "leadership.go", "		if len(n.working) == 0 {\n			n.emit(election.Event{Kind: election.Working, On: false})\n		}\n", "		n.emit(election.Event{Kind: election.Working, On: false})\n", "TestTheLeadWaitsForEveryFunction"},
	{"work is not said to run", "leadership.go", "			n.emit(election.Event{Kind: election.Working, On: true})\n", "", "TestTheLeadIsGivenAwayOnlyWhenTheWorkHasReturned"},
	{"work is not told", "leadership.go", "			w.cancel(&LostError{token, cause})\n", "", "TestWorkIsToldBeforeTheViewChanges"},
	{"the view changes before the work is told", "node.go", "	n.cancelWork(token, cause)\n	n.lost[cause]++\n", "	defer n.cancelWork(token, cause)\n	n.lost[cause]++\n", "TestWorkIsToldBeforeTheViewChanges"},
	{"IsLeader reads no clock", "node.go", "return n.view().Token.Leader.ID == n.id && n.late() <= 0", "return n.view().Token.Leader.ID == n.id", "TestAStalledLeaderKnowsBeforeItsLoopRuns"},
	{"Leader reads no clock", "node.go", "v.Token.Leader.ID == n.id && late > 0", "v.Token.Leader.ID == n.id && late > time.Hour", "TestAStalledLeaderKnowsBeforeItsLoopRuns"},
	{"IsLeader is true again before the loss is told", "node.go", "	now := time.Now() // for people", "	n.stepped.Store(int64(passed))\n	now := time.Now() // for people", "TestAStalledLeaderDoesNotLeadWhileItsWorkIsTold"},
	{"Close does not wait for the work", "node.go", "for !n.closing || len(n.working) > 0 {", "for !n.closing {", "TestCloseWaitsForTheWork"},
	{"a call waits for a loop that is stuck with it", "node.go", "	case <-ctx.Done():\n		return ctx.Err() // the loop has begun with it, and is stuck\n", "", "TestALoopThatGetsStuckWithACallIsTold"},
	{"a timer outlives the machine's sleep", "node.go", "at != n.armed || wait <= 0 {", "at != n.armed {", "TestATimerDoesNotWaitForTimeThatHasPassed"},
	{"the log is written on the loop", "start.go", "	n.cfg.Logger = slog.New(n.logs.Handler(h))\n", "", "TestALogThatNobodyReadsDoesNotCostTheLead"},
	{"the directory is not synced", "store.go", "	return s.syncDir(s.dir)\n", "	return nil\n", "TestTheDirectoryIsSyncedBehindTheFile"},
	{"the machine's sleep does not count", "internal/clock/clock.go", " + r.Asleep - c.first.Asleep", "", "TestWhatCountsAsTimeThatHasPassed"},
	{"a wall clock ahead by T is a stall", "internal/clock/clock.go", "step > c.leap", "step >= c.leap", "TestWhatCountsAsTimeThatHasPassed"},
	{"a wall clock far ahead is none", "internal/clock/clock.go", "			c.leapt += step\n", "", "TestWhatCountsAsTimeThatHasPassed"},
	{"a wall clock set back hides a pause", "internal/clock/clock.go", "		c.ahead = ahead\n", "		c.ahead = max(c.ahead, ahead)\n", "TestStepsOfTheWallClock"},
	{"clocks that do not go together are compared", "internal/clock/clock.go", "if !r.Torn {", "if true {", "TestWhatCountsAsTimeThatHasPassed"},
	{"a full log stops who logs", "internal/logqueue/logqueue.go", "	default:\n		h.queue.dropped.Add(1)\n", "", "TestALogThatNobodyReadsStopsNobody"},
	{"nobody is told what the log lacks", "internal/logqueue/logqueue.go", "			tell(r.handler, n-told, n)\n", "", "TestALogThatNobodyReadsStopsNobody"},
	{"Close waits for a log that nobody reads", "internal/logqueue/logqueue.go", "	case <-late.C:\n", "", "TestCloseDoesNotWaitForEver"},
	{"the lease of run is renewed while not leading", "internal/run/runner.go", "leads || ctx.Err() != nil", "leads || true", "TestWhenTheLeaseIsRenewed"},
	{"it is renewed under another leadership", "internal/run/runner.go", "node.IsLeader() && node.Leader().Token == token", "node.IsLeader() && token.Defined()", "TestWhenTheLeaseIsRenewed"},
	{"the lease outlasts the others' patience", "internal/run/runner.go", "max(r.cfg.T-r.cfg.Heartbeat, r.cfg.T/2)", "max(r.cfg.T, r.cfg.T/2)", "TestWhenTheLeaseIsRenewed"},
	{"a late renewal counts", "internal/run/guard.go", "	g.checkTime() // before a renewal", "	// before a renewal", "TestARenewalThatIsLateIsNone"},
	{"a renewal shortens the lease", "internal/run/guard.go", "g.until = max(g.until, o.Until)", "g.until = o.Until", "TestARenewalNeverShortensTheLease"},
	{"the lease outlives a pause of the machine", "internal/run/guard.go", " || g.clock.Leapt() > 0", "", "TestAPausedMachineEndsTheLease"},
	{"the lease is never renewed", "internal/run/keeper.go", "		if until, ok := renew(); ok {", "		if until, ok := renew(); ok && until == 0 {", "TestARenewedLeaseLasts"},
	{"a stuck node is healthy", "internal/agent/server.go", "	if _, ok := s.ask(w, r); ok {\n		answer(w, http.StatusOK, map[string]bool{\"healthy\": true})\n	}\n", "	answer(w, http.StatusOK, map[string]bool{\"healthy\": true})\n", "TestAStuckNodeIsNotHealthy"},
	{"metrics of a stuck node are all zero", "internal/agent/metrics.go", "		ch <- prometheus.NewInvalidMetric(c.info, fmt.Errorf(", "		_ = prometheus.NewInvalidMetric(c.info, fmt.Errorf(", "TestAStuckNodeIsNotHealthy"},
	{"a load balancer is sent to a follower", "internal/agent/server.go", "func (s *Server) leads(w http.ResponseWriter, _ *http.Request) {\n	if !s.node.IsLeader() {", "func (s *Server) leads(w http.ResponseWriter, _ *http.Request) {\n	if !s.node.Leader().Defined() {", "TestAnswers"},
	{"the wait for the first leader is a failover", "internal/agent/drought.go", "	if d.lost {\n", "	if true {\n", "TestDrought"},
	{"a stream loses what happened before the node's end", "internal/agent/stream.go", "			if !ok {\n				return\n			}\n			err = out.event(", "			select {\n			case <-s.node.Done():\n				return\n			default:\n			}\n			if !ok {\n				return\n			}\n			err = out.event(", "TestStreamEndsWithNode"},
	{"the lead does not wait for on-lose", "internal/hooks/hooks.go", "past.Compare(l.Token) >= 0", "past.Compare(l.Token) < 2", "TestTheLeadWaitsForOnLoseAfterALongStart"},
	{"the lead is not held during the start hook", "internal/hooks/hooks.go", "	f.holding.Go(func() { f.node.Lead(context.Background(), f.hold) })\n", "	defer f.holding.Go(func() { f.node.Lead(context.Background(), f.hold) })\n", "TestALeadLostDuringTheStartHook"},
}

// TestTidyMutants finds at once which mutants a change of the sources leaves behind.
func TestTidyMutants(t *testing.T) {
	for _, m := range mutants {
		if _, err := m.changed(); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// TestRuntimeMutants breaks the runtime in single ways and demands that the test
// of each notices.
func TestRuntimeMutants(t *testing.T) {
	for i, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			if i%20 != 0 && !fulltest.Enabled() {
				t.Skip("every twentieth is tried; all with BATUTA_TEST_FULL=1")
			}
			t.Parallel()
			m.try(t)
		})
	}
}

// changed is the mutant's file.
func (m mutant) changed() (string, error) {
	source, err := os.ReadFile(m.file)
	if err != nil {
		return "", err
	}
	if strings.Count(string(source), m.old) != 1 {
		return "", errors.New(m.file + " does not hold exactly once:\n" + m.old + "\nbring the mutant up to date")
	}
	return strings.Replace(string(source), m.old, m.new, 1), nil
}

// try runs the mutant's test, which must fail.
func (m mutant) try(t *testing.T) {
	text, err := m.changed()
	if err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Abs(m.file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	replace, _ := json.Marshal(map[string]any{"Replace": map[string]string{path: file}})
	for name, body := range map[string][]byte{file: []byte(text), overlay: replace} {
		if err := os.WriteFile(name, body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-count=1", "-timeout=90s", "-overlay", overlay,
		"-run", "^"+m.test+"$", "./"+filepath.ToSlash(filepath.Dir(m.file)))
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	said := string(out)
	switch failed := strings.Contains(said, "--- FAIL: "+m.test) || strings.Contains(said, "panic: ") || strings.Contains(said, "fatal error: "); {
	case err == nil && strings.Contains(said, "no tests to run"):
		t.Fatalf("there is no %s", m.test)
	case err == nil:
		t.Fatalf("it lives: %s does not see it", m.test)
	case !failed:
		t.Fatalf("it was not tried: %v\n%s", err, said)
	}
}
