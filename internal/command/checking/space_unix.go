//go:build linux || darwin

package checking

import "golang.org/x/sys/unix"

// freeSpace is how many bytes this user may still write in dir; -1: that is not known.
func freeSpace(dir string) int64 {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return -1
	}
	return int64(s.Bavail) * int64(s.Bsize)
}
