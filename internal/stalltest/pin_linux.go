package stalltest

import "golang.org/x/sys/unix"

// pin keeps the calling thread on one processor, if it may.
func pin(cpu int) {
	var set unix.CPUSet
	set.Set(cpu)
	unix.SchedSetaffinity(0, &set)
}
