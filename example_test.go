package batuta_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election/bully"
)

// alone starts a cluster of one; in earnest, Peers lists all of them.
func alone(ctx context.Context) (*batuta.Node, error) {
	return batuta.Start(ctx, batuta.Config{ID: "1", Listen: "127.0.0.1:0", Algorithm: bully.New()})
}

// leads waits until the node has a leader.
func leads(ctx context.Context, node *batuta.Node) batuta.View {
	for view := range node.Watch(ctx) {
		if view.Defined() {
			return view
		}
	}
	return batuta.View{}
}

func ExampleStart() {
	ctx := context.Background()
	node, err := batuta.Start(ctx, batuta.Config{
		ID:        "1",
		Listen:    "127.0.0.1:0",
		Algorithm: bully.New(),
		Peers:     []batuta.Peer{}, // {ID: "2", Addr: "10.0.0.2:7400"}, …
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	fmt.Println(node.ID(), "sees", leads(ctx, node).Token.Leader.ID, "lead")
	// Output: 1 sees 1 lead
}

// Secrets come from a service's own source, such as a variable that its platform sets.
func ExampleSecurity_secrets() {
	node, err := batuta.Start(context.Background(), batuta.Config{
		ID:        "1",
		Listen:    "127.0.0.1:0",
		Algorithm: bully.New(),
		Security: batuta.Security{Secrets: func(ctx context.Context) ([][]byte, error) {
			secret := os.Getenv("BATUTA_SECRETS") // as "batuta secret new" prints it
			if secret == "" {
				return nil, errors.New("BATUTA_SECRETS is not set")
			}
			return [][]byte{[]byte(secret)}, nil
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	node.Close()
	// Output: security: Secrets: BATUTA_SECRETS is not set
}

func ExampleNode_Run() {
	node, err := batuta.New(batuta.Config{ID: "1", Listen: "127.0.0.1:0", Algorithm: bully.New()})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background()) // or errgroup.WithContext, signal.NotifyContext
	ran := make(chan error)
	go func() { ran <- node.Run(ctx) }() // or group.Go, manager.Add
	fmt.Println(leads(ctx, node).Token.Leader.ID, "leads")
	cancel()
	fmt.Println(<-ran)
	// Output:
	// 1 leads
	// <nil>
}

func ExampleNode_Shutdown() {
	ctx := context.Background()
	node, err := alone(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	began := make(chan struct{})
	go node.Lead(ctx, func(ctx context.Context, l batuta.Leadership) error {
		close(began)
		<-ctx.Done() // work that stops soon
		return nil
	})
	<-began
	within, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	fmt.Println(node.Shutdown(within)) // the function has returned, and the lead is handed over
	// Output: <nil>
}

func ExampleNode_Lead() {
	ctx := context.Background()
	node, err := alone(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	err = node.Lead(ctx, func(ctx context.Context, l batuta.Leadership) error {
		// What only a leader may do goes here. When ctx ends, stop at once.
		fmt.Println("leading in epoch", l.Token.Epoch)
		return errors.New("the work is done")
	})
	fmt.Println(err)
	// Output:
	// leading in epoch 1
	// the work is done
}

func ExampleAcquire() {
	ctx := context.Background()
	node, err := alone(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close() // waits for Release
	held, err := batuta.Acquire(ctx, node)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer held.Release() // when the work has stopped
	// What only a leader may do goes here, under held.Context().
	fmt.Println("leading in epoch", held.Token.Epoch, held.Valid())
	// Output: leading in epoch 1 true
}

func ExampleNode_Watch() {
	ctx := context.Background()
	node, err := alone(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	for view := range node.Watch(ctx) {
		if view.Defined() {
			fmt.Println("leader:", view.Token.Leader.ID, "epoch:", view.Token.Epoch)
			break
		}
	}
	// Output: leader: 1 epoch: 1
}

func ExampleNode_Events() {
	ctx := context.Background()
	node, err := alone(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	leads(ctx, node)
	node.Close() // the events up to the end can still be read
	for event := range node.Events(ctx) {
		fmt.Println(event.Kind)
	}
	// Output:
	// leader
	// lost
}

func ExampleNode_Leader() {
	ctx := context.Background()
	node, err := alone(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	leads(ctx, node)
	fmt.Println(node.Leader().Token, node.IsLeader())
	// Output: 1:1 true
}

func ExampleNode_Resign() {
	ctx := context.Background()
	node, err := alone(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	leads(ctx, node)
	if err := node.Resign(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println(node.IsLeader())
	// Output: false
}

func ExampleNode_Campaign() {
	ctx := context.Background()
	node, err := alone(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	leads(ctx, node)
	node.Resign(ctx)
	node.Campaign(ctx) // stands again at once, instead of when another's time has ended
	fmt.Println("epoch", leads(ctx, node).Token.Epoch)
	// Output: epoch 2
}

func ExampleNode_Close() {
	ctx := context.Background()
	node, err := alone(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	leads(ctx, node)
	fmt.Println(node.Close(), node.Leader().Cause)
	fmt.Println(node.Resign(ctx))
	// Output:
	// <nil> stopped
	// node is closed
}

// A handler asks for each request: it is served under one leadership, or not at all.
func ExampleNode_Hold() {
	ctx := context.Background()
	node, err := alone(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	leads(ctx, node)
	request := func(ctx context.Context) {
		ctx, release, err := node.Hold(ctx)
		if errors.Is(err, batuta.ErrNotLeading) {
			fmt.Println("send it to the leader")
			return
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		defer release()
		l, _ := batuta.LeadershipFrom(ctx)
		fmt.Println("served under epoch", l.Token.Epoch)
	}
	request(ctx)
	node.Resign(ctx)
	request(ctx)
	// Output:
	// served under epoch 1
	// send it to the leader
}

// A job that may be left out asks once, and does not wait for the end of a leadership.
func ExampleTryAcquire() {
	ctx := context.Background()
	node, err := alone(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	held, err := batuta.TryAcquire(ctx, node)
	switch {
	case errors.Is(err, batuta.ErrNotLeading):
		fmt.Println("another member does it")
	case err != nil:
		fmt.Println(err)
	default:
		fmt.Println("this member does it")
		held.Release()
	}
	// Output: this member does it
}

// Only a fence can guard a row: with a best-effort algorithm there is none, and the epoch guards nothing.
func ExampleLeadership_Fence() {
	ctx := context.Background()
	node, err := alone(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	err = node.Lead(ctx, func(ctx context.Context, l batuta.Leadership) error {
		fence, ok := l.Fence()
		if !ok {
			return errors.New("this algorithm has no fence: use quorum, or an engine")
		}
		fmt.Println("UPDATE … WHERE fence <=", fence)
		return nil
	})
	fmt.Println(err)
	// Output: this algorithm has no fence: use quorum, or an engine
}

// A leader serves only once its work is ready, and View.Ready shows it to all members.
func ExampleNode_Ready() {
	ctx := context.Background()
	node, err := batuta.Start(ctx, batuta.Config{ID: "1", Listen: "127.0.0.1:0", Algorithm: bully.New(), AwaitReady: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	go node.Lead(ctx, func(ctx context.Context, l batuta.Leadership) error {
		// … load what it serves …
		if err := node.Ready(ctx, l.Token); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	})
	for view := range node.Watch(ctx) {
		if view.Defined() && view.Ready() {
			fmt.Println("member", view.Token.Leader.ID, "serves")
			break
		}
	}
	// Output: member 1 serves
}

// A member that is not healthy does not lead; by Fall and Rise one slow answer changes nothing.
func ExampleHealth() {
	node, err := batuta.Start(context.Background(), batuta.Config{
		ID: "1", Listen: "127.0.0.1:0", Algorithm: bully.New(),
		Health: batuta.Health{
			Check:   func(ctx context.Context) error { return errors.New("the database does not answer") }, // db.PingContext
			Every:   100 * time.Millisecond,
			Timeout: time.Second,
			Rise:    1,
			Fall:    3,
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()
	fmt.Println("leads:", node.IsLeader())
	// Output: leads: false
}
