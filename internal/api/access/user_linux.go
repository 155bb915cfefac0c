package access

import (
	"net"
	"strconv"

	"golang.org/x/sys/unix"
)

const identifiesUsers = true

// userAt gives the number of the user of the process at the far end of a Unix socket.
func userAt(c net.Conn) (uid string, ok bool) {
	u, isUnix := c.(*net.UnixConn)
	if !isUnix {
		return "", false
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return "", false
	}
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			uid, ok = strconv.FormatUint(uint64(cred.Uid), 10), true
		}
	})
	return uid, ok
}
