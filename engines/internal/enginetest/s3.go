package enginetest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// What S3 servers have: an access key, which is its secret too, and a bucket.
const S3User, Bucket = "batuta-test", "elections"

// ServeS3 starts n real S3 gateways over one directory, each at one of addrs, HOST:PORT.
func ServeS3(t testing.TB, n int) (servers []*Server, addrs []string) {
	t.Helper()
	program, dir := Program(t, "versitygw", "no package; engines/internal/s3test/go.mod shows how to build it"), t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, Bucket), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, port := range Ports(t, n) {
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		servers, addrs = append(servers, Serve(t, func() *exec.Cmd {
			cmd := exec.Command(program, "--port", addr, "--quiet", "posix", dir)
			cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+S3User, "ROOT_SECRET_KEY="+S3User)
			return cmd
		})), append(addrs, addr)
		Await(t, "the gateway listens", func(ctx context.Context) error {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			if err == nil {
				c.Close()
			}
			return err
		})
	}
	return servers, addrs
}
