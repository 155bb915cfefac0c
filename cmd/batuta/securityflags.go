package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"strings"

	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/api/access"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/disk/datadir"
	"github.com/batuta-dev/batuta/internal/net/security"
)

// securityFlags are how members authenticate, and which clients may call the HTTP API.
type securityFlags struct {
	secretFile, tlsCert, tlsKey, tlsCA, idTemplate string
	insecure, allowPlain                           bool

	httpTokens, httpCert, httpKey, healthHTTP, httpAdvertise string
}

func (f *securityFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.secretFile, "secret-file", "", "`FILE` with the cluster's secret, as printed by 'batuta secret new'; of two lines both are accepted")
	fs.StringVar(&f.tlsCert, "tls-cert", "", "`FILE` with this member's certificate, which names it: batuta://CLUSTER/ID")
	fs.StringVar(&f.tlsKey, "tls-key", "", "`FILE` with the certificate's key")
	fs.StringVar(&f.tlsCA, "tls-ca", "", "`FILE` with the authorities that certificates are accepted from")
	fs.StringVar(&f.idTemplate, "tls-id-template", "", "`URI` that certificates have instead, such as spiffe://example.org/batuta/{cluster}/{id}")
	fs.BoolVar(&f.insecure, "insecure", false, "serve addresses beyond loopback to anyone, without a secret, certificates or tokens")
	fs.BoolVar(&f.allowPlain, "allow-plain", false, "with --secret-file or --tls-cert: accept members without TLS during a migration; no security meanwhile")
	fs.StringVar(&f.httpTokens, "http-token-file", "", "`FILE` of tokens for the HTTP API, one per line with its role: read, operate, or stand and names of elections")
	fs.StringVar(&f.httpCert, "http-tls-cert", "", "`FILE` with the HTTP API's certificate (default --tls-cert, else one made from the secret)")
	fs.StringVar(&f.httpKey, "http-tls-key", "", "`FILE` with the HTTP API's key")
	fs.StringVar(&f.httpAdvertise, "http-advertise", "", "`HOST:PORT` at which the other agents ask this one's HTTP API for the leaderships that it saw; published to all members")
	fs.StringVar(&f.healthHTTP, "health-http", "", "`HOST:PORT` that serves /leader, /healthz and /readyz (yes or no) and /metrics, without a token")
}

func (f *securityFlags) security() batuta.Security {
	return batuta.Security{SecretFile: f.secretFile, CertFile: f.tlsCert, KeyFile: f.tlsKey, CAFile: f.tlsCA,
		IDTemplate: f.idTemplate, Plain: f.allowPlain}
}

// on reports whether members have to prove themselves.
func (f *securityFlags) on() bool { return f.secretFile != "" || f.tlsCert != "" }

// check finds flags that do not go together, and addresses that strangers would reach.
func (f *securityFlags) check(a *agentFlags) error {
	if f.allowPlain && !f.on() {
		return cli.Usagef("--allow-plain: it goes with --secret-file or --tls-cert; leave it out, or add one of them")
	}
	if !f.on() && !f.insecure && !api.Loopback(a.listen) {
		if a.wire.name == "boss" {
			return cli.Usagef("--listen %s: other machines reach it, and the boss wire has no encryption in its protocol; let a firewall close the port to others, and add --insecure", a.listen)
		}
		return cli.Usagef("--listen %s: any process that reaches it could join; give --secret-file FILE ('batuta secret new > FILE' makes one), or --tls-cert, --tls-key and --tls-ca, or --insecure on a network without others", a.listen)
	}
	return cmp.Or(f.checkHTTPAdvertise(a), f.checkHTTP(a.http))
}

func (f *securityFlags) checkHTTPAdvertise(a *agentFlags) error {
	switch {
	case f.httpAdvertise == "":
	case election.CheckAddress(f.httpAdvertise) != nil:
		return cli.Usagef("--http-advertise %q is not HOST:PORT with a port of 1 to 65535, such as 10.0.0.5:7500: %w", f.httpAdvertise, election.CheckAddress(f.httpAdvertise))
	case a.http == "off" || strings.HasPrefix(a.http, "unix:"):
		return cli.Usagef("--http-advertise %s: --http %s is not reached there; give --http an address with a port", f.httpAdvertise, a.http)
	case a.wire.name == "boss":
		return cli.Usagef("--http-advertise: the boss wire has no place for it; leave it out")
	}
	return nil
}

// advertises adds the address of this agent's API to the metadata of its member.
func (f *securityFlags) advertises(http string, told map[string]string) map[string]string {
	if f.httpAdvertise == "" {
		return told
	}
	told = maps.Clone(told)
	if told == nil {
		told = map[string]string{}
	}
	scheme := "http://"
	if f.servesTLS(http) {
		scheme = "https://"
	}
	told[api.MetaHTTP] = scheme + f.httpAdvertise
	return told
}

// servesTLS reports whether the HTTP API has TLS.
func (f *securityFlags) servesTLS(http string) bool {
	at, _ := api.ParseAddress(http) // check has seen it
	return f.httpCert != "" || !at.Local() && f.on()
}

// membership authenticates agents that ask each other; nil: nothing does.
func (f *securityFlags) membership(cluster, id string) (*security.Security, error) {
	o := f.options()
	o.Plain = false
	return security.New(context.Background(), cluster, id, o)
}

func (f *securityFlags) options() security.Options {
	return security.Options(f.security())
}

// checkHTTP is of the flags about the API at addr, of any agent.
func (f *securityFlags) checkHTTP(addr string) error {
	if (f.httpCert == "") != (f.httpKey == "") {
		return cli.Usagef("--http-tls-cert and --http-tls-key go together: give both")
	}
	if f.healthHTTP != "" {
		if err := cli.CheckAddress("--health-http", f.healthHTTP); err != nil {
			return err
		}
	}
	if addr == "off" {
		return nil
	}
	at, err := api.ParseAddress(addr)
	switch {
	case err != nil:
		return cli.Usagef("--http %w", err)
	case f.httpTokens != "":
		if _, err := access.Load(f.httpTokens); err != nil {
			return cli.Usagef("--http-token-file: %w", err)
		}
	}
	switch {
	case f.httpCert != "":
		if _, err := security.LoadPair(f.httpCert, f.httpKey); err != nil {
			return cli.Usagef("--http-tls-cert: %w", err)
		}
	case at.Local() || f.insecure:
	case !f.on():
		return cli.Usagef("--http %s: other machines reach it; give it TLS (--http-tls-cert and --http-tls-key, or what proves members: --secret-file or --tls-cert) and --http-token-file, or listen on 127.0.0.1 or unix:PATH, or --insecure", addr)
	}
	if !at.Local() && !f.insecure && f.httpTokens == "" {
		return cli.Usagef("--http %s: other machines reach it; give --http-token-file FILE that holds 'TOKEN operate', or listen on 127.0.0.1 or unix:PATH, or --insecure", addr)
	}
	return nil
}

// serving is the TLS of the HTTP API; nil: it has none.
func (f *securityFlags) serving(cluster, id, addr string) (*security.Serving, error) {
	o := security.Options{SecretFile: f.secretFile, CertFile: cmp.Or(f.httpCert, f.tlsCert), KeyFile: cmp.Or(f.httpKey, f.tlsKey)}
	if !f.servesTLS(addr) {
		return nil, nil
	}
	return security.NewServing(cluster, id, o)
}

// warn logs at each start what unauthenticated clients can reach.
func (f *securityFlags) warn(a *agentRun) {
	if f.allowPlain {
		a.log.Warn("members without TLS are accepted (--allow-plain): leave that out once the change is complete")
	}
	if !f.on() && !api.Loopback(a.flags.listen) {
		a.log.Warn("insecure: any process that reaches the port may join, lead and remove members; give all members --secret-file", "listen", a.flags.listen)
	}
	if at, err := api.ParseAddress(a.flags.http); a.flags.http == "off" || err != nil || at.Local() {
		return
	}
	if f.httpTokens == "" {
		a.log.Warn("insecure: any process that reaches the HTTP API may make the leader resign and remove members; give --http-token-file", "http", a.flags.http)
	} else if !f.on() && f.httpCert == "" {
		a.log.Warn("insecure: tokens for the HTTP API are sent without encryption; give --http-tls-cert", "http", a.flags.http)
	}
}

// listenHealth opens the listener of --health-http; nil when there is none.
func (f *securityFlags) listenHealth() (net.Listener, error) {
	if f.healthHTTP == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", f.healthHTTP)
	if datadir.Failed(err) {
		return nil, cli.Exit(cli.Failed, fmt.Errorf("--health-http: %w", datadir.Remedy(err)))
	}
	if err != nil {
		return nil, cli.Usagef("--health-http: %w; choose a free port", err)
	}
	return cli.Bounded(l), nil
}
