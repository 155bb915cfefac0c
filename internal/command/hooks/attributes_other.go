//go:build unix && !linux

package hooks

import "syscall"

// attributes: a group of its own, to be killed as one.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
