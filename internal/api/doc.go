// Package api is what a batuta process shows the world beside the election:
// event lines, the HTTP API with its metrics, and the client that asks it.
package api
