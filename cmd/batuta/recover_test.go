package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

// A quorum loses two disks of three. The third, recovered, leads above every epoch of before;
// newcomers vote again, and a lost disk that turns up has no part in it.
func TestAMajorityIsLostForGood(t *testing.T) {
	t.Parallel()
	c, before := startQuorum(t)
	one, two, three := c.members[0], c.members[1], c.members[2]
	dir := filepath.Join(c.dataDir, one.id)
	recovery := func(flags string) (string, int) {
		var out bytes.Buffer
		args := strings.Fields(fmt.Sprintf("recover --id 1 --data-dir %s --members 1=%s,2=%s,3=%s %s", dir, one.listen, two.listen, three.listen, flags))
		code := run(t.Context(), args, cli.Env{Stdout: &out, Stderr: &out, Lookup: os.LookupEnv})
		return out.String(), code
	}
	if text, code := recovery("--yes"); code != 1 || !strings.Contains(text, "in use by another process") {
		t.Fatalf("of a running member: exit code %d: %s", code, text)
	}
	mustCrash(t, c, three)
	mustCrash(t, c, one)
	if text, code := recovery("--yes"); code != 1 || !strings.Contains(text, "of 3 voters 2 at "+two.listen+" answers") {
		t.Fatalf("while a majority is there: exit code %d: %s", code, text)
	}
	mustCrash(t, c, two)
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	if text, code := recovery(""); code != 2 || !strings.Contains(text, "give --yes") {
		t.Fatalf("unconfirmed: exit code %d: %s", code, text)
	}
	if now, err := os.ReadFile(filepath.Join(dir, "log")); err != nil || !bytes.Equal(log, now) {
		t.Fatalf("an unconfirmed recovery has changed the log (%v)", err)
	}
	above := before.epoch + 100
	if text, code := recovery(fmt.Sprint("--yes --epoch-above ", above)); code != 0 || !strings.Contains(text, "recovered: start member 1") {
		t.Fatalf("exit code %d: %s", code, text)
	}
	kept, _ := filepath.Glob(filepath.Join(dir, "log.before-recovery-*"))
	if len(kept) != 1 {
		t.Errorf("copies of the log: %v, want one", kept)
	}

	mustStart(t, c, one)
	now := mustAgree(t, c, above+1, "1")
	old := filepath.Join(c.dataDir, "old")
	if err := os.Rename(filepath.Join(c.dataDir, three.id), old); err != nil {
		t.Fatal(err)
	}
	c.flags = slices.Concat(c.flags, []string{"--join", one.listen, "--preempt=false"})
	for _, m := range []*member{two, three} {
		if err := os.RemoveAll(filepath.Join(c.dataDir, m.id)); err != nil {
			t.Fatal(err)
		}
		mustStart(t, c, m)
	}
	awaitVoters(t, one, 3)
	mustAgree(t, c, now.epoch, "")
	mustCrash(t, c, one)
	next := mustAgree(t, c, now.epoch+1, "")
	if next.voices != 2 {
		t.Errorf("%d members agree on the next leader, want 2", next.voices)
	}

	mustCrash(t, c, three)
	if err := os.RemoveAll(filepath.Join(c.dataDir, three.id)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(old, filepath.Join(c.dataDir, three.id)); err != nil {
		t.Fatal(err)
	}
	c.mark()
	mustStart(t, c, three)
	led := func() bool {
		return slices.ContainsFunc(two.events, func(l api.Line) bool { return l.Event == "leader" && l.Time.After(c.since) })
	}
	if err := c.until(t.Context(), 3*time.Second, led); err == nil {
		t.Error("a member leads by the vote of a disk of before the recovery")
	}
}
