//go:build !linux && !windows

package transport

import "syscall"

var read, write = syscall.Read, syscall.Write
