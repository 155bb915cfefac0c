package main

import (
	"cmp"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/hashicorp/consul/api"
	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/engines/consul"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

type consulFlags struct {
	addr, ca, cert, key, token string // all but addr are files
}

func (f *consulFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.addr, "consul", "", "`HOST:PORT` of a Consul agent, such as 127.0.0.1:8500, https://HOST:PORT with TLS")
	fs.StringVar(&f.ca, "consul-ca", "", "`FILE` with the authorities to accept for Consul (default the system's)")
	fs.StringVar(&f.cert, "consul-cert", "", "`FILE` with a certificate for Consul")
	fs.StringVar(&f.key, "consul-key", "", "`FILE` with the key of that certificate")
	fs.StringVar(&f.token, "consul-token-file", "", "`FILE` with an ACL token, mode 0600; read again at each call (default CONSUL_HTTP_TOKEN_FILE, CONSUL_HTTP_TOKEN)")
}

func (f *consulFlags) extra() bool { return f.ca+f.cert+f.key+f.token != "" }

func (f *consulFlags) open(name string) (engines.Engine, error) {
	if strings.Contains(f.addr, "@") { // it is not printed: it may hold the token
		return nil, cli.Usagef("--consul: an address holds no user and no token; give --consul-token-file FILE")
	}
	address, secured := strings.CutPrefix(strings.TrimSuffix(f.addr, "/"), "https://")
	address = strings.TrimPrefix(address, "http://")
	if err := election.CheckAddress(address); err != nil {
		return nil, cli.Usagef("--consul %q: %w", f.addr, err)
	}
	if f.ca+f.cert+f.key != "" && !secured {
		return nil, cli.Usagef("--consul %s: certificates are given; write https://%s", f.addr, address)
	}
	certificates, err := clientTLS("consul", f.ca, f.cert, f.key)
	if err != nil {
		return nil, err
	}
	transport := consulTransport{plainHTTP(certificates), cmp.Or(f.token, os.Getenv(api.HTTPTokenFileEnvName))}
	config := api.Config{Address: address, Scheme: "http", HttpClient: &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}} // a token goes to no different server
	if secured {
		config.Scheme = "https"
	}
	flags := "no --consul-token-file is given"
	if transport.token != "" {
		flags = "--consul-token-file"
		if f.token == "" {
			flags = api.HTTPTokenFileEnvName
		}
		if _, err := readPassword(transport.token); err != nil {
			return nil, cli.Usagef("%s: %w", flags, err)
		}
	}
	c, err := api.NewClient(&config)
	if err != nil {
		return nil, cli.Usagef("--consul: %w", err)
	}
	return held{consul.New(c, consul.Prefix+consulName.Replace(escape(name))), func() error { transport.CloseIdleConnections(); return nil }, flags, nil}, nil
}

// consulName makes what escape gives a key: from 1.21.5 on, Consul takes a comma, but no percent sign and no plus.
var consulName = strings.NewReplacer("%", ",", "+", ",20", "~", ",7E")

// longestAnswer is how many bytes of an answer are read. A value of Consul's has 512 KiB at most, in base64.
const longestAnswer = 1 << 20

// consulTransport gives each request the token of a file, if there is a file, and bounds the answer.
type consulTransport struct {
	*http.Transport
	token string
}

// RoundTrip implements http.RoundTripper.
func (t consulTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.token != "" {
		token, err := readPassword(t.token)
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Header.Set("X-Consul-Token", token)
	}
	answer, err := t.Transport.RoundTrip(r)
	if err == nil {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(answer.Body, longestAnswer), answer.Body}
	}
	return answer, err
}
