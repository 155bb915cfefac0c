package detector

import (
	"slices"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
)

var (
	timing = election.Timing{}.WithDefaults()
	start  = time.Unix(1000, 0)
)

const beat = election.DefaultHeartbeat

// following is a detector that received its leader at start.
func following() Detector {
	d := New(timing)
	d.Follow(start, time.Time{})
	d.Settle()
	return d
}

func TestSilence(t *testing.T) {
	bears := timing.Bears()
	for _, c := range []struct {
		name string
		then func(d *Detector)
		want time.Duration // after start
	}{
		{"nothing arrives", func(*Detector) {}, bears},
		{"the leader is received", func(d *Detector) { d.ReceiveLeader(start.Add(beat)) }, beat + bears},
		{"a connection is made", func(d *Detector) { d.Greet(start.Add(2 * beat)) }, 2*beat + timing.T()},
		{"another member received it just now", func(d *Detector) { d.Vouch(start.Add(3*beat), "2", 0, beat) }, 3*beat + bears},
		{"another member received it a while ago", func(d *Detector) { d.Vouch(start.Add(3*beat), "2", 2*beat, beat) }, beat + bears},
		{"another member received it before this one", func(d *Detector) { d.Vouch(start.Add(beat), "2", 4*beat, beat) }, bears},
		{"two report it", func(d *Detector) {
			d.Vouch(start.Add(2*beat), "2", 0, beat)
			d.Vouch(start.Add(2*beat), "3", beat, beat)
		}, 2*beat + bears},
		{"this process was late", func(d *Detector) { d.Oversleep(start.Add(bears), start.Add(bears-beat)) }, bears + beat},
		{"this process was hardly late", func(d *Detector) { d.Oversleep(start.Add(bears), start.Add(bears-beat/2)) }, bears},
		{"this process is late without end", func(d *Detector) {
			for at := start; at.Before(start.Add(5 * timing.T())); at = at.Add(beat) {
				d.Oversleep(at, at.Add(-beat))
			}
		}, bears + timing.T()},
		{"this process was stopped", func(d *Detector) { d.ResumeFollowing(start.Add(9 * bears)) }, 10 * bears},
	} {
		d := following()
		c.then(&d)
		if got := d.SilentAt().Sub(start); got != c.want {
			t.Errorf("%s: silent after %v, want %v", c.name, got, c.want)
		}
	}
}

// A stopped follower does not report what it did not receive itself.
func TestAgeIsOfTheLeaderItself(t *testing.T) {
	d := New(timing)
	d.Follow(time.Time{}, start.Add(timing.T()))
	if age := d.Age(start); age >= 0 || !d.Reported() {
		t.Errorf("age %v of a leader that only others report, want none", age)
	}
	d = following()
	d.Vouch(start.Add(beat), "2", 0, beat)
	d.Greet(start.Add(beat))
	d.ResumeFollowing(start.Add(beat))
	if age := d.Age(start.Add(2 * beat)); age != 2*beat {
		t.Errorf("age %v, want %v: only the leader's own messages count", age, 2*beat)
	}
}

func TestRenew(t *testing.T) {
	d := following()
	if _, due := d.Renew(start.Add(time.Hour)); due {
		t.Error("a voucher is asked again although no member has reported")
	}
	at := start.Add(timing.Bears())
	renew := d.Vouch(at, "2", 0, beat)
	if want := at.Add(timing.Bears() - beat); !renew.Equal(want) || !d.RenewAt().Equal(want) {
		t.Fatalf("asked again at %v, want %v: in time for the answer", renew.Sub(start), want.Sub(start))
	}
	if again := d.Vouch(at, "3", beat, beat); !again.IsZero() {
		t.Error("an older report moves the next question")
	}
	if _, due := d.Renew(renew.Add(-1)); due {
		t.Error("the voucher is asked too early")
	}
	if by, due := d.Renew(renew); !due || by != "2" {
		t.Errorf("%q %v, want 2 asked", by, due)
	}
	if _, due := d.Renew(renew); due {
		t.Error("the voucher is asked twice")
	}
	// Not while the leader is received again, nor while all are asked.
	d.Vouch(renew, "2", 0, beat)
	d.ReceiveLeader(renew.Add(beat))
	if _, due := d.Renew(d.RenewAt()); due {
		t.Error("the voucher is asked although the leader is received")
	}
	d.Vouch(renew.Add(2*beat), "2", 0, beat)
	d.Suspect()
	if _, due := d.Renew(d.RenewAt()); due {
		t.Error("the voucher is asked although all are")
	}
	if !d.Suspected() || !d.Acquit() || d.Acquit() || d.Suspected() {
		t.Error("a suspicion does not end once")
	}
}

func TestUnheard(t *testing.T) {
	bears := max(timing.Bears(), 2*timing.TMax+timing.Heartbeat)
	d := New(timing)
	d.Lead(start)
	receive := func(to time.Duration) {
		for at := time.Duration(0); at <= to; at += beat {
			d.Receive(start.Add(at))
		}
	}
	receive(bears)
	if at := start.Add(bears); d.Unheard(at) || !d.Unheard(at.Add(1)) {
		t.Error("a leader that is not acknowledged is not unheard just behind what is borne")
	}
	d.Acked(start.Add(bears), start.Add(2*beat))
	d.Acked(start.Add(bears), start.Add(beat))    // older
	d.Acked(start.Add(bears), start.Add(bears+1)) // from the future
	if d.Unheard(start.Add(bears+2*beat)) || !d.Accompanied(start.Add(bears+2*beat)) {
		t.Error("an acknowledged beat does not count from when it left")
	}
	receive(bears + 2*beat)
	if !d.Unheard(start.Add(bears + 2*beat + 1)) {
		t.Error("a late acknowledgement counts from when it arrived")
	}
	alone := start.Add(time.Hour)
	if d.Unheard(alone) {
		t.Error("a leader that receives no member is unheard")
	}
	d.Receive(alone)
	if d.Unheard(alone.Add(beat)) || !d.Unheard(alone.Add(bears+1)) && d.Accompanied(alone.Add(bears+1)) {
		t.Error("a member that has just arrived had to acknowledge before")
	}
}

func TestBeatsAndAcknowledgements(t *testing.T) {
	d := New(timing)
	d.Beat(start)
	if !d.BeatAt().Equal(start.Add(beat)) {
		t.Errorf("the next beat after %v, want %v", d.BeatAt().Sub(start), beat)
	}
	d = following()
	if d.AckDue(start.Add(time.Hour)) {
		t.Error("an acknowledgement is due before any beat")
	}
	d.TakeBeat(start, 7)
	d.TakeStates(3)
	if stamp, version := d.Ack(); stamp != 7 || version != 3 {
		t.Errorf("it acknowledges %d %d, want 7 3", stamp, version)
	}
	at := start.Add(2 * beat)
	if d.AckDue(at.Add(-1)) || !d.AckDue(at) || d.AckDue(at) || !d.AckAt().Equal(at.Add(beat)) {
		t.Error("without beats it does not acknowledge after two heartbeats, and then at each")
	}
	d.Settle()
	if stamp, version := d.Ack(); stamp != 0 || version != 0 || !d.AckAt().IsZero() {
		t.Error("the next leadership begins with the beats of the last")
	}
}

func TestStalled(t *testing.T) {
	bears := timing.Bears()
	d := New(timing)
	for _, c := range []struct {
		name     string
		since    time.Duration // since the last step
		late     time.Duration // behind the deadline
		beats    bool
		want     bool
		deadline bool
	}{
		{"a leader that steps", bears, 0, true, false, true},
		{"a leader that does not", bears + 1, 0, true, true, true},
		{"a follower in time", 9 * bears, 0, false, false, true},
		{"a follower that is late", bears, bears - beat, false, false, true},
		{"a follower that is too late", bears, bears - beat + 1, false, true, true},
		{"a follower with nothing due", 9 * bears, 9 * bears, false, false, false},
	} {
		now, deadline := start.Add(time.Hour), time.Time{}
		if c.deadline {
			deadline = now.Add(-c.late)
		}
		if got := d.Stalled(now.Add(-c.since), now, deadline, c.beats); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	d.Lead(start)
	d.Resume(start.Add(time.Hour))
	if !d.Resumed().Equal(start.Add(time.Hour)) || d.Unheard(start.Add(time.Hour)) {
		t.Error("time in which this process was stopped counts")
	}
}

// Every order of a few events: a suspicion is due no sooner than the newest receipt or report
// allows, and at most T later, and that is T later only where this process was late.
func TestEveryOrder(t *testing.T) {
	type model struct {
		d        Detector
		now      time.Time
		evidence []time.Time // until when each spares the leader
		received time.Time
		late     bool
	}
	events := map[string]func(m *model){
		"leader": func(m *model) { m.d.ReceiveLeader(m.now); m.received = m.now },
		"greet": func(m *model) {
			m.d.Greet(m.now)
			m.evidence = append(m.evidence, m.now.Add(timing.T()))
		},
		"fresh": func(m *model) {
			m.d.Vouch(m.now, "2", 0, beat)
			m.evidence = append(m.evidence, m.now.Add(timing.Bears()))
		},
		"old": func(m *model) {
			m.d.Vouch(m.now, "3", 3*beat, beat)
			m.evidence = append(m.evidence, m.now.Add(timing.Bears()-3*beat))
		},
		"late":   func(m *model) { m.d.Oversleep(m.now, m.now.Add(-2*beat)); m.late = true },
		"renew":  func(m *model) { m.d.Renew(m.now) },
		"others": func(m *model) { m.d.Receive(m.now) },
	}
	names := []string{"leader", "greet", "fresh", "old", "late", "renew", "others"}
	states := 0
	var walk func(m model, path []string)
	walk = func(m model, path []string) {
		states++
		bound := m.received.Add(timing.Bears())
		for _, until := range m.evidence {
			if until.After(bound) {
				bound = until
			}
		}
		silent := m.d.SilentAt()
		if silent.Before(bound) || !m.late && silent.After(bound) || silent.After(bound.Add(timing.T())) {
			t.Fatalf("%q: silent at %v, its evidence lasts until %v", path, silent.Sub(start), bound.Sub(start))
		}
		if age := m.d.Age(m.now); age != m.now.Sub(m.received) {
			t.Fatalf("%q: age %v, want %v", path, age, m.now.Sub(m.received))
		}
		if at := m.d.RenewAt(); at.After(m.d.Spared()) && at.After(m.now.Add(beat)) {
			t.Fatalf("%q: the voucher is asked at %v, when its report has run out at %v", path, at.Sub(start), m.d.Spared().Sub(start))
		}
		if len(path) == 5 {
			return
		}
		for _, name := range names {
			next := m
			next.evidence = slices.Clone(m.evidence)
			next.now = m.now.Add(beat)
			events[name](&next)
			walk(next, append(path, name))
		}
	}
	walk(model{d: following(), now: start, received: start}, nil)
	if want := 1 + 7 + 49 + 343 + 2401 + 16807; states != want {
		t.Errorf("%d states, want %d", states, want)
	}
}
