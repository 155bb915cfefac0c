package main

import "syscall"

// childAttributes make a child end with its parent, however that ends, and keep
// the terminal's interrupt from it: the parent ends it.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
