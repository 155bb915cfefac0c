// Package jobs has one member stand for many elections of a cluster, and run a command
// under each that it leads: for as long as it leads, or by a schedule of cron's. They are
// the lines of a file, which may change meanwhile.
package jobs
