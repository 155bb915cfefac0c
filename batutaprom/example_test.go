package batutaprom_test

import (
	"context"
	"fmt"
	"log"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutaprom"
	"github.com/batuta-dev/batuta/election/bully"
)

func ExampleNew() {
	node, err := batuta.Start(context.Background(), batuta.Config{ID: "1", Listen: "127.0.0.1:0", Algorithm: bully.New()})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(batutaprom.New(node))
	show(registry)
	// Output: algorithm="bully" cluster="default" election="default" guarantee="best-effort" id="1" version=""
}

// A process that is a member of two clusters registers each node under a label of its own.
func ExampleNew_twoNodes() {
	registry := prometheus.NewRegistry()
	for _, cluster := range []string{"billing", "orders"} {
		node, err := batuta.Start(context.Background(), batuta.Config{Cluster: cluster, ID: "1", Listen: "127.0.0.1:0", Algorithm: bully.New()})
		if err != nil {
			log.Fatal(err)
		}
		defer node.Close()
		prometheus.WrapRegistererWith(prometheus.Labels{"node": cluster}, registry).MustRegister(batutaprom.New(node))
	}
	show(registry)
	// Output:
	// algorithm="bully" cluster="billing" election="default" guarantee="best-effort" id="1" node="billing" version=""
	// algorithm="bully" cluster="orders" election="default" guarantee="best-effort" id="1" node="orders" version=""
}

// show prints the labels of batuta_info.
func show(registry *prometheus.Registry) {
	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "batuta_info" {
			continue
		}
		for _, m := range f.GetMetric() {
			line := ""
			for _, l := range m.GetLabel() {
				line += fmt.Sprintf(" %s=%q", l.GetName(), l.GetValue())
			}
			fmt.Println(line[1:])
		}
	}
}
