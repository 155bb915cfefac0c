package memnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta/internal/net/network"
	"github.com/batuta-dev/batuta/internal/net/transport"
)

// What the tests of virtual time rest on: bytes arrive in order, one way late; a
// half that is closed ends after them; deadlines and kills are as a kernel's.
func TestANetworkInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New()
		one, two := m.Host("1"), m.Host("2")
		l, err := two.Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		near, err := one.Dial(t.Context(), l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		far, _ := l.Accept()
		began := time.Now()
		near.Write([]byte("hello"))
		near.(*conn).CloseWrite()
		if text, err := io.ReadAll(far); string(text) != "hello" || err != nil || time.Since(began) != OneWay {
			t.Errorf("%q, %v after %v", text, err, time.Since(began))
		}
		near.SetReadDeadline(time.Now().Add(time.Hour))
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after the deadline: %v", err)
		}
		near.SetReadDeadline(time.Time{})
		two.Kill()
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("after the other's end: %v", err)
		}
		if _, err := one.Dial(t.Context(), l.Addr().String()); !errors.Is(err, transport.ErrRefused) {
			t.Errorf("a dial to the dead: %v", err)
		}
		near.Close()
	})
}

// While a link is cut what is sent waits, and so does a dial, as long as its context.
func TestACutHoldsWhatIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New()
		one, two := m.Host("1"), m.Host("2")
		l, err := two.Listen("10.0.0.2:7400")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		near, err := one.Dial(t.Context(), "10.0.0.2:7400")
		if err != nil {
			t.Fatal(err)
		}
		defer near.Close()
		far, _ := l.Accept()
		defer far.Close()
		m.Cut("2", "1")
		near.Write([]byte("x"))
		far.SetReadDeadline(time.Now().Add(time.Hour))
		if n, err := far.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("over a cut: %d bytes, %v", n, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := one.Dial(ctx, "10.0.0.2:7400"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a dial over a cut: %v", err)
		}
		healed := make(chan error)
		go func() {
			c, err := one.Dial(t.Context(), "10.0.0.2:7400")
			if err == nil {
				c.Close()
			}
			healed <- err
		}()
		m.Heal("1", "2")
		far.SetReadDeadline(time.Time{})
		if n, err := far.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Errorf("once it is healed: %d bytes, %v", n, err)
		}
		if err := <-healed; err != nil {
			t.Errorf("a dial that waited: %v", err)
		}
	})
}

// A frozen host returns nothing from any call. What arrives waits, on connections that stay open, and
// the host accepts connections as a kernel does for a stopped process.
func TestAFrozenHostWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New()
		one, two := m.Host("1"), m.Host("2")
		turn := make(network.Turn, 1)
		turn <- struct{}{}
		two.Attach(turn, nil)
		l, err := two.Listen("10.0.0.2:7400")
		if err != nil {
			t.Fatal(err)
		}
		near, err := one.Dial(t.Context(), "10.0.0.2:7400")
		if err != nil {
			t.Fatal(err)
		}
		far, _ := l.Accept()
		if !two.Freeze(nil) || len(turn) != 0 {
			t.Fatal("the loop goes on")
		}
		const frozen = time.Hour
		began := time.Now()
		var calls sync.WaitGroup
		late := func(what string, call func() error) {
			calls.Go(func() {
				if err := call(); err != nil || time.Since(began) < frozen {
					t.Errorf("%s: %v after %v", what, err, time.Since(began))
				}
			})
		}
		late("read", func() error { _, err := far.Read(make([]byte, 5)); return err })
		late("write", func() error { _, err := far.Write([]byte("back")); return err })
		late("accept", func() error { _, err := l.Accept(); return err })
		late("answer", func() error { _, err := near.Read(make([]byte, 4)); return err })
		late("dial", func() error {
			if _, err := two.Dial(t.Context(), "10.0.0.3:7400"); !errors.Is(err, transport.ErrRefused) {
				return fmt.Errorf("%w", err)
			}
			return nil
		})
		near.Write([]byte("hello"))
		if _, err := one.Dial(t.Context(), "10.0.0.2:7400"); err != nil || time.Since(began) > time.Second {
			t.Errorf("a dial to the frozen: %v", err)
		}
		time.Sleep(frozen)
		two.Thaw()
		calls.Wait()
		if len(turn) != 1 {
			t.Error("the turn is not given back")
		}

		ended := make(chan struct{})
		close(ended)
		<-turn
		if two.Freeze(ended) {
			t.Error("a loop that has ended is frozen")
		}
		turn <- struct{}{}
		two.Freeze(nil)
		two.Kill()
		if _, err := far.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("after a kill: %v", err)
		}
		near.Close()
	})
}
