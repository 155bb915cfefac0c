// Package freeport finds loopback ports for processes that are yet to start.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Ports lie below those that kernels use for outgoing connections: a process's port must not be
// taken before it has started, or while it is down.
const (
	first  = 10000
	blocks = 200
	block  = 100 // ports; the first of them is held for its owner
	most   = 10  // blocks of a process, unless it asks for more ports at once
)

// owned are this process's blocks. It listens on the first port of each for its whole life, so
// no two processes that use this package get the same port.
var owned struct {
	sync.Mutex
	held []net.Listener
	free []int // ports of the blocks, still to be returned
	all  []int // ports of the blocks
}

// Find returns n different loopback ports on which no process listens.
func Find(n int) ([]int, error) {
	return FindOn(slices.Repeat([]string{"127.0.0.1"}, n)...)
}

// FindOn is [Find] for loopback addresses: a port for each. A port comes again only after some
// thousand further ports.
func FindOn(ips ...string) ([]int, error) {
	owned.Lock()
	defer owned.Unlock()
	var ports []int
	var last error
	for range 50 * len(ips) {
		port, err := next(len(ips))
		if err != nil {
			last = err
			break
		}
		if slices.Contains(ports, port) {
			continue
		}
		if err := try(net.JoinHostPort(ips[len(ports)], strconv.Itoa(port))); err != nil {
			last = err
			continue
		}
		if ports = append(ports, port); len(ports) == len(ips) {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("found only %d free loopback ports of %d: %w", len(ports), len(ips), last)
}

// try listens for a moment, in which this process starts no child: that would have the socket.
func try(addr string) error {
	if runtime.GOOS == "linux" { // elsewhere Listen takes that lock itself
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return l.Close()
}

// Again calls listen until no child holds the port of [Find], on which this process has listened
// before. A child has this process's sockets until it runs its program. On Linux syscall.ForkLock
// ends before that: exec wakes the parent first, and closes the sockets later.
func Again(listen func() error) error {
	for late := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if err := listen(); !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(late) {
			return err
		}
	}
}

// next returns a port of a block of this process, which holds as many blocks as n ports need.
func next(n int) (int, error) {
	if len(owned.free) == 0 && (len(owned.held) < most || len(owned.all) < n) {
		if err := hold(); err != nil && len(owned.all) == 0 {
			return 0, err
		}
	}
	if len(owned.free) == 0 {
		owned.free = slices.Clone(owned.all)
	}
	port := owned.free[0]
	owned.free = owned.free[1:]
	return port, nil
}

// hold takes a free block.
func hold() error {
	start := rand.IntN(blocks)
	for i := range blocks {
		port := first + (start+i)%blocks*block
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		owned.held = append(owned.held, l)
		for p := port + 1; p < port+block; p++ {
			owned.free = append(owned.free, p)
			owned.all = append(owned.all, p)
		}
		return nil
	}
	return errors.New("every block of ports from 10000 to 29999 is held by another process")
}
