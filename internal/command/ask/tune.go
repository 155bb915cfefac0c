package ask

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

func newTuneCommand(e cli.Env) *cobra.Command {
	var lasts time.Duration
	cmd := &cobra.Command{
		Use:   "tune",
		Short: "Recommend timeouts for this network",
		Long: `tune watches a member for a while, and prints the smallest --heartbeat, --t-max and
--t-process with which no member would have been suspected. They follow from the longest silence
beyond a heartbeat, the longest delay of the member itself, and the longest round trip of a
heartbeat. The leader sees all members; a follower sees only the leader. The recommended times
have four times the room, as machines have worse moments than those that were watched: watch for
long, and under load. If interrupted, it prints what it has seen until then.

It also measures how late threads wake on the machine that it runs on, and with the permission also
under real-time scheduling: run it there, as root.`,
		Example: `  batuta tune --agent 127.0.0.1:7503
  batuta tune --for 1h --agent 127.0.0.1:7503 --json`,
	}
	cmd.Flags().DurationVar(&lasts, "for", time.Minute, "watch for `DURATION`, a second or more")
	return New(e, cmd, func(ctx context.Context, a *Command, c *api.Client) error {
		if lasts < time.Second {
			return cli.Usagef("--for %v: watch for a second or more", lasts)
		}
		var seen tuning
		measured := seen.measure()
		ended := seen.watch(ctx, c, lasts)
		measured()
		if seen.Silence == 0 {
			return cmp.Or(ended, fmt.Errorf("member %s has received no message: there is nothing to tune by; ask one that leads or follows another", seen.Member))
		}
		seen.Smallest, seen.Recommended = seen.allows(1), seen.allows(4)
		if a.json {
			return cmp.Or(json.NewEncoder(a.Stdout).Encode(seen), ended)
		}
		return cmp.Or(seen.print(a), ended)
	})
}

// tuning is what was seen and what comes of it. Times are in milliseconds.
type tuning struct {
	Member    string  `json:"member"`
	Role      string  `json:"role"`
	Watched   float64 `json:"watched_s"` // seconds
	Silence   float64 `json:"silence_ms"`
	Stall     float64 `json:"stall_ms"`
	RoundTrip float64 `json:"round_trip_ms"`
	Heartbeat float64 `json:"heartbeat_ms"` // as the member has it now
	T         float64 `json:"t_ms"`
	Machine   float64 `json:"machine_stall_ms"` // by which a thread of the machine that runs tune woke late

	RealTime      *float64 `json:"real_time_stall_ms"`        // the same under real-time scheduling; null: not permitted
	RealTimeError string   `json:"real_time_error,omitempty"` // why not

	Smallest    set `json:"smallest"`    // with which no member would have been suspected
	Recommended set `json:"recommended"` // with room for worse moments
}

// set is a choice of times.
type set struct {
	Heartbeat float64 `json:"heartbeat_ms"`
	TMax      float64 `json:"t_max_ms"`
	TProcess  float64 `json:"t_process_ms"`
	T         float64 `json:"t_ms"`
}

// tuneEvery is how often the member is asked: more often than its recent figures end.
const tuneEvery = time.Second

// watch asks a member again and again, for as long as it lasts or until a user that has
// seen enough interrupts it. An error leaves what was seen before.
func (t *tuning) watch(ctx context.Context, c *api.Client, lasts time.Duration) error {
	began := time.Now()
	tick := time.NewTicker(tuneEvery)
	defer tick.Stop()
	for first := true; ; first = false {
		var s api.Status
		if err := c.Get(ctx, "/v1/status", &s); err != nil {
			if ctx.Err() != nil && !first {
				return nil
			}
			return err
		}
		if err := t.see(s, first); err != nil {
			return err
		}
		t.Watched = time.Since(began).Seconds()
		if time.Since(began) >= lasts {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// measure has threads of this machine sleep, with normal and real-time scheduling, until end is called.
func (t *tuning) measure() (end func()) {
	const nap = 5 * time.Millisecond
	over, threads := make(chan struct{}), sync.WaitGroup{}
	late := func() (ms float64) {
		for {
			due := time.Now().Add(nap)
			sleep(nap)
			ms = max(ms, cli.Milliseconds(time.Since(due)))
			select {
			case <-over:
				return ms
			default:
			}
		}
	}
	threads.Go(func() {
		if err := inRealTime(func() { t.RealTime = new(late()) }); err != nil {
			t.RealTimeError = err.Error()
		}
	})
	threads.Go(func() { t.Machine = late() })
	return func() { close(over); threads.Wait() }
}

// see takes in an answer of the member; the first is of what was
// before, and counts for its times alone.
func (t *tuning) see(s api.Status, first bool) error {
	now, err := times(s.Timing)
	if err != nil {
		return fmt.Errorf("member %s does not report its times: its release is too old", s.ID)
	}
	heartbeat, err := time.ParseDuration(s.Timing.Heartbeat)
	if err != nil {
		return err
	}
	t.Member, t.Role, t.Heartbeat, t.T = s.ID, s.Role, cli.Milliseconds(heartbeat), cli.Milliseconds(now.silence)
	if !first {
		t.Silence = max(t.Silence, 1000*s.Rhythm.RecentSilence)
		t.Stall = max(t.Stall, 1000*s.Rhythm.RecentStall)
		t.RoundTrip = max(t.RoundTrip, 1000*s.Rhythm.RecentRoundTrip)
	}
	return nil
}

// allows are the times that bear so many times what was seen.
func (t *tuning) allows(room float64) set {
	late := max(t.Silence-t.Heartbeat, t.Stall, 0)
	s := set{TMax: upTo(room * t.RoundTrip / 2), TProcess: upTo(room * late * 1.25)}
	s.T = 2*s.TMax + s.TProcess
	s.Heartbeat = max(0.5, float64(int(2*s.T/6))/2) // a sixth of T: late by what is left, it is still in time
	return s
}

// upTo is whole milliseconds, 1 at least.
func upTo(ms float64) float64 {
	return max(1, float64(int(ms+0.999)))
}

func (s set) flags() string {
	f := func(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
	return fmt.Sprintf("--heartbeat %v --t-max %v --t-process %v\t(T = %v)", f(s.Heartbeat), f(s.TMax), f(s.TProcess), f(s.T))
}

func (t *tuning) print(a *Command) error {
	out := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "watched\t%s, %s, for %.0f s; its heartbeat is %.4g ms, its T %.4g ms\n", t.Member, t.Role, t.Watched, t.Heartbeat, t.T)
	fmt.Fprintf(out, "seen\tothers silent for %.1f ms at most, itself late by %.1f ms", t.Silence, t.Stall)
	if t.RoundTrip > 0 {
		fmt.Fprintf(out, ", a heartbeat and its answer under way for %.1f ms", t.RoundTrip)
	}
	fmt.Fprintf(out, "\nmachine\ta thread woke up to %.1f ms late; with real-time scheduling ", t.Machine)
	if t.RealTime != nil {
		fmt.Fprintf(out, "up to %.1f ms (see docs/times.md)", *t.RealTime)
	} else {
		fmt.Fprintf(out, "it is not measured: %s", t.RealTimeError)
	}
	fmt.Fprintf(out, "\nsmallest\t%s\nrecommended\t%s\n", t.Smallest.flags(), t.Recommended.flags())
	if t.Role != "leader" {
		fmt.Fprintf(out, "\tit does not lead, and sees only the leader, not how long messages take: ask the leader for --t-max\n")
	}
	return out.Flush()
}
