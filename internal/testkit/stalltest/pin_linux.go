package stalltest

import "golang.org/x/sys/unix"

// pin keeps the calling thread on a processor, if it may, until undo.
func pin(cpu int) (undo func()) {
	var before, one unix.CPUSet
	if unix.SchedGetaffinity(0, &before) != nil {
		return func() {}
	}
	one.Set(cpu)
	unix.SchedSetaffinity(0, &one)
	return func() { unix.SchedSetaffinity(0, &before) }
}
