package batuta

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
)

// disk is a small file system of its own.
type disk struct {
	t      *testing.T
	dir    string
	locked bool
}

// newDisk mounts one. It skips the test where that is not allowed, unless
// BATUTA_TEST_NETNS says that root's rights are there.
func newDisk(t *testing.T) *disk {
	t.Helper()
	d := &disk{t: t, dir: t.TempDir()}
	if err := unix.Mount("tmpfs", d.dir, "tmpfs", 0, "size=64k"); err != nil {
		if os.Getenv("BATUTA_TEST_NETNS") != "" {
			t.Fatalf("mount: %v", err)
		}
		t.Skipf("cannot mount a file system here: %v", err)
	}
	t.Cleanup(func() {
		if d.locked {
			d.unlock()
		}
		if err := unix.Unmount(d.dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", d.dir, err)
		}
	})
	return d
}

func (d *disk) filler() string { return filepath.Join(d.dir, "filler") }

// fill leaves no room at all.
func (d *disk) fill() {
	d.t.Helper()
	if err := os.WriteFile(d.filler(), make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		d.t.Fatalf("the disk takes a megabyte: %v", err)
	}
}

// lock puts a read-only mount of the disk over it: a file system cannot turn
// read-only while a process has a file open to write.
func (d *disk) lock() {
	d.t.Helper()
	if err := unix.Mount(d.dir, d.dir, "", unix.MS_BIND, ""); err != nil {
		d.t.Fatal(err)
	}
	d.locked = true
	if err := unix.Mount("", d.dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		d.t.Fatal(err)
	}
}

func (d *disk) unlock() {
	d.t.Helper()
	d.locked = false
	if err := unix.Unmount(d.dir, unix.MNT_DETACH); err != nil {
		d.t.Error(err)
	}
}

// A member whose disk cannot be written follows and does not claim, until the
// disk is well again. What was saved stays.
func TestAMemberThatCannotWriteDoesNotClaim(t *testing.T) {
	virtually(t, func(t *testing.T) {
		d := newDisk(t)
		c := newVirtualCluster(t, 2)
		c.start("1")
		two := c.start("2", func(cfg *Config) { cfg.DataDir = filepath.Join(d.dir, "two") })
		before := c.agree("2")
		d.lock()
		if err := two.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		now := c.agree("1") // it follows, unsaved
		c.kill("1")
		ctx, cancel := context.WithTimeout(t.Context(), 4*two.timeout)
		defer cancel()
		for v := range two.Watch(ctx) {
			if v.Token.Leader.ID == "2" {
				t.Fatalf("it claims %s, which it cannot save", v.Token)
			}
		}
		if state, err := savedIn(filepath.Join(d.dir, "two")); err != nil || state.Token != before {
			t.Errorf("its file holds %+v (%v), want %s as before", state, err, before)
		}
		d.unlock()
		if again := c.agree("2"); again.Epoch <= now.Epoch {
			t.Errorf("it claims %s after %s", again, now)
		}
	})
}

// The room for a save is taken beforehand: what has a state file claims and starts on
// a full disk, and saves each time.
func TestAFullDiskStopsNobodyWhoHasAStateFile(t *testing.T) {
	virtually(t, func(t *testing.T) {
		d := newDisk(t)
		dir := filepath.Join(d.dir, "two")
		c := newVirtualCluster(t, 2)
		c.start("1")
		two := c.start("2", func(cfg *Config) { cfg.DataDir = dir })
		c.agree("2")
		d.fill()
		if err := two.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.agree("1")
		c.kill("1")
		token := c.agree("2")
		if err := c.nodes["2"].Close(); err != nil {
			t.Error(err)
		}
		c.kill("2")
		if state, err := savedIn(dir); err != nil || state.Token != token {
			t.Errorf("its file holds %+v (%v), want %s", state, err, token)
		}
		c.rebind("2")
		c.start("2", func(cfg *Config) { cfg.DataDir = dir })
		if again := c.agree("2"); again.Epoch <= token.Epoch {
			t.Errorf("it claims %s after %s", again, token)
		}
	})
}

// A list that outgrows the state file is not saved on a full disk. The member leads on and starts again
// there, with the list that it has saved; the whole list is saved once there is room.
func TestAListThatDoesNotFitIsSavedOnceThereIsRoom(t *testing.T) {
	virtually(t, func(t *testing.T) {
		d := newDisk(t)
		withDisk := func(cfg *Config) { cfg.DataDir = filepath.Join(d.dir, "two") }
		c := newVirtualCluster(t, 2)
		one, two := c.start("1"), c.start("2", withDisk)
		token := c.agree("2")
		d.fill()
		const more = 100
		for i := range more {
			if err := one.AddMember(t.Context(), Peer{ID: ID(fmt.Sprint(100 + i)), Addr: fmt.Sprint("127.0.0.1:", 9100+i)}); err != nil {
				t.Fatal(err)
			}
		}
		refused := func() bool { return strings.Contains(statusOf(two).DiskError, "make room") }
		within(t, "the list does not fit", refused)
		if now := c.agree("2"); now != token {
			t.Errorf("%s leads after %s", now, token)
		}
		if err := two.Close(); err != nil {
			t.Error(err)
		}
		c.kill("2")
		c.agree("1")
		c.rebind("2")
		two = c.start("2", withDisk)
		within(t, "the list does not fit after a start", refused)
		c.agree("1")
		if state, err := savedIn(filepath.Join(d.dir, "two")); err != nil || len(state.Members) > more {
			t.Errorf("its file holds %d members, %v", len(state.Members), err)
		}
		if err := os.Remove(d.filler()); err != nil {
			t.Fatal(err)
		}
		c.agree("2")
		if state, err := savedIn(filepath.Join(d.dir, "two")); err != nil || len(state.Members) != more+2 {
			t.Errorf("its file holds %d members, %v; want %d", len(state.Members), err, more+2)
		}
	})
}

func TestADiskThatCannotBeWrittenIsRefusedAtStart(t *testing.T) {
	for name, test := range map[string]struct {
		begin  func(*disk)
		remedy string
		saved  bool // before
	}{
		"full disk":      {(*disk).fill, "make room", false},
		"read-only disk": {(*disk).lock, "mount that file system writable", true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDisk(t)
			dir := filepath.Join(d.dir, "data")
			if test.saved {
				saveTwice(t, dir)
			} else if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			test.begin(d)
			_, err := Start(t.Context(), Config{ID: "5", Listen: "127.0.0.1:0", DataDir: dir, Algorithm: bully.New()})
			if errors.Is(err, ErrConfig) || !strings.Contains(fmt.Sprint(err), dir) || !strings.Contains(fmt.Sprint(err), test.remedy) {
				t.Errorf("got %v, want an error of the machine that names %s and ends with: %s", err, dir, test.remedy)
			}
			if !test.saved {
				return
			}
			if state, err := savedIn(dir); err != nil || !equalStates(state, stateOf(7)) {
				t.Errorf("the file now holds %+v, %v", state, err)
			}
		})
	}
}

// slowStore is a disk on which a save takes as long as the test wants.
type slowStore struct {
	mu     sync.Mutex
	gate   chan struct{} // nil: saves are quick; else they wait until it is closed
	begun  chan struct{} // takes a value when a save waits
	stored election.State
}

func (s *slowStore) Load() (election.State, error) { return election.State{}, nil }

func (s *slowStore) Save(state election.State) error {
	s.mu.Lock()
	gate := s.gate
	s.mu.Unlock()
	if gate != nil {
		s.begun <- struct{}{}
		<-gate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored = state
	return nil
}

// stall makes saves wait until what it returns is called.
func (s *slowStore) stall() (release func()) {
	gate := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate = gate
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.gate = nil
		close(gate)
	})
}

// A save that takes far longer than T stops no heartbeat and no acknowledgement:
// nobody is suspected, whether the leader's disk is the slow one or a follower's.
func TestASlowDiskIsNotSuspected(t *testing.T) {
	for _, slow := range []ID{"3", "1"} {
		t.Run("member "+string(slow), func(t *testing.T) {
			virtually(t, func(t *testing.T) {
				c := newVirtualCluster(t, 4)
				known := c.members[:3]
				store := &slowStore{begun: make(chan struct{}, 16)}
				for _, id := range []ID{"1", "2", "3"} {
					c.start(id, func(cfg *Config) {
						cfg.Peers = known
						if id == slow {
							cfg.Store = store
						}
					})
				}
				token := c.agree("3")
				release := store.stall()
				defer release()
				if err := c.nodes[slow].AddMember(t.Context(), c.members[3]); err != nil {
					t.Fatal(err)
				}
				select {
				case <-store.begun:
				case <-time.After(patience):
					t.Fatal("nothing is saved")
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*c.nodes["1"].timeout)
				defer cancel()
				var watchers sync.WaitGroup
				for id, n := range c.nodes {
					watchers.Go(func() {
						for v := range n.Watch(ctx) {
							if v.Token != token {
								t.Errorf("while the save lasts member %s sees %+v", id, v)
							}
						}
					})
				}
				watchers.Wait()
				release()
				c.lists("1", "2", "3", "4")
			})
		})
	}
}

// brokenStore is a disk that can be read, and not written.
type brokenStore struct{ slowStore }

func (*brokenStore) Save(election.State) error {
	return &os.PathError{Op: "write", Path: "state", Err: unix.EIO}
}

// The first save fails: no algorithm starts, and none takes that for its configuration.
func TestADiskThatFailsIsRefusedAtStart(t *testing.T) {
	_, err := Start(t.Context(), Config{ID: "5", Listen: "127.0.0.1:0", DataDir: t.TempDir(), Store: &brokenStore{}, Algorithm: bully.New()})
	if !errors.Is(err, unix.EIO) || errors.Is(err, ErrConfig) {
		t.Errorf("got %v, want %v, and no %v", err, unix.EIO, ErrConfig)
	}
}

// hangs makes a file of addresses that cannot be read, as on the file system of a server that is down.
// Here the file is leased: a process that opens it waits for 45 s.
func hangs(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "members")
	if err := os.WriteFile(path, []byte("127.0.0.1:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	held, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { held.Close() }) // ends the lease
	if _, err := unix.FcntlInt(held.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skip("this file system has no leases:", err)
	}
	return path
}

// A file that hangs delays neither the start nor the end of a member by more than a lookup may take,
// and the member joins through another address meanwhile.
func TestAMemberJoinsThoughTheReadOfAFileHangs(t *testing.T) {
	c := newCluster(t, 1)
	c.start("1")
	began := time.Now()
	n, err := Start(t.Context(), Config{ID: "2", Listen: "0.0.0.0:0", Join: []string{"file:" + hangs(t), c.members[0].Addr}, Algorithm: bully.New(), Logger: testLog(t, "2")})
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 2*lookupTime {
		t.Errorf("it has started after %v", took)
	}
	within(t, "it joins", func() bool { return len(statusOf(n).Members) == 2 })
	began = time.Now()
	n.Close()
	if took := time.Since(began); took > lookupTime {
		t.Errorf("it has ended after %v", took)
	}
}

// The read of a file of security that hangs is left behind.
func TestANodeEndsThoughTheReadOfItsSecurityHangs(t *testing.T) {
	c := newCluster(t, 1)
	n := c.start("1")
	answers := make(chan struct{})
	defer close(answers)
	n.links.background(func(context.Context) { <-answers }) // as keepReloading would
	began := time.Now()
	n.Close()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it has ended after %v", took)
	}
}
