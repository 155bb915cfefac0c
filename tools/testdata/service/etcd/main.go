// Command service writes to a storage, on one of its processes at a time.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/etcd"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	client := must(clientv3.New(clientv3.Config{Endpoints: os.Args[1:]}))
	node := must(engines.New(etcd.New(client, "/service"), engines.Config{ID: batuta.ID(os.Getenv("ID")), Lease: 3 * time.Second}))
	go func() {
		log.Print(node.Lead(context.Background(), work))
		stop()
	}()
	if err := node.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// work writes under the fence of its leadership until that ends.
func work(ctx context.Context, l batuta.Leadership) error {
	fence, ok := l.Fence()
	if !ok {
		return errors.New("this election has no fence")
	}
	for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		put(ctx, fence)
	}
	return nil
}

// put writes to the storage, which refuses a fence below the highest that it has seen.
func put(ctx context.Context, fence uint64) {
	url := fmt.Sprintf("%s?id=%s&fence=%d", os.Getenv("STORAGE"), os.Getenv("ID"), fence)
	if answer, err := http.DefaultClient.Do(must(http.NewRequestWithContext(ctx, "PUT", url, nil))); err != nil {
		log.Print(err)
	} else {
		answer.Body.Close()
		log.Printf("fence %d: %s", fence, answer.Status)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}
