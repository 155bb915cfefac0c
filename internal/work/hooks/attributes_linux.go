package hooks

import "syscall"

// ChildAttributes make a process group of its own, to be killed as a whole, that ends with this process, however
// that ends. The terminal's interrupt does not reach it.
func ChildAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
