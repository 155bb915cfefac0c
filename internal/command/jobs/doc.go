// Package jobs makes a member a candidate of many elections of a cluster, and runs a command under
// each that it leads: for as long as it leads, or by a cron schedule. The elections are the lines
// of a file, which may change meanwhile.
package jobs
