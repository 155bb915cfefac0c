package boss_test

import (
	"context"
	"fmt"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/compat/boss"
	"github.com/batuta-dev/batuta/election/bully"
)

// One node of a system of scrappers is replaced by batuta. The name scrapper
// stands for all nodes.
func Example() {
	node, err := batuta.Start(context.Background(), batuta.Config{
		ID:        "127.0.0.1", // its address
		Listen:    "127.0.0.1:0",
		Join:      []string{"localhost:8080"},
		Algorithm: bully.New(bully.WithDead()),
		Wire:      boss.New(boss.Options{NodeType: "scrapper"}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	for view := range node.Watch(context.Background()) {
		if view.Defined() {
			fmt.Println(view.Token.Leader.ID, "leads")
			return
		}
	}
	// Output: 127.0.0.1 leads
}
