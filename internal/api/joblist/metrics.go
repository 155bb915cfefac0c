package joblist

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// scrapeTime bounds how long the member may take to answer a scrape.
const scrapeTime = 900 * time.Millisecond

func desc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"name"}, nil)
}

// The metrics of a job. Its label is "name": Prometheus has a label "job" of its own.
var (
	led     = desc("batuta_job_led", "1 while a member leads the job, else 0.")
	paused  = desc("batuta_job_paused", "1 while the job is paused, else 0.")
	running = desc("batuta_job_running", "1 while the job runs, else 0.")
	failed  = desc("batuta_job_failed", "1 if the last run failed, timed out or was lost, else 0.")
	missed  = desc("batuta_job_missed_total", "Scheduled times for which no run began.")
	last    = desc("batuta_job_last_timestamp_seconds", "Unix time at which the last run began.")
	next    = desc("batuta_job_next_timestamp_seconds", "Unix time of the next scheduled time; none while paused.")
	took    = desc("batuta_job_duration_seconds", "Seconds that the last run took.")
	exit    = desc("batuta_job_exit_code", "Exit code of the last run, or 128 and the signal.")
)

// Describe implements [prometheus.Collector].
func (d *Desk) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range []*prometheus.Desc{led, paused, running, failed, missed, last, next, took, exit} {
		ch <- m
	}
}

// Collect implements [prometheus.Collector]. A member that does not answer in time has no metrics of jobs.
func (d *Desk) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	list, err := d.jobs(ctx)
	if err != nil {
		return
	}
	for _, j := range list {
		gauge := func(m *prometheus.Desc, v float64) {
			ch <- prometheus.MustNewConstMetric(m, prometheus.GaugeValue, v, j.Name)
		}
		flag := func(m *prometheus.Desc, on bool) {
			v := 0.0
			if on {
				v = 1
			}
			gauge(m, v)
		}
		result := ""
		if j.Result != nil {
			result = *j.Result
		}
		flag(led, j.Leader != nil)
		flag(paused, j.Paused)
		flag(running, result == Running)
		flag(failed, result == Failed || result == Timeout || result == Lost)
		ch <- prometheus.MustNewConstMetric(missed, prometheus.CounterValue, float64(j.Missed), j.Name)
		if j.Last != nil {
			gauge(last, float64(j.Last.Unix()))
		}
		if j.Next != nil {
			gauge(next, float64(j.Next.Unix()))
		}
		if j.Took != nil {
			gauge(took, *j.Took)
		}
		if j.Exit != nil {
			gauge(exit, float64(*j.Exit))
		}
	}
}
