package hooks

import "syscall"

// attributes: a group of its own, to be killed as one; and it ends with the agent.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
