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
	"github.com/batuta-dev/batuta/quorum"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	peers := []batuta.Peer{{ID: "1", Addr: os.Args[1]}, {ID: "2", Addr: os.Args[2]}, {ID: "3", Addr: os.Args[3]}}
	node := must(batuta.New(batuta.Config{ID: batuta.ID(os.Getenv("ID")), Listen: os.Getenv("LISTEN"), DataDir: os.Getenv("DIR"), Algorithm: quorum.New(), Peers: peers}))
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
