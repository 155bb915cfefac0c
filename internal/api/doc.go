// Package api is the interface of a batuta process besides the election: event lines, the HTTP API
// with its metrics, and its client.
package api
