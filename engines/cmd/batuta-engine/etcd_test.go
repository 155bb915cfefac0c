package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/internal/enginetest"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/work/run/runtest"
)

// guardedEtcd is a real etcd with authentication. Each of its users has its name as the password: app may read and write what elections
// need, reader may read it, and stranger may do nothing.
type guardedEtcd struct {
	addr  string
	root  *clientv3.Client
	files string
}

func serveGuardedEtcd(t *testing.T) *guardedEtcd {
	t.Helper()
	g := &guardedEtcd{addr: enginetest.ServeEtcd(t, 1).Addrs[0], files: t.TempDir()}
	open, ctx := enginetest.DialEtcd(t, g.addr), t.Context()
	try := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	try(open.RoleAdd(ctx, "root"))
	for role, right := range map[string]clientv3.PermissionType{"app": clientv3.PermissionType(clientv3.PermReadWrite), "reader": clientv3.PermissionType(clientv3.PermRead)} {
		try(open.RoleAdd(ctx, role))
		try(open.RoleGrantPermission(ctx, role, "/batuta/default/", clientv3.GetPrefixRangeEnd("/batuta/default/"), right))
	}
	for _, user := range []string{"root", "app", "reader", "stranger"} {
		try(open.UserAdd(ctx, user, user))
		g.password(t, user, user)
		if user != "stranger" {
			try(open.UserGrantRole(ctx, user, user))
		}
	}
	try(open.AuthEnable(ctx))
	var err error
	g.root, err = clientv3.New(clientv3.Config{Endpoints: []string{g.addr}, Username: "root", Password: "root", Logger: zap.NewNop()})
	try(nil, err)
	t.Cleanup(func() { g.root.Close() })
	return g
}

// password writes the file of that name.
func (g *guardedEtcd) password(t *testing.T, name, password string) string {
	t.Helper()
	file := filepath.Join(g.files, name)
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// flags are those of a user, with the password in that file; none for "".
func (g *guardedEtcd) flags(addr, user, file string) []string {
	flags := []string{"--etcd", addr}
	if user != "" {
		flags = append(flags, "--etcd-user", user, "--etcd-password-file", filepath.Join(g.files, file))
	}
	return flags
}

// With a user, candidates elect a leader. When it is killed, its guard logs in too, and releases the leadership.
func TestEtcdUserElectsAndFailsOver(t *testing.T) {
	t.Parallel()
	g := serveGuardedEtcd(t)
	r := &runs{t: t, factory: runtest.NewFactory(t), lock: filepath.Join(t.TempDir(), "lock"),
		engine: place{g.addr, func(addr string) []string { return g.flags(addr, "app", "app") }}}
	r.start(time.Minute)
	_, epoch, leader := r.next(0)
	if code, said := ask(append([]string{"leader"}, g.flags(g.addr, "reader", "reader")...)...); code != cli.Done {
		t.Errorf("leader, of a user that may read, ends with %d: %s", code, said)
	}
	r.servers[leader].Kill()
	r.next(epoch)
}

// A name that differs from another by a slash at its end is a different election.
func TestEtcdNamesWithSlashes(t *testing.T) {
	t.Parallel()
	addr := serveEtcd(t).addr
	for _, name := range []string{"x", "x/", "x//", "x/leader", "/"} {
		enginetest.Leads(t, batuta.Token{}, candidateOf(t, engineFlags{etcd: []string{addr}, election: name}))
	}
}

// When etcd refuses a command at its start, the command ends with one sentence and exit code 1.
func TestEtcdRefusesAtTheStart(t *testing.T) {
	t.Parallel()
	g := serveGuardedEtcd(t)
	g.password(t, "wrong", "wrong")
	const noRight = "etcd denies the user the keys under /batuta/default/: grant one of its roles readwrite on that prefix"
	for _, c := range []struct{ user, file, want string }{
		{"", "", "no --etcd-user and --etcd-password-file are given: etcd requires a user and a password"},
		{"app", "wrong", "--etcd-user app, --etcd-password-file: etcd refuses the user or the password"},
		{"nobody", "app", "--etcd-user nobody, --etcd-password-file: etcd refuses the user or the password"},
		{"stranger", "stranger", noRight},
		{"reader", "reader", noRight},
	} {
		commands := all
		if c.user == "reader" {
			commands = candidacy // the rest only read
		}
		refused(t, c.want, commands, g.flags(g.addr, c.user, c.file)...)
	}
}

// A candidate that loses its permission reports that in its status, and leads again with the permission. A new password in the file is used.
func TestEtcdRefusesLater(t *testing.T) {
	t.Parallel()
	g := serveGuardedEtcd(t)
	flags := engineFlags{etcd: []string{g.addr}, etcdUser: "app", etcdPassword: filepath.Join(g.files, "app"), election: "default"}
	engine, err := flags.open()
	if err != nil {
		t.Fatal(err)
	}
	e := enginetest.Start(t, engine, engines.Config{ID: "1", StandAlways: true})
	leads := func(context.Context) error {
		if !e.IsLeader() {
			return fmt.Errorf("it does not: %q", statusOf(e).StandingWhy)
		}
		return nil
	}
	enginetest.Await(t, "it leads", leads)
	refused := func(sentence string) {
		t.Helper()
		enginetest.Await(t, "it is refused", func(context.Context) error {
			if why := statusOf(e).StandingWhy; e.IsLeader() || !strings.Contains(why, sentence) {
				return errors.New(why)
			}
			return nil
		})
	}
	if _, err := g.root.UserRevokeRole(t.Context(), "app", "app"); err != nil {
		t.Fatal(err)
	}
	refused("etcd denies the user the keys under /batuta/default/")
	if _, err := g.root.UserGrantRole(t.Context(), "app", "app"); err != nil {
		t.Fatal(err)
	}
	enginetest.Await(t, "it leads with its role again", leads)
	if _, err := g.root.UserChangePassword(t.Context(), "app", "new"); err != nil {
		t.Fatal(err)
	}
	refused("etcd refuses the user or the password")
	g.password(t, "app", "new")
	enginetest.Await(t, "it leads with the new password", leads)
}

// A user or a password in an address is refused, and is not printed. So is one flag without the other.
func TestEtcdUserFlagsAreWrong(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--etcd", "http://user:hidden@127.0.0.1:1"},
		{"--etcd", "https://127.0.0.1:1,https://user:hid,den@127.0.0.1:1"},
		{"--etcd", "user:hidden@127.0.0.1:1"},
		{"--etcd", "127.0.0.1:1", "--etcd-user", "user"},
		{"--etcd", "127.0.0.1:1", "--etcd-password-file", file},
		{"--etcd", "127.0.0.1:1", "--etcd-user", "user", "--etcd-password-file", file},
		{"--etcd", "127.0.0.1:1", "--etcd-user", "user", "--etcd-password-file", file + "-missing"},
		{"--postgres", "postgres://h/d", "--etcd-user", "user", "--etcd-password-file", file},
	} {
		for _, command := range [][]string{{"run"}, {"agent"}, {"status"}, {"leader"}, {"watch"}} {
			all := append(command, args...)
			if command[0] == "run" {
				all = append(all, "--", "true")
			}
			code, said := ask(all...)
			if code != cli.Usage || strings.Count(said, "\n") != 1 || strings.Contains(said, "hid") || !strings.Contains(said, "--etcd-") {
				t.Errorf("%q ends with %d: %s", all, code, said)
			}
		}
	}
}

// statusOf is what a member reports; the last, once it has ended.
func statusOf(n *engines.Election) batuta.Status {
	s, _ := n.Status(context.Background())
	return s
}
