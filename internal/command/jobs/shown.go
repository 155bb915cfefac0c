package jobs

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/batuta-dev/batuta/internal/api/joblist"
)

// Show prints a list of jobs for a user, as of now.
func Show(to io.Writer, list []joblist.Job, now time.Time) error {
	out := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "JOB\tLEADER\tNEXT\tLAST\tBY\tRESULT\tEXIT\tTOOK\tMISSED")
	for _, j := range list {
		next := "-"
		switch {
		case j.Paused:
			next = "paused"
		case j.Next != nil:
			next = "in " + round(j.Next.Sub(now))
		}
		last, result := "-", text(j.Result)
		if j.Last != nil {
			last = round(now.Sub(*j.Last)) + " ago"
		}
		if j.Tries > 1 {
			result += fmt.Sprintf(" (try %d)", j.Tries)
		}
		exit, took := "-", "-"
		if j.Exit != nil {
			exit = fmt.Sprint(*j.Exit)
		}
		if j.Took != nil {
			took = round(time.Duration(*j.Took * float64(time.Second)))
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\n", j.Name, text(j.Leader), next, last, text(j.By), result, exit, took, j.Missed)
	}
	return out.Flush()
}

func text(s *string) string {
	if s == nil {
		return "-"
	}
	return cmp.Or(*s, "-")
}

// round returns a duration for a user.
func round(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	}
	return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
}
