package cli

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/net/netutil"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/api/access"
	"github.com/batuta-dev/batuta/internal/disk/datadir"
)

// ListenAPI opens the listener of an HTTP API at http; nil: the API is off. If http is the default,
// not chosen, and a second process on this machine has its port, any free port is used.
func ListenAPI(http string, chosen bool) (net.Listener, error) {
	if http == "off" {
		return nil, nil
	}
	at, err := api.ParseAddress(http)
	if err != nil {
		return nil, Usagef("--http %w", err)
	}
	l, err := at.Listen()
	if errors.Is(err, syscall.EADDRINUSE) && !chosen {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if datadir.Failed(err) {
		return nil, Exit(Failed, fmt.Errorf("--http: %w", datadir.Remedy(err)))
	}
	if err != nil {
		return nil, Usagef("--http: %w; choose a free port, 0 for any, a path for unix:, or off", err)
	}
	return Bounded(l), nil
}

// Bounded has further TCP clients of l wait while it has [access.MaxConnections]. At a Unix socket
// [access.EachClient] bounds each user, and all together.
func Bounded(l net.Listener) net.Listener {
	if l.Addr().Network() == "unix" {
		return l // of which the API asks the user
	}
	return netutil.LimitListener(l, access.MaxConnections())
}

// Shown returns the address of l: HOST:PORT or unix:PATH; "" for nil.
func Shown(l net.Listener) string {
	switch {
	case l == nil:
		return ""
	case l.Addr().Network() == "unix":
		return "unix:" + l.Addr().String()
	}
	return l.Addr().String()
}
