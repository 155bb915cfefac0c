//go:build unix

package security

import (
	"os"
	"syscall"
)

// tooOpen reports whether other users may read or change a private file.
func tooOpen(info os.FileInfo) bool {
	others := os.FileMode(0o077)
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		others = 0o037 // the group is what lets this process read it
	}
	return info.Mode().Perm()&others != 0 && info.Mode().IsRegular()
}
