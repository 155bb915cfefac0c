// Package grpc has gRPC's health service report whether this member leads, and has clients reach the leader.
//
//	go batutagrpc.Health(ctx, node, node.ID(), server, "", "shop.Orders")
//	conn, err := grpc.NewClient("leader:///", grpc.WithResolvers(batutagrpc.Resolver(node, "grpc")), …)
package grpc

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/resolver"

	"github.com/batuta-dev/batuta"
)

// Health sets the status of those services of a health server to SERVING while the candidate of e leads and is ready,
// otherwise to NOT_SERVING; id is the id of that candidate. It returns when ctx ends, with ctx's error, or when e has ended,
// with [batuta.ErrClosed]; the status is NOT_SERVING then.
func Health(ctx context.Context, e batuta.Elector, id batuta.ID, server *health.Server, services ...string) error {
	set := func(status healthpb.HealthCheckResponse_ServingStatus) {
		for _, name := range services {
			server.SetServingStatus(name, status)
		}
	}
	defer set(healthpb.HealthCheckResponse_NOT_SERVING)
	for view, err := range e.Watch(ctx) {
		switch {
		case err != nil:
			return err
		case view.Defined() && view.Ready() && view.Token.Leader.ID == id:
			set(healthpb.HealthCheckResponse_SERVING)
		default:
			set(healthpb.HealthCheckResponse_NOT_SERVING)
		}
	}
	return cmp.Or(ctx.Err(), batuta.ErrClosed)
}

// ErrNoLeader is why a call fails that does not wait for a leader (grpc.WaitForReady).
var ErrNoLeader = errors.New("no leader is known that publishes its address")

// Resolver gives the address of the leader: the value of that key in the leader's metadata (Config.Meta, --meta), HOST:PORT.
// It is for targets "leader:///", of any member of the cluster, and follows each change of leader. A call that finds no leader fails
// with codes.Unavailable and [ErrNoLeader] in its status, or waits with grpc.WaitForReady; in the instant in which a leader is
// lost the status has gRPC's own text, "produced zero addresses". When e has ended, calls fail with [batuta.ErrClosed].
//
// With TLS the leader's certificate must have the HOST of its address. With a target "leader:///NAME", ServerName in the
// credentials or grpc.WithAuthority it must have that name, whichever member leads.
func Resolver(e batuta.Elector, key string) resolver.Builder { return builder{e, key} }

type builder struct {
	e   batuta.Elector
	key string
}

// Scheme implements [resolver.Builder].
func (builder) Scheme() string { return "leader" }

// Build implements [resolver.Builder].
func (b builder) Build(_ resolver.Target, conn resolver.ClientConn, o resolver.BuildOptions) (resolver.Resolver, error) {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watch{cancel: cancel}
	given := false // whether an address was given: an error does not take it back
	forget := func(why error) {
		if given {
			conn.UpdateState(resolver.State{})
		}
		given = false
		conn.ReportError(why)
	}
	w.ended.Go(func() {
		why := batuta.ErrClosed
		for view, err := range b.e.Watch(ctx) {
			if err != nil {
				why = err
				break
			}
			addr := view.Meta[b.key]
			if !view.Defined() || addr == "" {
				forget(ErrNoLeader)
				continue
			}
			at := resolver.Address{Addr: addr}
			if o.Authority == "" {
				at.ServerName = addr
			}
			given = true
			conn.UpdateState(resolver.State{Endpoints: []resolver.Endpoint{{Addresses: []resolver.Address{at}}}})
		}
		forget(why)
	})
	return w, nil
}

type watch struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// ResolveNow implements [resolver.Resolver]. Changes are watched.
func (*watch) ResolveNow(resolver.ResolveNowOptions) {}

// Close implements [resolver.Resolver].
func (w *watch) Close() {
	w.cancel()
	w.ended.Wait()
}
