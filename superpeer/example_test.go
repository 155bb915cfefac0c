package superpeer_test

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/batuta-dev/batuta/superpeer"
)

// A node alone founds an overlay, and becomes its only super peer.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	m, err := superpeer.Join(ctx, superpeer.Config{
		ID: "a", Listen: "127.0.0.1:0", Fraction: 0.1, Capacity: 20, Round: 50 * time.Millisecond,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	for ev, err := range m.Watch(ctx) {
		if err != nil {
			fmt.Println(err)
			return
		}
		if ev.Kind == superpeer.EventSuper {
			fmt.Println(m.ID(), "serves", len(m.Clients()), "others under token", ev.Token)
			return
		}
	}
	// Output: a serves 0 others under token 0
}

// A program carries the overlay over sockets that it has opened itself.
func ExampleNewTransport() {
	streams, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	packets, err := net.ListenPacket("udp", streams.Addr().String()) // the port of both
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := superpeer.Join(context.Background(), superpeer.Config{
		Transport: superpeer.NewTransport(packets, streams, nil), Fraction: 0.1, Capacity: 20,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close() // and both sockets
}
