//go:build !linux

package stalltest

func pin(int) {}
