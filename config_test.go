package batuta

import (
	"context"
	"errors"
	"math"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election/bully"
)

func TestFaultsOfAConfigAreAllToldAtOnce(t *testing.T) {
	member := func(id, addr string) Peer { return Peer{ID: ID(id), Addr: addr} }
	for _, test := range []struct {
		what  string
		c     Config
		wants []string
	}{
		{"nothing", Config{}, []string{"no algorithm"}},
		{"times", Config{Heartbeat: -time.Second, TMax: -1, TProcess: time.Second}, []string{"no algorithm", "heartbeat -1s", "t-max -1ns"}},
		{"heartbeat", Config{Heartbeat: time.Second}, []string{"heartbeat 1s is not below T = 2·t_max + t_process = 600ms"}},
		{"times at which a loop does nothing but wake", Config{Heartbeat: 1, TMax: time.Microsecond, TProcess: time.Microsecond},
			[]string{"heartbeat 1ns: give 1ms to 24h", "t-max 1µs: give", "t-process 1µs: give"}},
		{"times whose sum overflows", Config{TMax: math.MaxInt64, TProcess: 1 << 62}, []string{"t-max 2562047h47m16.854775807s: give 1ms to 24h", "t-process 1281023h"}},
		{"addresses", Config{Listen: "7400", Advertise: "host:0"}, []string{`listen address "7400"`, `advertised address "host:0"`}},
		{"id", Config{ID: "a b"}, []string{`id "a b"`}},
		{"an id that does not print", Config{ID: "a\u200bb"}, []string{`id "a\u200bb"`, "print"}},
		{"names", Config{Cluster: "a\x1b[31m", Election: "a\u202eb"}, []string{`cluster name "a\x1b[31m"`, `election name "a\u202eb"`}},
		{"addresses that steer", Config{Listen: "\x1b[31m:7400", Advertise: "$(touch x):1", Join: []string{"a b:1"}},
			[]string{`listen address "\x1b[31m:7400"`, `advertised address "$(touch x):1"`, `join through "a b:1"`}},
		{"a member's address", Config{ID: "1", Peers: []Peer{member("2", "a;b:1")}}, []string{`address "a;b:1" of member 2`}},
		{"an algorithm's name", Config{Algorithm: renamed{bully.New(), "\x1b[31m"}}, []string{`algorithm name "\x1b[31m"`}},
		{"too many bytes", Config{ID: "0", Peers: crowd(2000, 255)}, []string{"member list is full"}},
		{"mixed kinds", Config{ID: "1", Peers: []Peer{member("two", "127.0.0.1:7402")}}, []string{"id two is of another kind (name) than 1 (integer)"}},
		{"twice", Config{ID: "1", Peers: []Peer{member("2", "a:1"), member("02", "b:1")}}, []string{"member 2 is in the list twice"}},
		{"one address", Config{ID: "1", Peers: []Peer{member("2", "127.0.0.1:1"), member("3", "localhost:1")}}, []string{"members 2 and 3 have one address"}},
		{"own address", Config{ID: "1", Peers: []Peer{member("2", "127.0.0.1:7400")}}, []string{"this member's own (id 1)"}},
		{"everywhere, and nobody to learn from where it is reached", Config{Listen: "0.0.0.0:7400"}, []string{"Config.Advertise"}},
		{"everywhere, as advertised", Config{Advertise: "[::]:7400"}, []string{"every address of a machine"}},
		{"everywhere, as another's", Config{ID: "1", Peers: []Peer{member("2", "0.0.0.0:7400")}}, []string{"every address of a machine"}},
		{"own address, everywhere", Config{ID: "1", Listen: ":7400", Peers: []Peer{member("2", "127.0.0.1:7400")}}, []string{"this member's own (id 1)"}},
		{"no address", Config{ID: "1", Peers: []Peer{member("2", "")}}, []string{`address "" of member 2`}},
	} {
		t.Run(test.what, func(t *testing.T) {
			err := test.c.Validate()
			if !errors.Is(err, ErrConfig) {
				t.Fatalf("got %v", err)
			}
			for _, want := range test.wants {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
	good := Config{ID: "1", Algorithm: bully.New(), Peers: []Peer{member("1", "127.0.0.1:7400"), member("2", "127.0.0.1:7402")}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}

// named is an algorithm with another name.
type renamed struct {
	Algorithm
	name string
}

func (n renamed) Name() string { return n.name }

// crowd is n members with addresses so long.
func crowd(n, length int) (list []Peer) {
	for i := range n {
		host := strings.Repeat("a.", (length-6)/2) + "a"
		list = append(list, Peer{ID: ID(strconv.Itoa(i + 1)), Addr: host + ":" + strconv.Itoa(10000+i)})
	}
	return list
}

func TestABusyPortIsRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = Start(t.Context(), Config{ID: "1", Listen: l.Addr().String(), Algorithm: bully.New()})
	if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("got %v", err)
	}
}

// At boot a network may be configured after the service has started: a restart finds the address.
func TestAnAddressThatThisMachineHasNotYetIsNoWrongConfiguration(t *testing.T) {
	_, err := Start(t.Context(), Config{ID: "1", Listen: "192.0.2.1:0", Advertise: "192.0.2.1:7400", Algorithm: bully.New()})
	if err == nil || errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "192.0.2.1:0") || !strings.Contains(err.Error(), "an address of this machine") {
		t.Errorf("got %v", err)
	}
}

func TestAGeneratedIDMustBeOfTheOthersKind(t *testing.T) {
	_, err := Start(t.Context(), Config{Listen: "127.0.0.1:0", Algorithm: bully.New(),
		Peers: []Peer{{ID: "2", Addr: "127.0.0.1:7402"}}})
	if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "another kind") {
		t.Errorf("got %v", err)
	}
}

// What no cluster accepts as an argument is an error about the configuration, of each method.
func TestAnArgumentThatIsNone(t *testing.T) {
	virtually(t, func(t *testing.T) {
		c := newVirtualCluster(t, 1)
		n := c.start("1")
		c.agree("1")
		own, other, bad := n.Election(DefaultElection), n.Election("jobs"), n.Election("")
		for of, f := range map[string]func(ctx context.Context, id ID) error{
			"AddMember":         func(ctx context.Context, id ID) error { return n.AddMember(ctx, Peer{ID: id, Addr: "10.0.0.2:7400"}) },
			"SetPriority":       func(ctx context.Context, id ID) error { return n.SetPriority(ctx, id, 1) },
			"RemoveMember":      n.RemoveMember,
			"ForceRemoveMember": n.ForceRemoveMember,
			"Transfer":          n.Transfer,
			"own Transfer":      own.Transfer,
			"Election.Transfer": other.Transfer,
			"StepDown":          own.StepDown,
			"Drain":             func(ctx context.Context, id ID) error { return n.Drain(ctx, id, false) },
			"Undrain":           n.Undrain,
		} {
			if err := f(t.Context(), "\x1b"); !errors.Is(err, ErrConfig) {
				t.Errorf("%s: %v", of, err)
			}
		}
		for of, err := range map[string]error{
			"an address":         n.AddMember(t.Context(), Peer{ID: "2"}),
			"another kind of id": n.AddMember(t.Context(), Peer{ID: "two", Addr: "10.0.0.2:7400"}),
			"its own id":         n.AddMember(t.Context(), Peer{ID: "1", Addr: "10.0.0.2:7400"}),
			"every address":      n.AddMember(t.Context(), Peer{ID: "2", Addr: "0.0.0.0:7400"}),
			"its own address":    n.AddMember(t.Context(), Peer{ID: "2", Addr: c.members[0].Addr}),
			"metadata":           n.SetMeta(t.Context(), map[string]string{"": ""}),
			"more metadata":      n.MergeMeta(t.Context(), map[string]string{"": "x"}),
			"a length":           n.Pause(t.Context(), -1),
			"a function":         n.Lead(t.Context(), nil),
			"functions":          n.LeadEach(t.Context(), []*Election{other}, nil),
			"elections":          n.LeadEach(t.Context(), []*Election{own}, nil),
			"its function":       other.Lead(t.Context(), nil),
			"a name":             bad.Lead(t.Context(), func(context.Context, Leadership) error { return nil }),
			"a step down":        other.StepDown(t.Context(), ""),
		} {
			if !errors.Is(err, ErrConfig) {
				t.Errorf("%s: %v", of, err)
			}
		}
	})
}
