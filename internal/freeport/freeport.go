// Package freeport finds loopback ports for processes that are yet to start.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Find gives n loopback ports on which nobody listens, no two alike. They lie below
// those that kernels give to outgoing connections: a process's port must not be taken
// before it has started, or while it is down.
func Find(n int) ([]int, error) {
	var ports []int
	for range 50 * n {
		port := 10000 + rand.IntN(20000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		defer l.Close() // held until all are found, so that none comes twice
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("found only %d free loopback ports of %d", len(ports), n)
}
