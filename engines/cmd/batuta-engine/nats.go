package main

import (
	"crypto/tls"
	"strings"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/nats"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

type natsFlags struct {
	urls                              []string
	bucket, ca, creds, user, password string // ca, creds and password are files
	replicas                          int
}

func (f *natsFlags) register(fs *pflag.FlagSet) {
	cli.ListVar(fs, &f.urls, "nats", "`URL` of a NATS server with JetStream, such as nats://host:4222, tls://host:4222 with TLS; repeatable")
	fs.StringVar(&f.bucket, "nats-bucket", nats.Bucket, "`NAME` of the bucket that keeps the elections; it is created if it is missing")
	fs.IntVar(&f.replicas, "nats-replicas", 1, "`N` servers keep a bucket that is created")
	fs.StringVar(&f.ca, "nats-ca", "", "`FILE` with the authorities to accept for NATS (default the system's)")
	fs.StringVar(&f.creds, "nats-creds", "", "`FILE` with credentials for NATS, as nsc writes it; read again at each connection")
	fs.StringVar(&f.user, "nats-user", "", "`NAME` of the user for NATS")
	fs.StringVar(&f.password, "nats-password-file", "", "`FILE` with its password, mode 0600, or with a token if there is no --nats-user; read again at each connection")
}

func (f *natsFlags) extra() bool {
	return f.ca+f.creds+f.user+f.password != "" || f.bucket != "" && f.bucket != nats.Bucket || f.replicas > 1
}

func (f *natsFlags) open(election string) (engines.Engine, error) {
	for _, url := range f.urls {
		if strings.Contains(url, "@") { // it is not printed: it may hold the password
			return nil, cli.Usagef("--nats: a URL holds no user, password or token; give --nats-user NAME and --nats-password-file FILE")
		}
	}
	options := []client.Option{client.RetryOnFailedConnect(true), client.MaxReconnects(-1), client.ReconnectWait(200 * time.Millisecond), client.IgnoreAuthErrorAbort(),
		client.ReconnectBufSize(-1), client.PingInterval(2 * time.Second), client.MaxPingsOutstanding(1), client.Timeout(2 * time.Second), client.Name("batuta-engine"),
		client.ErrorHandler(func(*client.Conn, *client.Subscription, error) {})} // the calls report it
	flags := "no --nats-user, --nats-password-file or --nats-creds is given"
	switch {
	case f.creds != "" && f.user+f.password != "":
		return nil, cli.Usagef("--nats-creds goes without --nats-user and --nats-password-file: give one or the other")
	case f.user != "" && f.password == "":
		return nil, cli.Usagef("--nats-user goes with --nats-password-file: give both")
	case f.creds != "":
		if _, err := readPassword(f.creds); err != nil {
			return nil, cli.Usagef("--nats-creds: %w", err)
		}
		flags, options = "--nats-creds "+f.creds, append(options, client.UserCredentials(f.creds))
	case f.password != "":
		if _, err := readPassword(f.password); err != nil {
			return nil, cli.Usagef("--nats-password-file: %w", err)
		}
		read := func() string { // at each connection: without it NATS refuses the connection
			password, _ := readPassword(f.password)
			return password
		}
		if flags = "--nats-password-file"; f.user == "" {
			options = append(options, client.TokenHandler(read))
		} else {
			flags = "--nats-user " + f.user + ", --nats-password-file"
			options = append(options, client.UserInfoHandler(func() (string, string) { return f.user, read() }))
		}
	}
	if f.ca != "" {
		roots, err := authorities("--nats-ca", f.ca)
		if err != nil {
			return nil, err
		}
		options = append(options, client.Secure(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}))
	}
	bucket := jetstream.KeyValueConfig{Bucket: f.bucket, Replicas: f.replicas}
	if f.bucket == "" || strings.ContainsFunc(f.bucket, func(r rune) bool { return !strings.ContainsRune(letters, r) }) {
		return nil, cli.Usagef("--nats-bucket %q: a name has letters, digits, - and _ only", f.bucket)
	}
	conn, err := client.Connect(strings.Join(f.urls, ","), options...)
	if err != nil {
		return nil, cli.Usagef("--nats: %w", err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	return held{nats.New(js, bucket, election), func() error { conn.Close(); return nil }, flags, nil}, nil
}

// letters are those of a bucket's name.
const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
