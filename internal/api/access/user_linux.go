package access

import (
	"net"

	"golang.org/x/sys/unix"
)

// userOf returns the user of the process that has connected.
func userOf(c *net.UnixConn) (uid uint32, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); failed == nil {
			uid = cred.Uid
		}
	})
	if err == nil {
		err = failed
	}
	return uid, err
}
