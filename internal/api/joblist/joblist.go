// Package joblist has the HTTP calls and the metrics about scheduled jobs, of an agent whatever it runs.
package joblist

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/batuta-dev/batuta/internal/api/metric"
	"github.com/batuta-dev/batuta/internal/api/reply"
)

// Results of a run.
const (
	Running = "running" // it has not ended
	OK      = "ok"      // it ended with exit code 0
	Failed  = "failed"  // it ended with a different exit code, or by a signal, or could not be started
	Timeout = "timeout" // it was stopped because it took too long
	Stopped = "stopped" // it was stopped because its member no longer led the job
	Lost    = "lost"    // its member ended, or was cut off, before it reported the end
)

// Job is an entry of /v1/jobs.
type Job struct {
	Name     string     `json:"name"`
	Schedule string     `json:"schedule"` // as in the file; "": the file of the agent asked has no such job
	Leader   *string    `json:"leader"`   // the member that runs it; null: none
	Paused   bool       `json:"paused"`
	Next     *time.Time `json:"next"`    // the next scheduled time; null while it is paused or its schedule is not known
	Last     *time.Time `json:"last"`    // when the last run began; null: no run is known
	By       *string    `json:"by"`      // the member of that run
	Result   *string    `json:"result"`  // of that run, one of the constants above
	Exit     *int       `json:"exit"`    // its exit code, or 128 and the signal; null: there is none
	Took     *float64   `json:"took"`    // seconds; null: it has not ended
	Tries    int        `json:"tries"`   // how often that run was begun; above 1: it was retried
	Late     bool       `json:"late"`    // that run began over 5 s after its scheduled time
	ByHand   bool       `json:"by_hand"` // that run was requested
	Missed   int        `json:"missed"`  // scheduled times for which no run began, at most 2047
}

// Book is what an agent knows of jobs.
type Book interface {
	// Jobs lists them by name.
	Jobs(ctx context.Context) ([]Job, error)
	// Run has the member that leads a job run it now, and returns once that member has announced
	// the run. The job returned may still have the run before.
	Run(ctx context.Context, name string) (Job, error)
	// Pause has scheduled times of a job start no run until it is called with false.
	Pause(ctx context.Context, name string, on bool) (Job, error)
}

// Errors that a [Book] wraps.
var (
	ErrUnknown  = errors.New("no such job: batuta jobs lists them")
	ErrNoLeader = errors.New("no member leads it: try again when one does")
	ErrRefused  = errors.New("refused")
)

// callTime bounds a call.
const callTime = 8 * time.Second

// Desk answers the calls. The zero Desk knows no job.
type Desk struct{ book Book }

// Open has the desk answer from b. It must be called before the first request.
func (d *Desk) Open(b Book) { d.book = b }

// Run answers POST /v1/jobs/{name}/run.
func (d *Desk) Run(w http.ResponseWriter, r *http.Request) {
	d.act(w, r, func(ctx context.Context, name string) (Job, error) { return d.book.Run(ctx, name) })
}

// Pause answers POST /v1/jobs/{name}/pause, and resume.
func (d *Desk) Pause(paused bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		d.act(w, r, func(ctx context.Context, name string) (Job, error) { return d.book.Pause(ctx, name, paused) })
	}
}

// act does something about a job, and answers what is known of it then.
func (d *Desk) act(w http.ResponseWriter, r *http.Request, do func(ctx context.Context, name string) (Job, error)) {
	ctx, cancel := context.WithTimeout(r.Context(), callTime)
	defer cancel()
	j, err := Job{}, ErrUnknown
	if d.book != nil {
		j, err = do(ctx, r.PathValue("name"))
	}
	switch {
	case err == nil:
		reply.JSON(w, http.StatusOK, j)
	case errors.Is(err, ErrUnknown):
		reply.Fail(w, http.StatusNotFound, "%v", err)
	case errors.Is(err, ErrNoLeader):
		reply.Fail(w, http.StatusServiceUnavailable, "%v", err)
	case errors.Is(err, ErrRefused):
		reply.Fail(w, http.StatusUnprocessableEntity, "%v", err)
	default:
		reply.Fail(w, http.StatusGatewayTimeout, "%v", err)
	}
}

// List answers GET /v1/jobs.
func (d *Desk) List(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), callTime)
	defer cancel()
	list, err := d.jobs(ctx)
	if err != nil {
		reply.Fail(w, http.StatusServiceUnavailable, "jobs: %v", err)
		return
	}
	reply.Much(w, r, list)
}

func (d *Desk) jobs(ctx context.Context) ([]Job, error) {
	if d.book == nil {
		return []Job{}, nil
	}
	return d.book.Jobs(ctx)
}

// scrapeTime bounds how long the member may take to answer a scrape.
const scrapeTime = 900 * time.Millisecond

// Families is the [metric.Source] of the jobs. A member that does not answer in time has no metrics of jobs. Their label
// is "name": Prometheus has a label "job" of its own.
func (d *Desk) Families() []*metric.Family {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	list, err := d.jobs(ctx)
	if err != nil {
		list = nil
	}
	var l metric.List
	led := l.Gauge("batuta_job_led", "1 while a member leads the job, else 0.", "name")
	paused := l.Gauge("batuta_job_paused", "1 while the job is paused, else 0.", "name")
	running := l.Gauge("batuta_job_running", "1 while the job runs, else 0.", "name")
	failed := l.Gauge("batuta_job_failed", "1 if the last run failed, timed out or was lost, else 0.", "name")
	missed := l.Counter("batuta_job_missed_total", "Scheduled times for which no run began.", "name")
	last := l.Gauge("batuta_job_last_timestamp_seconds", "Unix time at which the last run began.", "name")
	next := l.Gauge("batuta_job_next_timestamp_seconds", "Unix time of the next scheduled time; none while paused.", "name")
	took := l.Gauge("batuta_job_duration_seconds", "Seconds that the last run took.", "name")
	exit := l.Gauge("batuta_job_exit_code", "Exit code of the last run, or 128 and the signal.", "name")
	for _, j := range list {
		result := ""
		if j.Result != nil {
			result = *j.Result
		}
		led.Add(metric.OneIf(j.Leader != nil), j.Name)
		paused.Add(metric.OneIf(j.Paused), j.Name)
		running.Add(metric.OneIf(result == Running), j.Name)
		failed.Add(metric.OneIf(result == Failed || result == Timeout || result == Lost), j.Name)
		missed.Add(float64(j.Missed), j.Name)
		if j.Last != nil {
			last.Add(float64(j.Last.Unix()), j.Name)
		}
		if j.Next != nil {
			next.Add(float64(j.Next.Unix()), j.Name)
		}
		if j.Took != nil {
			took.Add(*j.Took, j.Name)
		}
		if j.Exit != nil {
			exit.Add(float64(*j.Exit), j.Name)
		}
	}
	return l
}
