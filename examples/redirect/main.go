// Command redirect is an HTTP service. Every member answers reads, and only the leader takes
// writes: the rest redirect a write to the URL that the leader publishes.
// A client may ask any of them, with -L for curl:
//
//	go run ./examples/redirect -id 1 -listen 127.0.0.1:7401 -serve 127.0.0.1:8081 -member 2=127.0.0.1:7402 -member 3=127.0.0.1:7403
//	go run ./examples/redirect -id 2 -listen 127.0.0.1:7402 -serve 127.0.0.1:8082 -member 1=127.0.0.1:7401 -member 3=127.0.0.1:7403
//	go run ./examples/redirect -id 3 -listen 127.0.0.1:7403 -serve 127.0.0.1:8083 -member 1=127.0.0.1:7401 -member 2=127.0.0.1:7402
//	curl -L -d hello http://127.0.0.1:8081/
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"
	"strings"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutahttp"
	"github.com/batuta-dev/batuta/election/bully"
)

func main() {
	config := batuta.Config{Algorithm: bully.New()}
	flag.StringVar((*string)(&config.ID), "id", "", "this member's `id`")
	flag.StringVar(&config.Listen, "listen", "127.0.0.1:0", "`host:port` to listen on")
	serve := flag.String("serve", "127.0.0.1:8081", "`host:port` of the service")
	flag.Func("member", "`id=host:port` of another member; repeatable", func(s string) error {
		id, addr, _ := strings.Cut(s, "=")
		config.Peers = append(config.Peers, batuta.Peer{ID: batuta.ID(id), Addr: addr})
		return nil
	})
	flag.Parse()
	config.Meta = map[string]string{"url": "http://" + *serve}
	node, err := batuta.Start(context.Background(), config)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(*serve, toLeader(node, http.HandlerFunc(answer))))
}

// toLeader has service answer reads everywhere. It redirects a write to the leader's URL; while no member leads
// the write waits, and is then to be tried again.
func toLeader(node *batuta.Node, service http.Handler) http.Handler {
	writes := batutahttp.LeaderOnly(node, service, batutahttp.Forward{Redirect: true}) // with method and body
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead {
			service.ServeHTTP(w, r)
			return
		}
		writes.ServeHTTP(w, r)
	})
}

// answer is the service.
func answer(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s %s by %s\n", r.Method, r.URL.Path, r.Host)
}
