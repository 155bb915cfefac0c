//go:build !linux

package main

func checkThreads() error { return nil }
