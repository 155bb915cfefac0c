package main

import (
	"net"
	"net/http"
	"strings"

	"github.com/hashicorp/consul/api"
	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/consul"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

type consulFlags struct {
	addr, ca, cert, key, token string // all but addr are files
}

func (f *consulFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.addr, "consul", "", "`host:port` of a Consul agent, such as 127.0.0.1:8500, https://host:port with TLS")
	fs.StringVar(&f.ca, "consul-ca", "", "`file` with the authorities to believe of Consul (default the system's)")
	fs.StringVar(&f.cert, "consul-cert", "", "`file` with a certificate for Consul")
	fs.StringVar(&f.key, "consul-key", "", "`file` with its key")
	fs.StringVar(&f.token, "consul-token-file", "", "`file` with an ACL token, mode 0600; read again at each call (default CONSUL_HTTP_TOKEN)")
}

func (f *consulFlags) extra() bool { return f.ca+f.cert+f.key+f.token != "" }

func (f *consulFlags) open(election string) (engines.Engine, error) {
	if strings.Contains(f.addr, "@") { // it is not printed: it may hold the token
		return nil, cli.Usagef("--consul: an address holds no user and no token; give --consul-token-file FILE")
	}
	address, secured := strings.CutPrefix(f.addr, "https://")
	address = strings.TrimPrefix(address, "http://")
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, cli.Usagef("--consul %s: give HOST:PORT", f.addr)
	}
	if f.ca+f.cert+f.key != "" && !secured {
		return nil, cli.Usagef("--consul %s: certificates are given; write https://%s", f.addr, address)
	}
	certificates, err := clientTLS("consul", f.ca, f.cert, f.key)
	if err != nil {
		return nil, err
	}
	transport := plainHTTP(certificates)
	config := api.Config{Address: address, Scheme: "http", HttpClient: &http.Client{Transport: transport}}
	if secured {
		config.Scheme = "https"
	}
	flags := "no --consul-token-file is given"
	if f.token != "" {
		if _, err := readPassword(f.token); err != nil {
			return nil, cli.Usagef("--consul-token-file: %w", err)
		}
		flags, config.HttpClient.Transport = "--consul-token-file", withToken{transport, f.token}
	}
	c, err := api.NewClient(&config)
	if err != nil {
		return nil, cli.Usagef("--consul: %w", err)
	}
	return held{consul.New(c, consul.Prefix+escape(election)), func() error { transport.CloseIdleConnections(); return nil }, flags, nil}, nil
}

// withToken gives each request the token of a file.
type withToken struct {
	http.RoundTripper
	file string
}

// RoundTrip implements http.RoundTripper.
func (t withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	token, err := readPassword(t.file)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("X-Consul-Token", token)
	return t.RoundTripper.RoundTrip(r)
}
