package main

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"time"

	client "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/redis"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

type redisFlags struct {
	addr, ca, user, password string // ca and password are files
}

func (f *redisFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.addr, "redis", "", "`HOST:PORT` of one Redis server that no replica replaces, rediss://HOST:PORT with TLS")
	fs.StringVar(&f.ca, "redis-ca", "", "`FILE` with the authorities to accept for Redis (default the system's)")
	fs.StringVar(&f.user, "redis-user", "", "`NAME` of the user for Redis (default the user \"default\")")
	fs.StringVar(&f.password, "redis-password-file", "", "`FILE` with its password, mode 0600; read again at each connection")
}

func (f *redisFlags) extra() bool { return f.ca+f.user+f.password != "" }

// open gives the engine for candidates with that lease, 0 to read only.
func (f *redisFlags) open(election string, lease time.Duration) (engines.Engine, error) {
	if strings.Contains(f.addr, "@") { // it is not printed: it may hold the password
		return nil, cli.Usagef("--redis: an address holds no user and no password; give --redis-user NAME and --redis-password-file FILE")
	}
	addr, secured := strings.CutPrefix(f.addr, "rediss://")
	addr = strings.TrimPrefix(addr, "redis://")
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, cli.Usagef("--redis %s: give HOST:PORT", f.addr)
	}
	client.SetLogger(silent{}) // the calls report it
	options := &client.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1, DialTimeout: 2 * time.Second, PoolSize: 4, ContextTimeoutEnabled: true, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}}
	flags := "no --redis-user and --redis-password-file are given"
	if f.user != "" && f.password == "" {
		return nil, cli.Usagef("--redis-user goes with --redis-password-file: give both")
	}
	if f.password != "" {
		if _, err := readPassword(f.password); err != nil {
			return nil, cli.Usagef("--redis-password-file: %w", err)
		}
		options.CredentialsProviderContext = func(context.Context) (string, string, error) {
			password, err := readPassword(f.password)
			return f.user, password, err
		}
		if flags = "--redis-password-file"; f.user != "" {
			flags = "--redis-user " + f.user + ", --redis-password-file"
		}
	}
	if f.ca != "" && !secured {
		return nil, cli.Usagef("--redis %s: --redis-ca is given; write rediss://%s", f.addr, addr)
	}
	if secured {
		roots, err := authorities("--redis-ca", f.ca)
		if err != nil {
			return nil, err
		}
		options.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: host}
	}
	c := client.NewClient(options)
	return held{redis.New(c, redis.Prefix+election, lease), c.Close, flags, nil}, nil
}

// silent has the client write no log.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
