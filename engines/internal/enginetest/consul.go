package enginetest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hashicorp/consul/api"
)

// Consul is real servers of a datacenter, or a server of the tests' own.
type Consul struct {
	Servers []*Server // none: it is the tests' own
	Addrs   []string  // HOST:PORT of the HTTP API of each
	Fail    func() (start func())
}

// ConsulProgram is the real server; "": the tests have their own, which serves what an election needs.
func ConsulProgram() string { return os.Getenv("BATUTA_TEST_CONSUL") }

// ServeConsul starts n servers. Settings are added to the configuration of each. The tests' own is a single server without settings:
// if [ConsulProgram] is "", a test that needs more is skipped.
func ServeConsul(t testing.TB, n int, settings map[string]any) *Consul {
	t.Helper()
	program := ConsulProgram()
	if program == "" && (n > 1 || settings != nil) {
		t.Skip("BATUTA_TEST_CONSUL names no Consul; engines/internal/consultest/go.mod shows how to build it")
	}
	if program == "" {
		s := newKVServer(t)
		return &Consul{Addrs: []string{s.Listener.Addr().String()}, Fail: s.fail}
	}
	ports, c := Ports(t, 4*n), &Consul{}
	var join []string
	for i := range n {
		join = append(join, fmt.Sprintf("127.0.0.1:%d", ports[4*i+1]))
	}
	for i := range n {
		own, dir := ports[4*i:], t.TempDir()
		c.Addrs = append(c.Addrs, fmt.Sprintf("127.0.0.1:%d", own[0]))
		config := map[string]any{"server": true, "bootstrap_expect": n, "node_name": fmt.Sprint("c", i), "bind_addr": "127.0.0.1", "data_dir": filepath.Join(dir, "data"),
			"retry_join": join, "retry_interval": "1s", "log_level": "warn", "disable_update_check": true, "performance": map[string]any{"raft_multiplier": 1},
			"ports": map[string]int{"http": own[0], "serf_lan": own[1], "server": own[2], "serf_wan": own[3], "dns": -1, "grpc": -1, "grpc_tls": -1}}
		for name, value := range settings {
			config[name] = value
		}
		text, err := json.Marshal(config)
		file := filepath.Join(dir, "c.json")
		if err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		c.Servers = append(c.Servers, Serve(t, func() *exec.Cmd { return exec.Command(program, "agent", "-config-file", file) }))
	}
	c.Fail = c.Servers[0].Fail
	c.Await(t)
	return c
}

// Await waits until the servers have a leader.
func (c *Consul) Await(t testing.TB) {
	t.Helper()
	client := DialConsul(t, c.Addrs[0], "")
	Await(t, "Consul has a leader", func(ctx context.Context) error {
		leader, err := client.Status().LeaderWithQueryOptions((&api.QueryOptions{}).WithContext(ctx))
		if err == nil && leader == "" {
			err = fmt.Errorf("it has none")
		}
		return err
	})
}

// DialConsul makes a client of its own.
func DialConsul(t testing.TB, addr, token string) *api.Client {
	t.Helper()
	client, err := api.NewClient(&api.Config{Address: addr, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return client
}
