//go:build unix && !linux

package hooks

import "syscall"

// ChildAttributes make a process group of its own, to be killed as a whole. Only Linux can tie it to this process.
func ChildAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
