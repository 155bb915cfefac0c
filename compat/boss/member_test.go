package boss_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/compat/boss"
	"github.com/batuta-dev/batuta/election/bully"
)

// memberSpec is the environment variable that makes this test program a batuta
// member; it holds a member as JSON.
const memberSpec = "BATUTA_TEST_BOSS_MEMBER"

// member is a batuta member in a process of its own.
type member struct {
	IP                        string
	Members                   []batuta.Peer
	Heartbeat, TMax, TProcess time.Duration
	Options                   boss.Options
}

// beMember runs the member that spec describes until SIGTERM. It tells of itself
// as the independent node does.
func beMember(spec string) {
	var m member
	if err := json.Unmarshal([]byte(spec), &m); err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	n, err := batuta.Start(ctx, batuta.Config{ID: batuta.ID(m.IP), Peers: m.Members, Algorithm: bully.New(bully.WithDead()),
		Heartbeat: m.Heartbeat, TMax: m.TMax, TProcess: m.TProcess, Wire: boss.New(m.Options),
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("id", m.IP)})
	if err != nil {
		panic(err)
	}
	fmt.Printf("{\"listening\": %q}\n", m.IP)
	for v := range n.Watch(ctx) {
		line := map[string]any{"boss": nil, "i_am_boss": false, "t": time.Now().Format("15:04:05.000")}
		if v.Defined() {
			line["boss"], line["i_am_boss"] = v.Token.Leader.ID, string(v.Token.Leader.ID) == m.IP
		}
		b, _ := json.Marshal(line)
		fmt.Println(string(b))
	}
	n.Close()
}
