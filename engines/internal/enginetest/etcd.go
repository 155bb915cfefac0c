package enginetest

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Etcd is real etcd servers.
type Etcd struct {
	Servers []*Server
	Addrs   []string // HOST:PORT of each
}

// ServeEtcd starts an etcd of n servers. A login costs little there: on a busy machine a hash of the default cost takes longer
// than a call may last.
func ServeEtcd(t testing.TB, n int) *Etcd {
	t.Helper()
	program := Program(t, "etcd", "etcd-server")
	ports := Ports(t, 2*n)
	e := &Etcd{}
	var initial []string
	for i := range n {
		e.Addrs = append(e.Addrs, fmt.Sprintf("127.0.0.1:%d", ports[2*i]))
		initial = append(initial, fmt.Sprintf("e%d=http://127.0.0.1:%d", i, ports[2*i+1]))
	}
	for i := range n {
		dir := t.TempDir()
		e.Servers = append(e.Servers, Serve(t, func() *exec.Cmd {
			_, peer, _ := strings.Cut(initial[i], "=")
			return exec.Command(program, "--name", fmt.Sprintf("e%d", i), "--data-dir", dir, "--listen-client-urls", "http://"+e.Addrs[i],
				"--advertise-client-urls", "http://"+e.Addrs[i], "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
				"--initial-cluster", strings.Join(initial, ","), "--unsafe-no-fsync", "--bcrypt-cost", "4", "--logger", "zap", "--log-level", "warn")
		}))
	}
	client := DialEtcd(t, e.Addrs...)
	Await(t, "etcd answers", func(ctx context.Context) error {
		_, err := client.Put(ctx, "up", "")
		return err
	})
	return e
}

// DialEtcd makes a client of its own.
func DialEtcd(t testing.TB, addrs ...string) *clientv3.Client {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: addrs, Logger: zap.NewNop(), DialKeepAliveTime: time.Second, DialKeepAliveTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}
