// Command relay passes the lines of a chat to every node of a large overlay. Each node sends
// the typed lines to its super peer, which sends them to the rest of the super peers, and each
// super peer to its clients. When a super peer dies its clients go on with a different super peer.
//
//	go run ./superpeer/examples/relay -id b -listen 127.0.0.1:7601 -join 127.0.0.1:7600 # the first without -join
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"time"

	"github.com/batuta-dev/batuta/superpeer"
)

// How far a line has come: the first byte of its packet.
const (
	toSuper  = '0' + iota // from the node where it was typed to its super peer
	toOthers              // from there to the rest of the super peers
	toClient              // from a super peer to its clients
)

func main() {
	c := superpeer.Config{Fraction: 0.3}
	flag.StringVar(&c.ID, "id", "", "this node's name")
	flag.StringVar(&c.Listen, "listen", "127.0.0.1:7600", "where the overlay reaches it")
	join := flag.String("join", "", "any node to join through")
	flag.DurationVar(&c.Round, "round", time.Second, "how often it acts")
	flag.Parse()
	if *join != "" {
		c.Join = []string{*join}
	}
	lines, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	c.Service = lines.LocalAddr().String() // published to all nodes: where lines are sent
	node, err := superpeer.Join(context.Background(), c)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ready", node.Address())
	send := func(hop byte, line, to string) {
		addr, _ := net.ResolveUDPAddr("udp", to)
		lines.WriteTo(append([]byte{hop}, line...), addr) // best effort, as a chat is
	}
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			to := c.Service // a super peer gives it to itself
			if home, ok := node.Home(); ok {
				to = home.Service
			}
			send(toSuper, c.ID+": "+in.Text(), to)
		}
	}()
	for packet := make([]byte, 1<<16); ; {
		n, _, err := lines.ReadFrom(packet)
		if err != nil {
			log.Fatal(err)
		}
		hop, line := packet[0], string(packet[1:max(n, 1)])
		fmt.Println(line)
		for _, p := range node.SuperPeers() {
			if hop == toSuper {
				send(toOthers, line, p.Service)
			}
		}
		for _, client := range node.Clients() {
			if hop != toClient {
				send(toClient, line, client.Service)
			}
		}
	}
}
