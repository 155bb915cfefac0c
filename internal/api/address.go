package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Address is where an HTTP API listens: HOST:PORT, or the path of a Unix socket.
type Address struct {
	Host string // HOST:PORT
	Unix string
}

// ParseAddress reads HOST:PORT or unix:PATH.
func ParseAddress(text string) (Address, error) {
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		if path == "" {
			return Address{}, errors.New("unix: names no path, such as unix:/run/batuta/http.sock")
		}
		return Address{Unix: path}, nil
	}
	if err := election.CheckListen(text); err != nil {
		return Address{}, fmt.Errorf("%q is not HOST:PORT with a port of 0 to 65535, such as 127.0.0.1:7500, nor unix:PATH: %w", text, err)
	}
	return Address{Host: text}, nil
}

// Local reports whether the address is only reachable from this machine.
func (a Address) Local() bool { return a.Unix != "" || Loopback(a.Host) }

// Loopback reports whether HOST:PORT is only for this machine.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// Listen opens the address. A Unix socket is for its owner and its group; a socket that a dead
// process has left is replaced.
func (a Address) Listen() (net.Listener, error) {
	if a.Unix == "" {
		return net.Listen("tcp", a.Host)
	}
	l, err := net.Listen("unix", a.Unix)
	if errors.Is(err, syscall.EADDRINUSE) && a.abandoned() && os.Remove(a.Unix) == nil {
		l, err = net.Listen("unix", a.Unix)
	}
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(a.Unix, 0o660); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// abandoned reports whether the existing socket has no listener.
func (a Address) abandoned() bool {
	c, err := net.DialTimeout("unix", a.Unix, time.Second)
	if err == nil {
		c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// Access is what a client needs to be accepted by an agent.
type Access struct {
	Token string      // empty: none
	TLS   *tls.Config // the trusted authorities; nil: those of this machine
}

// dialAgent makes the transport to an agent, and the prefix of its URLs. Addresses are HOST:PORT,
// unix:PATH, http://HOST:PORT and https://HOST:PORT. Without a scheme it uses TLS with a remote
// machine, if access has trusted authorities.
func dialAgent(addr string, access Access) (*http.Transport, string, error) {
	dialer := &net.Dialer{Timeout: 3 * time.Second}
	transport := &http.Transport{DialContext: dialer.DialContext, TLSClientConfig: access.TLS,
		TLSHandshakeTimeout: 3 * time.Second, ResponseHeaderTimeout: callTimeout + 2*time.Second}
	scheme, rest, given := strings.Cut(strings.TrimSuffix(addr, "/"), "://")
	if !given {
		scheme, rest = "http", addr
	}
	at, err := ParseAddress(rest)
	switch {
	case err != nil:
		return nil, "", err
	case scheme != "http" && scheme != "https":
		return nil, "", fmt.Errorf("%q: use http:// or https://", addr)
	case at.Unix != "":
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", at.Unix)
		}
		return transport, "http://localhost", nil
	case !given && access.TLS != nil && !at.Local():
		scheme = "https"
	}
	if scheme == "http" && access.Token != "" && !at.Local() {
		return nil, "", fmt.Errorf("%s: the token would travel for all to read: give --tls-ca or --secret-file, or https://%s", addr, rest)
	}
	return transport, scheme + "://" + rest, nil
}
