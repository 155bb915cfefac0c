package enginetest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// natsVariable has a test binary be a NATS server, with that configuration file.
const natsVariable = "BATUTA_TEST_NATS"

func init() {
	file := os.Getenv(natsVariable)
	if file == "" {
		return
	}
	options, err := server.ProcessConfigFile(file)
	if err == nil {
		var s *server.Server
		if s, err = server.NewServer(options); err == nil {
			s.ConfigureLogger()
			s.Start()
			s.WaitForShutdown()
			os.Exit(0)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// Nats is real NATS servers with JetStream.
type Nats struct {
	Servers []*Server
	Addrs   []string // HOST:PORT of each
	Files   []string // the configuration of each
}

// ServeNats starts a server, or a cluster of n servers. Lines are added to the configuration of each.
func ServeNats(t testing.TB, n int, lines ...string) *Nats {
	t.Helper()
	ports, dir := Ports(t, 2*n), t.TempDir()
	c := &Nats{}
	var routes []string
	for i := range n {
		c.Addrs = append(c.Addrs, fmt.Sprintf("127.0.0.1:%d", ports[2*i]))
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", ports[2*i+1]))
	}
	for i := range n {
		text := fmt.Sprintf("listen: %s\nserver_name: n%d\njetstream { store_dir: %q }\n", c.Addrs[i], i, filepath.Join(dir, fmt.Sprint(i)))
		if n > 1 {
			text += fmt.Sprintf("cluster { name: c, listen: %s, no_advertise: true, routes: [%s] }\n", strings.TrimPrefix(routes[i], "nats://"), strings.Join(routes, ", "))
		}
		file := filepath.Join(dir, fmt.Sprintf("%d.conf", i))
		if err := os.WriteFile(file, []byte(text+strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c.Files = append(c.Files, file)
		c.Servers = append(c.Servers, Serve(t, func() *exec.Cmd {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), natsVariable+"="+file)
			return cmd
		}))
	}
	if len(lines) == 0 { // without users
		js := DialNats(t, c.Addrs...)
		Await(t, "JetStream answers", func(ctx context.Context) error {
			_, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: "up", Replicas: n})
			return err
		})
	}
	return c
}

// DialNats makes a connection of its own.
func DialNats(t testing.TB, addrs ...string) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(strings.Join(addrs, ","), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond),
		nats.ReconnectBufSize(-1), nats.PingInterval(time.Second), nats.DontRandomize())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}
