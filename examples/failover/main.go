// Command failover is a TCP service with an active process and standbys: the leader
// listens. All processes may have the same address, as here on a single machine, or each
// its own behind a load balancer.
//
//	go run ./examples/failover -id 1 -listen 127.0.0.1:7401 -member 2=127.0.0.1:7402
//	go run ./examples/failover -id 2 -listen 127.0.0.1:7402 -member 1=127.0.0.1:7401
//	nc 127.0.0.1 7400
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election/bully"
)

func main() {
	config := batuta.Config{Algorithm: bully.New()}
	flag.StringVar((*string)(&config.ID), "id", "", "this member's `id`")
	flag.StringVar(&config.Listen, "listen", "127.0.0.1:0", "`host:port` for the election")
	service := flag.String("service", "127.0.0.1:7400", "`host:port` of the service")
	flag.Func("member", "`id=host:port` of another member; repeatable", func(s string) error {
		id, addr, ok := strings.Cut(s, "=")
		if !ok {
			return errors.New("want id=host:port")
		}
		config.Peers = append(config.Peers, batuta.Peer{ID: batuta.ID(id), Addr: addr})
		return nil
	})
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	node, err := batuta.Start(context.Background(), config)
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close() // hands over
	err = node.Lead(ctx, func(ctx context.Context, l batuta.Leadership) error { return serve(ctx, *service, l) })
	if ctx.Err() == nil {
		log.Print(err) // such as a port in use: a different member shall lead
	}
}

// serve answers until leadership is lost. It returns when the port is free and every
// client has left; only then does the next member lead.
func serve(ctx context.Context, addr string, l batuta.Leadership) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	var clients sync.WaitGroup
	defer clients.Wait()
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	for {
		client, err := listener.Accept()
		if err != nil {
			return nil // leadership is lost
		}
		clients.Go(func() {
			defer client.Close()
			fmt.Fprintf(client, "%s serves in epoch %d\n", l.Token.Leader.ID, l.Token.Epoch)
		})
	}
}
