// Package run keeps a command running where the leader is, and nowhere else.
//
// Three processes share the work. The node decides who leads. The guard, a child
// of the node's process, is the parent of the command: it starts it in a process
// group of its own, stops it when told, and tells when nothing of it is left. It
// needs nobody to do the last thing right: when the pipe to the node's process
// ends, or the node has not renewed the command's lease in time, the guard kills
// the group by itself.
//
// On a loss that the node knows of, the command is asked to end (SIGTERM) and
// killed after a grace period. When the node's process has died or is stuck, the
// others may lead already, and there is nothing left to be polite with: the group
// is killed at once.
package run
