// Package run runs a command only on the leader.
//
// Three processes share the work. The node elects the leader. The guard, a child of the node's
// process, is the parent of the command. It starts the command in a process group of its own, stops
// it on request, and reports when nothing of it is left. It kills the group without a request when
// the pipe to the node's process ends, or when the node has not renewed the command's lease in
// time.
//
// If the node detects that it has lost leadership, the command gets SIGTERM, and SIGKILL after a
// grace period. If the node's process has died or is stuck, a new leader may exist already: the
// group is killed at once.
package run
