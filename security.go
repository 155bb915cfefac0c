package batuta

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/batuta-dev/batuta/internal/net/security"
	"github.com/batuta-dev/batuta/internal/net/transport"
)

// Security is how members authenticate to each other. With either proof they
// speak TLS 1.3, both ends verified. The zero value is no security: any client that reaches a
// member's port may pose as a member.
//
// All members must have the same; both a secret and certificates are believed while both
// are given, and Plain lets in members that have neither, so that a running cluster can
// change from secrets to certificates member by member (docs/security.md).
type Security struct {
	// SecretFile names a file with the cluster's secret, as "batuta secret new" prints it.
	// A process that has it may be any member. A second line may hold a second secret, which is
	// believed too; the first is preferred.
	SecretFile string

	// CertFile and KeyFile name this member's certificate and its key, CAFile the
	// authorities to trust, all in PEM form. A certificate must
	// name the member: by the URI batuta://CLUSTER/ID, or else by a DNS name or an IP
	// address that is the id. It must be good for servers and for clients.
	CertFile, KeyFile, CAFile string

	// TLS brings a service's own certificates instead of files, such as those of a SPIFFE
	// source: Certificates, or GetCertificate and GetClientCertificate, are shown;
	// RootCAs, VerifyPeerCertificate and VerifyConnection decide which peers are trusted. They must
	// name the member as those in files do.
	TLS *tls.Config

	// IDTemplate is a URI that certificates must have instead, in which {cluster} and
	// {id} are replaced: spiffe://example.org/batuta/{cluster}/{id}.
	IDTemplate string

	// Plain lets in members without TLS, and dials those that do not speak it as they
	// are: no security at all, for the time of a change.
	Plain bool
}

// CertificateLife is how long a certificate is good: the zero value where there is none.
type CertificateLife struct{ From, To time.Time }

// options are what s comes to.
func (s Security) options() security.Options {
	return security.Options{SecretFile: s.SecretFile, CertFile: s.CertFile, KeyFile: s.KeyFile, CAFile: s.CAFile,
		TLS: s.TLS, IDTemplate: s.IDTemplate, Plain: s.Plain}
}

// checkSecurity finds what is wrong with the files of Security.
func (c Config) checkSecurity() []error {
	o := c.Security.options()
	if c.Wire != nil && o.On() {
		return []error{config("security: this wire has no encryption in its protocol: leave Security out, and let only members reach its port")}
	}
	if err := o.Check(c.Cluster, string(c.ID)); err != nil {
		return []error{config("security: %w", err)}
	}
	return nil
}

// secure readies what proves this member.
func (n *Node) secure() error {
	s, err := security.New(n.cfg.Cluster, string(n.id), n.cfg.Security.options())
	if err != nil {
		return config("security: %w", err)
	}
	n.security = s
	return nil
}

// dialSecurity is that for the transport; nil without.
func (n *Node) dialSecurity() transport.Security {
	if n.security == nil {
		return nil
	}
	return n.security
}

// reloadEvery is how often the files of Security are looked at.
const reloadEvery = 5 * time.Second

// keepReloading reads the files of Security again when they change.
func (n *Node) keepReloading(ctx context.Context) {
	tick := time.NewTicker(reloadEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if n.security.Changed() {
				if err := n.Reload(ctx); err != nil {
					n.cfg.Logger.Error("the secret or the certificates cannot be read again: those read before stay in use; fix the files, and they are read again within 5 s", "error", err)
				}
			}
		case <-ctx.Done():
			return
		}
	}
}

// Reload reads the files of [Config.Security] again, as the node does by itself within
// 5 s of a change, and ends the connections to members that are not believed any more.
// With an error the secret or the certificates read before stay in use.
func (n *Node) Reload(ctx context.Context) error {
	if n.security == nil {
		return nil
	}
	n.security.Changed()
	if err := n.security.Reload(); err != nil {
		return config("security: %w", err)
	}
	n.cfg.Logger.Info("security: read again")
	return n.call(ctx, n.transport.Reassess)
}
