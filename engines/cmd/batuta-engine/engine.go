package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/etcd"
	"github.com/batuta-dev/batuta/engines/kubernetes"
	"github.com/batuta-dev/batuta/engines/postgres"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/net/security"
)

// engineFlags name the engine, and the election on it.
type engineFlags struct {
	etcd                      []string
	etcdCA, etcdCert, etcdKey string
	etcdUser, etcdPassword    string // the password's file
	postgres                  string
	kubernetes, kubeconfig    string
	nats                      natsFlags
	redis                     redisFlags
	mysql                     mysqlFlags
	s3                        s3Flags
	consul                    consulFlags
	lease                     time.Duration // of a candidate
	election                  string
}

func (f *engineFlags) register(fs *pflag.FlagSet) {
	cli.ListVar(fs, &f.etcd, "etcd", "`HOST:PORT` of an etcd server, https://HOST:PORT with TLS; repeatable")
	fs.StringVar(&f.etcdCA, "etcd-ca", "", "`FILE` with the authorities to accept for etcd (default the system's)")
	fs.StringVar(&f.etcdCert, "etcd-cert", "", "`FILE` with a certificate for etcd")
	fs.StringVar(&f.etcdKey, "etcd-key", "", "`FILE` with the key of that certificate")
	fs.StringVar(&f.etcdUser, "etcd-user", "", "`NAME` of the user for etcd, with readwrite permission on the keys under "+etcd.Prefix+"ELECTION/ (read for status, leader and watch)")
	fs.StringVar(&f.etcdPassword, "etcd-password-file", "", "`FILE` with its password, mode 0600; read again at each login")
	fs.StringVar(&f.postgres, "postgres", "", "`URL` of PostgreSQL, such as postgres://user@host/database; the password from PGPASSWORD or ~/.pgpass")
	fs.StringVar(&f.kubernetes, "kubernetes", "", "`NAMESPACE` of the Lease that has the name of the election")
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "`FILE` that describes how to reach Kubernetes (default what a pod is given)")
	f.nats.register(fs)
	f.redis.register(fs)
	f.mysql.register(fs)
	f.s3.register(fs)
	f.consul.register(fs)
	fs.StringVar(&f.election, "election", "default", "`NAME` of the election; processes with the same name elect one leader")
}

// held is an engine that closes its client with it, and names the flags in what the engine refuses.
type held struct {
	engines.Engine
	closeClient func() error
	flags       string // with the credentials
	refused     func() // at a refusal; nil: nothing is to be done
}

// Close implements [engines.Engine].
func (h held) Close() error { return errors.Join(h.Engine.Close(), h.closeClient()) }

func (h held) named(err error) error {
	if h.flags != "" && errors.Is(err, engines.ErrDenied) {
		if h.refused != nil {
			h.refused()
		}
		return fmt.Errorf("%s: %w", h.flags, err)
	}
	return err
}

// Look implements [engines.Engine].
func (h held) Look(ctx context.Context) (engines.Record, error) {
	r, err := h.Engine.Look(ctx)
	return r, h.named(err)
}

// Claim implements [engines.Engine].
func (h held) Claim(ctx context.Context, seen, mine engines.Record) (engines.Record, error) {
	r, err := h.Engine.Claim(ctx, seen, mine)
	return r, h.named(err)
}

// Renew implements [engines.Engine].
func (h held) Renew(ctx context.Context, mine engines.Record) (engines.Record, error) {
	r, err := h.Engine.Renew(ctx, mine)
	return r, h.named(err)
}

// Release implements [engines.Engine].
func (h held) Release(ctx context.Context, mine engines.Record) error {
	return h.named(h.Engine.Release(ctx, mine))
}

// check gives an error if the engine would refuse a candidate with these flags. An engine without a check gives none.
func (h held) check(ctx context.Context) error {
	checked, ok := h.Engine.(interface{ Check(context.Context) error })
	if !ok {
		return nil
	}
	return h.named(checked.Check(ctx))
}

// readPassword reads a file with a password, which may have changed.
func readPassword(file string) (string, error) {
	text, err := security.ReadPrivate(file)
	if err != nil {
		return "", err
	}
	password := strings.TrimRight(string(text), "\r\n")
	if password == "" {
		return "", fmt.Errorf("%s is empty: write the password into it", file)
	}
	return password, nil
}

// authorities reads the file that a flag names; nil without a file: those of the system.
func authorities(flag, file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, cli.Usagef("%s: %w", flag, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, cli.Usagef("%s %s: no certificate is in it", flag, file)
	}
	return pool, nil
}

// clientTLS is what the flags of an engine give for TLS.
func clientTLS(engine, ca, cert, key string) (*tls.Config, error) {
	flag := "--" + engine
	roots, err := authorities(flag+"-ca", ca)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	if (cert == "") != (key == "") {
		return nil, cli.Usagef("%s-cert and %s-key go together: give both", flag, flag)
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, cli.Usagef("%s-cert, %s-key: %w", flag, flag, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// plainHTTP speaks HTTP/1.1: a request that is late ends its connection.
func plainHTTP(certificates *tls.Config) *http.Transport {
	return &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 2 * time.Second}).DialContext, TLSHandshakeTimeout: 2 * time.Second,
		IdleConnTimeout: time.Minute, TLSClientConfig: certificates}
}

// escape gives a name without . and /: it is no key of another election, and no path.
func escape(election string) string { return strings.ReplaceAll(url.QueryEscape(election), ".", "%2E") }

// admitted gives the error of check when the engine refuses access. An engine that does not answer within [askTime] may
// admit this process later.
func admitted(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if err := check(ctx); errors.Is(err, engines.ErrDenied) {
		return err
	}
	return nil
}

// open gives the engine that the flags name. It does not wait for it to answer.
func (f *engineFlags) open() (engines.Engine, error) {
	if f.election == "" || len(f.election) > 200 || !utf8.ValidString(f.election) || strings.ContainsFunc(f.election, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return nil, cli.Usagef("--election %q: a name has 1 to 200 bytes of UTF-8, and no control characters", f.election)
	}
	var opened []func() (engines.Engine, error)
	for _, e := range []struct {
		flag         string
		given, extra bool // whether flags are given that go with it
		open         func() (engines.Engine, error)
	}{
		{"--consul", f.consul.addr != "", f.consul.extra(), func() (engines.Engine, error) { return f.consul.open(f.election) }},
		{"--etcd", len(f.etcd) > 0, f.etcdUser+f.etcdPassword != "", f.openEtcd},
		{"--kubernetes", f.kubernetes != "", false, f.openKubernetes},
		{"--postgres", f.postgres != "", false, f.openPostgres},
		{"--nats", len(f.nats.urls) > 0, f.nats.extra(), func() (engines.Engine, error) { return f.nats.open(f.election) }},
		{"--redis", f.redis.addr != "", f.redis.extra(), func() (engines.Engine, error) { return f.redis.open(f.election, f.lease) }},
		{"--mysql", f.mysql.url != "", f.mysql.extra(), func() (engines.Engine, error) { return f.mysql.open(f.election, f.lease) }},
		{"--s3", f.s3.url != "", f.s3.extra(), func() (engines.Engine, error) { return f.s3.open(f.election) }},
	} {
		if e.given {
			opened = append(opened, e.open)
		} else if e.extra {
			return nil, cli.Usagef("flags that begin with %s- go with %s: leave them out", e.flag, e.flag)
		}
	}
	if len(opened) != 1 {
		return nil, cli.Usagef("%d engines are given: give exactly one of --consul, --etcd, --kubernetes, --mysql, --nats, --postgres, --redis and --s3", len(opened))
	}
	return opened[0]()
}

func (f *engineFlags) openPostgres() (engines.Engine, error) {
	config, err := pgxpool.ParseConfig(f.postgres)
	if err != nil {
		return nil, cli.Usagef("--postgres: %w", err)
	}
	config.MaxConns = 3
	if config.ConnConfig.ConnectTimeout == 0 { // or a server that does not answer would keep those that follow it in the URL from being asked
		config.ConnConfig.ConnectTimeout = 2 * time.Second
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, cli.Usagef("--postgres: %w", err)
	}
	return held{postgres.New(pool, f.election), func() error { pool.Close(); return nil }, "", nil}, nil
}

func (f *engineFlags) openKubernetes() (engines.Engine, error) {
	if faults := validation.IsDNS1123Subdomain(f.election); len(faults) > 0 {
		return nil, cli.Usagef("--election %q: it names a Lease: %s", f.election, faults[0])
	}
	config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return nil, cli.Usagef("--kubernetes: outside of a pod give --kubeconfig FILE: %w", err)
	}
	// An election asks as often as its lease requires; client-go would delay more than five requests a second.
	config.QPS = -1
	// Under HTTP/2 all requests share a connection, and for 45 s go on doing so when no answer comes
	// back on it. Under HTTP/1.1 a request without an answer in time ends its connection, and the next request
	// may reach a different server.
	config.NextProtos = []string{"http/1.1"}
	client, err := coordination.NewForConfig(config)
	if err != nil {
		return nil, cli.Usagef("--kubernetes: %w", err)
	}
	nothing := func() error { return nil }
	return held{kubernetes.New(client.Leases(f.kubernetes), f.election), nothing, "--kubernetes " + f.kubernetes, nil}, nil
}
