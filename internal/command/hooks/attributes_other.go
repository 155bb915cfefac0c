//go:build unix && !linux

package hooks

import "syscall"

// attributes makes a process group of its own, to be killed as a whole.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
