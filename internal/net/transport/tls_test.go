package transport

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/net/network"
	"github.com/batuta-dev/batuta/internal/net/security"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

func secretOf(t testing.TB, plain bool) *security.Security {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte(security.NewSecret()), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := security.New(context.Background(), "default", "1", security.Options{SecretFile: path, Plain: plain})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// FuzzFirstBytes has a stranger begin a connection with any bytes: nothing it says is
// taken for a frame, but where members without TLS are let in.
func FuzzFirstBytes(f *testing.F) {
	f.Add([]byte{22, 3, 1, 0, 5, 1, 0, 0, 1, 0}, false)
	f.Add([]byte{0, 0, 0, 1, 'x'}, true)
	f.Add([]byte{0, 0, 0, 1, 'x'}, false)
	f.Add([]byte{22, 3, 3, 0xff, 0xff}, true)
	f.Add([]byte{21, 3, 3, 0, 2, 2, 40}, false)
	f.Add([]byte{}, true)
	f.Add([]byte("\x16\x030\x00\x84\x84\x84\x84~\x84\x84\x84\x84A"), true) // a record that ends in its midst
	f.Add([]byte("\x16\x03K\x00\x05\x16\x00\x00\x000"), true)
	strict, mixed := secretOf(f, false), secretOf(f, true)
	f.Fuzz(func(t *testing.T, data []byte, plain bool) {
		var live sync.WaitGroup
		near, far := net.Pipe()
		tr := &connector{security: strict}
		if plain {
			tr.security = mixed
		}
		c := &conn{bounds: bounds{frame: time.Second, write: time.Second, idle: time.Second}, live: &live, counters: new(network.Counters)}
		if err := c.connect(near, time.Now().Add(time.Second)); err != nil { // a closed pipe is kept that long
			t.Fatal(err)
		}
		live.Go(func() {
			buf := make([]byte, 4096)
			for {
				if _, err := far.Read(buf); err != nil {
					return
				}
			}
		})
		live.Go(func() {
			far.Write(data)
			far.Close()
		})
		body, err := tr.firstFrame(c)
		size, _ := wire.FrameSize(append(data[:len(data):len(data)], 0, 0, 0, 0)[:4], wire.MaxHandshake)
		if err == nil && (!plain || len(body) != size) {
			t.Errorf("%d bytes are taken for a frame", len(body))
		}
		c.close()
		far.Close()
		live.Wait()
	})
}
