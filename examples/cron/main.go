// Command cron does a job every so often in only one of several processes: a service has
// three replicas, and its nightly report is made once.
//
//	go run ./examples/cron -id 1 -listen 127.0.0.1:7401 -member 2=127.0.0.1:7402
//	go run ./examples/cron -id 2 -listen 127.0.0.1:7402 -member 1=127.0.0.1:7401
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election/bully"
)

func main() {
	config := batuta.Config{Algorithm: bully.New()}
	flag.StringVar((*string)(&config.ID), "id", "", "this member's `id`")
	flag.StringVar(&config.Listen, "listen", "127.0.0.1:0", "`host:port` to listen on")
	flag.StringVar(&config.DataDir, "data-dir", "", "`directory` that keeps the state")
	every := flag.Duration("every", time.Second, "`time` between two jobs")
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
	if err := run(ctx, config, *every); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, config batuta.Config, every time.Duration) error {
	node, err := batuta.Start(context.Background(), config)
	if err != nil {
		return err
	}
	defer node.Close() // hands over
	err = node.Lead(ctx, func(ctx context.Context, l batuta.Leadership) error {
		return tick(ctx, every, func() { fmt.Printf("job done by %s in epoch %d\n", l.Token.Leader.ID, l.Token.Epoch) })
	})
	if ctx.Err() != nil {
		return nil // the process was asked to end
	}
	return err
}

// tick does job now and every so often, until leadership is lost. It returns only
// between two jobs: the next member leads only after that.
func tick(ctx context.Context, every time.Duration, job func()) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		job()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}
