//go:build !windows

package access

import "syscall"

// MaxConnections is a quarter of the files that this process may open, 4 to 65,536: members and the disk have the rest.
func MaxConnections() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 1 << 16
	}
	return int(min(max(limit.Cur/4, 4), 1<<16))
}
