// Command fencing counts in a table that all members share, on the leader only. Each
// write carries the leader's token, and the table refuses it once a later leader has
// written: a leader that was frozen between its check and its write does no harm when it
// wakes. It is a module of its own, for the database's sake.
//
//	cd examples/fencing
//	go run . -id 1 -listen 127.0.0.1:7401 -data-dir /tmp/one 2=127.0.0.1:7402 3=127.0.0.1:7403
//	go run . -id 2 -listen 127.0.0.1:7402 -data-dir /tmp/two 1=127.0.0.1:7401 3=127.0.0.1:7403
//	go run . -id 3 -listen 127.0.0.1:7403 -data-dir /tmp/three 1=127.0.0.1:7401 2=127.0.0.1:7402
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/quorum"
)

func main() {
	config := batuta.Config{Algorithm: quorum.New()}
	flag.StringVar((*string)(&config.ID), "id", "", "this member's `id`")
	flag.StringVar(&config.Listen, "listen", "127.0.0.1:0", "`host:port` to listen on")
	flag.StringVar(&config.DataDir, "data-dir", "", "`directory` that keeps the state; a quorum needs one")
	table := flag.String("table", "/tmp/fencing.db", "`file` of the table, the same for all")
	flag.Parse()
	for _, other := range flag.Args() {
		id, addr, _ := strings.Cut(other, "=")
		config.Peers = append(config.Peers, batuta.Peer{ID: batuta.ID(id), Addr: addr})
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, config, *table); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, config batuta.Config, table string) error {
	register, err := Open(ctx, table)
	if err != nil {
		return err
	}
	defer register.Close()
	node, err := batuta.Start(context.Background(), config)
	if err != nil {
		return err
	}
	defer node.Close() // hands over
	err = node.Lead(ctx, func(ctx context.Context, l batuta.Leadership) error {
		return count(ctx, register, l.Token) // not l.Fence(): this runs without a quorum, too
	})
	if ctx.Err() != nil {
		return nil // the process was asked to end
	}
	return err
}

// count adds 1 now and every second, until leadership is lost, or the table refuses a
// write because a later leader has written.
func count(ctx context.Context, register *Register, token batuta.Token) error {
	for {
		value, err := register.Add(ctx, token, 1)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		fmt.Printf("%s has counted to %d\n", token, value)
		time.Sleep(time.Second)
	}
}
