package joblist

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// shelf is a book with a job that fails, or an error.
type shelf struct{ err error }

func some[T any](v T) *T { return &v }

func (s shelf) Jobs(context.Context) ([]Job, error) {
	at := time.Unix(1_795_000_000, 0).UTC()
	return []Job{
		{Name: "report", Leader: some("2"), Next: &at, Last: &at, By: some("1"), Result: some(Timeout), Exit: some(143), Took: some(1.5), Tries: 2, Missed: 3},
		{Name: "prune", Paused: true},
	}, s.err
}
func (s shelf) Run(_ context.Context, name string) (Job, error) { return Job{Name: name}, s.err }
func (s shelf) Pause(_ context.Context, name string, on bool) (Job, error) {
	return Job{Name: name, Paused: on}, s.err
}

func TestWhatIsWrongHasItsStatus(t *testing.T) {
	for err, want := range map[error]int{nil: 200, ErrUnknown: 404, ErrNoLeader: 503, ErrRefused: 422, context.DeadlineExceeded: 504} {
		var d Desk
		if err != nil {
			err = fmt.Errorf("job: %w", err)
		}
		d.Open(shelf{err})
		for _, do := range []http.HandlerFunc{d.Run, d.Pause(true), d.Pause(false)} {
			w := httptest.NewRecorder()
			do(w, httptest.NewRequest("POST", "/v1/jobs/report/run", nil))
			if w.Code != want {
				t.Errorf("%v: %d, want %d", err, w.Code, want)
			}
		}
	}
	for _, do := range []http.HandlerFunc{(&Desk{}).Run, (&Desk{}).List} {
		w := httptest.NewRecorder()
		do(w, httptest.NewRequest("GET", "/v1/jobs", nil))
		if w.Code != 404 && strings.TrimSpace(w.Body.String()) != "[]" {
			t.Errorf("without a book: %d %s", w.Code, w.Body)
		}
	}
}

func TestEachJobHasItsMetrics(t *testing.T) {
	var d Desk
	scrape := func(err error) (text string) {
		d.Open(shelf{err})
		for _, f := range d.Families() {
			for _, s := range f.Samples {
				text += fmt.Sprintf("%s{%s=%q} %g\n", f.Name, f.Labels[0], s.Labels[0], s.Value)
			}
		}
		return text
	}
	text := scrape(nil)
	for _, line := range []string{
		`batuta_job_exit_code{name="report"} 143`, `batuta_job_failed{name="report"} 1`, `batuta_job_failed{name="prune"} 0`, `batuta_job_missed_total{name="report"} 3`,
		`batuta_job_led{name="report"} 1`, `batuta_job_led{name="prune"} 0`, `batuta_job_paused{name="prune"} 1`, `batuta_job_paused{name="report"} 0`, `batuta_job_running{name="report"} 0`,
		`batuta_job_duration_seconds{name="report"} 1.5`, `batuta_job_last_timestamp_seconds{name="report"} 1.795e+09`, `batuta_job_next_timestamp_seconds{name="report"} 1.795e+09`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no %s in\n%s", line, text)
		}
	}
	if strings.Contains(text, `next_timestamp_seconds{name="prune"}`) {
		t.Error("a paused job has a next time")
	}
	if text := scrape(context.DeadlineExceeded); strings.Contains(text, "batuta_job_") {
		t.Errorf("of a member that does not answer: %s", text)
	}
}
