package grpc_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"

	"github.com/batuta-dev/batuta"
	adapter "github.com/batuta-dev/batuta/adapters/grpc"
	"github.com/batuta-dev/batuta/batutatest"
)

// serve starts a gRPC server with the health service, on a port of its own.
func serve(t *testing.T, options ...grpc.ServerOption) (addr string, h *health.Server) {
	t.Helper()
	in, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(options...)
	h = health.NewServer()
	healthpb.RegisterHealthServer(s, h)
	go s.Serve(in)
	t.Cleanup(s.Stop)
	return in.Addr().String(), h
}

func dial(t *testing.T, target string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(target, append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// A client of the health service receives when the member begins and ceases to lead.
func TestHealth(t *testing.T) {
	e := batutatest.NewElector(t)
	addr, h := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- adapter.Health(ctx, e, "1", h, "orders") }()
	stream, err := healthpb.NewHealthClient(dial(t, addr)).Watch(t.Context(), &healthpb.HealthCheckRequest{Service: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	await := func(want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		for {
			r, err := stream.Recv()
			if err != nil {
				t.Fatalf("no %v: %v", want, err)
			}
			if r.Status == want {
				return
			}
		}
	}
	await(healthpb.HealthCheckResponse_NOT_SERVING)
	e.Elect()
	await(healthpb.HealthCheckResponse_SERVING)
	e.Lose(batuta.CauseResigned)
	await(healthpb.HealthCheckResponse_NOT_SERVING)
	e.Follow("2", nil)
	e.Elect()
	await(healthpb.HealthCheckResponse_SERVING)
	cancel()
	await(healthpb.HealthCheckResponse_NOT_SERVING)
	if err := <-ended; err != context.Canceled {
		t.Errorf("Health returns %v", err)
	}
}

// Calls reach the leader that there is, and the next one. Without a leader they fail, or wait.
func TestResolver(t *testing.T) {
	e := batutatest.NewElector(t)
	one, _ := serve(t)
	two, _ := serve(t)
	client := healthpb.NewHealthClient(dial(t, "leader:///", grpc.WithResolvers(adapter.Resolver(e, "grpc"))))
	ask := func(options ...grpc.CallOption) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var p peer.Peer
		if _, err := client.Check(ctx, &healthpb.HealthCheckRequest{}, append(options, grpc.Peer(&p))...); err != nil {
			return "", err
		}
		return p.Addr.String(), nil
	}
	if _, err := ask(); err == nil || !strings.Contains(err.Error(), adapter.ErrNoLeader.Error()) {
		t.Errorf("without a leader: %v", err)
	}
	waits := make(chan string)
	go func() {
		addr, err := ask(grpc.WaitForReady(true))
		if err != nil {
			addr = err.Error()
		}
		waits <- addr
	}()
	e.Follow("2", map[string]string{"grpc": one})
	if addr := <-waits; addr != one {
		t.Errorf("a call that waits reaches %s, want %s", addr, one)
	}
	e.Follow("3", map[string]string{"grpc": two})
	for late := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		addr, err := ask(grpc.WaitForReady(true))
		if err == nil && addr == two {
			break
		}
		if time.Now().After(late) {
			t.Fatalf("after the change calls reach %s, %v, want %s", addr, err, two)
		}
	}
	e.Follow("", nil)
	for late := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		_, err := ask()
		if err != nil && strings.Contains(err.Error(), adapter.ErrNoLeader.Error()) {
			break
		}
		if time.Now().After(late) {
			t.Fatalf("after the loss of the leader: %v", err)
		}
	}
}

// With TLS the leader's certificate has the host of its address, or the name that the client gives.
func TestResolverWithTLS(t *testing.T) {
	e := batutatest.NewElector(t)
	web := httptest.NewTLSServer(nil) // its certificate is of 127.0.0.1 and example.com
	defer web.Close()
	addr, _ := serve(t, grpc.Creds(credentials.NewServerTLSFromCert(&web.TLS.Certificates[0])))
	e.Follow("2", map[string]string{"grpc": addr})
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	for name, good := range map[string]bool{"": true, "example.com": true, "other.example": false} {
		check := func(target, inCredentials, authority string) {
			client := healthpb.NewHealthClient(dial(t, target, grpc.WithResolvers(adapter.Resolver(e, "grpc")), grpc.WithAuthority(authority),
				grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: inCredentials}))))
			if _, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{}); (err == nil) != good {
				t.Errorf("%s as %q, %q: %v", target, inCredentials, authority, err)
			}
		}
		check("leader:///"+name, "", "")
		check("leader:///", name, "")
		check("leader:///", "", name)
	}
}

// When the node has closed, calls do not go to the leader that it knew last, and Health ends.
func TestClosedNode(t *testing.T) {
	c := batutatest.New(t, 2)
	c.StartAll()
	ended := make(chan error, 1)
	node := c.Node("1")
	go func() { ended <- adapter.Health(t.Context(), node, "1", health.NewServer()) }()
	client := healthpb.NewHealthClient(dial(t, "leader:///", grpc.WithResolvers(adapter.Resolver(c.Node("1"), "grpc"))))
	addr, _ := serve(t)
	if err := c.Node("2").SetMeta(t.Context(), map[string]string{"grpc": addr}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true)); err != nil {
		t.Fatal(err)
	}
	c.Stop("1")
	for late := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		_, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{})
		if err != nil && strings.Contains(err.Error(), batuta.ErrClosed.Error()) {
			break
		}
		if time.Now().After(late) {
			t.Fatalf("after its node has closed, a call ends with %v", err)
		}
	}
	if err := <-ended; err != batuta.ErrClosed {
		t.Errorf("Health returns %v", err)
	}
}
