package batutaclient_test

import (
	"context"
	"fmt"
	"log"
	"time"

	batutaclient "github.com/batuta-dev/batuta/clients/go"
)

// Work runs on one of several machines only, through the agent of each.
func Example() {
	agent := batutaclient.New("127.0.0.1:7500")
	err := agent.Lead(context.Background(), "payroll", func(ctx context.Context, l *batutaclient.Leadership) error {
		for {
			select {
			case <-ctx.Done():
				return nil // only now another member leads
			case <-time.After(time.Second):
				fmt.Println("works under", l.Token)
			}
		}
	}, batutaclient.Options{})
	if err != nil {
		log.Fatal(err)
	}
}
