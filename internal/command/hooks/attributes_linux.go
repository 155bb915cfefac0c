package hooks

import "syscall"

// attributes makes a process group of its own, to be killed as a whole, that ends with the agent.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
