// Command pool is a pool of workers without a fixed boss, as in docs/sources.md, "Scrapper": the
// leader hands out tasks, and the rest of the members do them. When the boss dies the next
// boss begins again, so a task must be harmless to do twice.
//
//	go run ./examples/pool 1=127.0.0.1:7401 2=127.0.0.1:7402 3=127.0.0.1:7403  # member 1
//	go run ./examples/pool 2=127.0.0.1:7402 1=127.0.0.1:7401 3=127.0.0.1:7403  # member 2
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election/bully"
)

func main() {
	config := batuta.Config{Algorithm: bully.New()}
	for _, arg := range os.Args[1:] { // this member first
		id, addr, _ := strings.Cut(arg, "=")
		config.Peers = append(config.Peers, batuta.Peer{ID: batuta.ID(id), Addr: addr})
		config.ID, config.Listen = config.Peers[0].ID, config.Peers[0].Addr
	}
	node, err := batuta.Start(context.Background(), config)
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Fatal(node.Lead(context.Background(), boss)) }()
	for {
		if view := node.Leader(); view.Defined() && !node.IsLeader() {
			work(desk(view.Address), node.ID())
		}
		time.Sleep(100 * time.Millisecond) // here a page would be fetched
	}
}

// desk is where a boss hands out tasks: a thousand ports above its election's.
func desk(addr string) netip.AddrPort {
	at := netip.MustParseAddrPort(addr)
	return netip.AddrPortFrom(at.Addr(), at.Port()+1000)
}

// boss gives a page to scrape to each worker that asks, in turn, again and again.
func boss(ctx context.Context, l batuta.Leadership) error {
	listener, err := net.Listen("tcp", desk(os.Args[1][strings.Index(os.Args[1], "=")+1:]).String())
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	for task := 0; ; task++ {
		worker, err := listener.Accept()
		if err != nil {
			return nil // leadership is lost
		}
		page := []string{"/", "/news", "/sports", "/weather"}[task%4]
		go func() {
			defer worker.Close()
			var answer string // none when its worker dies: the page comes round again
			fmt.Fprintln(worker, page)
			fmt.Fscan(worker, &answer)
			fmt.Printf("boss %s, epoch %d: %s %s\n", l.Token.Leader.ID, l.Token.Epoch, page, answer)
		}()
	}
}

// work does a task; the boss may have died.
func work(boss netip.AddrPort, id batuta.ID) {
	if conn, err := net.Dial("tcp", boss.String()); err == nil {
		defer conn.Close()
		fmt.Fscan(conn, new(string)) // the page
		fmt.Fprintf(conn, "scraped-by-%s\n", id)
	}
}
