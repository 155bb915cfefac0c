// Package discovery finds the addresses that a process joins a cluster through. They come
// from a name, from SRV records or from a file, and change while the process runs.
package discovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/batuta-dev/batuta/election"
)

// Bounds of what a source gives.
const (
	MaxAddresses = 128     // more are left out: through any of them a process joins
	maxFile      = 1 << 16 // bytes
)

// Check returns what is wrong with a source, which is HOST:PORT, srv:NAME or file:PATH. It
// looks nothing up and opens no file.
func Check(source string) error {
	switch kind, rest := cut(source); {
	case kind == "":
		return election.CheckAddress(source)
	case kind == "file" && (rest == "" || strings.ContainsRune(rest, 0)):
		return errors.New("the path is missing: write file:PATH, such as file:/etc/batuta/members")
	case kind == "srv" && election.CheckAddress(strings.TrimSuffix(rest, ".")+":1") != nil:
		return errors.New("the name is missing or wrong: write srv:NAME, such as srv:_batuta._tcp.example.org")
	}
	return nil
}

// Fixed reports whether a source always stands for the same address.
func Fixed(source string) bool {
	kind, _ := cut(source)
	host, _, err := net.SplitHostPort(source)
	return kind == "" && err == nil && net.ParseIP(host) != nil
}

func cut(source string) (kind, rest string) {
	kind, rest, _ = strings.Cut(source, ":")
	_, notPort := strconv.ParseUint(rest, 10, 16) // else srv and file are names of hosts
	if (kind == "srv" || kind == "file") && notPort != nil {
		return kind, rest
	}
	return "", source
}

// Expand returns what source stands for now, each as HOST:PORT: itself, the targets of its
// SRV records in their order, or the lines of its file, of which a blank line and a comment
// that begins with # count as nothing. It ends with ctx. An error leaves what was found.
func Expand(ctx context.Context, source string) (found []string, err error) {
	switch kind, rest := cut(source); kind {
	case "srv":
		var records []*net.SRV
		_, records, err = net.DefaultResolver.LookupSRV(ctx, "", "", rest)
		for _, r := range records {
			found = append(found, net.JoinHostPort(strings.TrimSuffix(r.Target, "."), strconv.Itoa(int(r.Port))))
		}
	case "file":
		found, err = read(ctx, rest)
	default:
		return []string{source}, nil
	}
	var bad []error
	found = slices.DeleteFunc(found, func(addr string) bool {
		why := election.CheckAddress(addr)
		if why != nil {
			bad = append(bad, fmt.Errorf("%s names %q: %w", election.Shown(source), election.Shown(addr), why))
		}
		return why != nil
	})
	if err != nil {
		err = fmt.Errorf("%s: %w", election.Shown(source), err)
	}
	return found[:min(len(found), MaxAddresses)], errors.Join(append([]error{err}, bad[:min(len(bad), 3)]...)...)
}

// reading has the files that are being read, by path. A file system may hang: then a single goroutine
// waits for it, however often the file is asked for.
var reading = struct {
	sync.Mutex
	files map[string]*file
}{files: map[string]*file{}}

// file is what the read of a file has given, once done is closed.
type file struct {
	done  chan struct{}
	found []string
	err   error
}

// read gives the lines of a file, if it can be read before ctx ends.
func read(ctx context.Context, path string) ([]string, error) {
	reading.Lock()
	f := reading.files[path]
	if f == nil {
		f = &file{done: make(chan struct{})}
		reading.files[path] = f
		go func() {
			f.found, f.err = lines(path)
			reading.Lock()
			defer reading.Unlock()
			delete(reading.files, path)
			close(f.done)
		}()
	}
	reading.Unlock()
	select {
	case <-f.done:
		return slices.Clone(f.found), f.err
	case <-ctx.Done():
		return nil, fmt.Errorf("its file system does not answer: %w", ctx.Err())
	}
}

func lines(path string) (found []string, err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("is no file that can be read to its end: give a regular file")
	case info.Size() > maxFile:
		return nil, fmt.Errorf("has %d bytes, and at most %d are read: name fewer members", info.Size(), maxFile)
	}
	data, err := os.ReadFile(path)
	for line := range bytes.Lines(data[:min(len(data), maxFile)]) {
		addr, _, _ := strings.Cut(string(line), "#")
		if addr = strings.TrimSpace(addr); addr != "" {
			found = append(found, addr)
		}
	}
	return found, err
}

// Addresses returns what all sources stand for now, as IP:PORT, sorted and each once. Lookups
// run at the same time, until ctx ends. An error leaves what was found.
func Addresses(ctx context.Context, sources []string) ([]string, error) {
	found := make([][]string, len(sources))
	faults := make([]error, len(sources))
	var all sync.WaitGroup
	for i, source := range sources {
		all.Go(func() { found[i], faults[i] = addresses(ctx, source) })
	}
	all.Wait()
	addrs := slices.Concat(found...)
	slices.Sort(addrs)
	return slices.Compact(addrs), errors.Join(faults...)
}

func addresses(ctx context.Context, source string) (addrs []string, err error) {
	named, err := Expand(ctx, source)
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, addr := range named {
		host, port, _ := net.SplitHostPort(addr) // Expand has checked it
		all.Go(func() {
			ips, fault := net.DefaultResolver.LookupHost(ctx, host)
			mu.Lock()
			defer mu.Unlock()
			for _, ip := range ips {
				addrs = append(addrs, net.JoinHostPort(ip, port))
			}
			if fault != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w", election.Shown(addr), fault))
			}
		})
	}
	all.Wait()
	return addrs[:min(len(addrs), MaxAddresses)], err
}
