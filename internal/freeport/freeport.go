// Package freeport finds loopback ports for processes that are yet to start.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
)

// Find gives n loopback ports on which nobody listens, no two alike. They lie below
// those that kernels give to outgoing connections: a process's port must not be taken
// before it has started, or while it is down.
func Find(n int) ([]int, error) {
	return FindOn(slices.Repeat([]string{"127.0.0.1"}, n)...)
}

// FindOn is [Find] for loopback addresses: a port for each.
func FindOn(ips ...string) ([]int, error) {
	var ports []int
	var last error
	for range 50 * len(ips) {
		port := 10000 + rand.IntN(20000)
		if slices.Contains(ports, port) {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort(ips[len(ports)], strconv.Itoa(port)))
		if err != nil {
			last = err
			continue
		}
		l.Close()
		if ports = append(ports, port); len(ports) == len(ips) {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("found only %d free loopback ports of %d: %w", len(ports), len(ips), last)
}
