package security

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// protocolCertificates is the ALPN name by which two ends agree on certificates.
const protocolCertificates = "batuta/1"

// certificates are issued by an external authority: in files, or a service's own.
type certificates struct {
	naming
	pools []*x509.CertPool // the trusted authorities; none: the service's own check decides
	life  Life
	serve func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	dial  func(*tls.CertificateRequestInfo) (*tls.Certificate, error)
}

func (s *Security) loadCertificates() (*certificates, error) {
	a := &certificates{naming: naming{s.cluster, s.options.IDTemplate}}
	if s.options.TLS != nil {
		return a, a.bring(s.options.TLS)
	}
	pair, err := LoadPair(s.options.CertFile, s.options.KeyFile)
	if err != nil {
		return nil, err
	}
	pool, err := LoadPool(s.options.CAFile)
	if err != nil {
		return nil, err
	}
	a.pools = []*x509.CertPool{pool}
	a.serve = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair, nil }
	a.dial = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair, nil }
	if err := a.own(pair, s.id); err != nil {
		return nil, fmt.Errorf("%s: %w", s.options.CertFile, err)
	}
	return a, nil
}

// own checks that peers would accept this member's certificate, and returns the reason if not.
func (a *certificates) own(pair *tls.Certificate, id string) error {
	if id != "" && !a.proves(pair.Leaf, id) {
		return fmt.Errorf("it is for %s, not for member %s of cluster %q: it must name %s", names(pair.Leaf), id, a.cluster, a.wanted(id))
	}
	certs := []*x509.Certificate{pair.Leaf}
	for _, raw := range pair.Certificate[1:] {
		c, err := x509.ParseCertificate(raw)
		if err != nil {
			return err
		}
		certs = append(certs, c)
	}
	by, err := chains(a.pools[0], certs, x509.VerifyOptions{CurrentTime: time.Now()})
	a.life = lifeOf(by)
	return err
}

func (n naming) wanted(id string) string {
	if n.template != "" {
		return n.uri(n.template, id)
	}
	return n.uri(DefaultTemplate, id)
}

// bring takes over a service's own configuration.
func (a *certificates) bring(own *tls.Config) error {
	for _, pool := range []*x509.CertPool{own.RootCAs, own.ClientCAs} {
		if pool != nil {
			a.pools = append(a.pools, pool)
		}
	}
	switch {
	case len(a.pools) == 0 && own.VerifyPeerCertificate == nil && own.VerifyConnection == nil:
		return errors.New("the TLS configuration trusts no certificate: set RootCAs, or VerifyPeerCertificate")
	case len(own.Certificates) == 0 && (own.GetCertificate == nil || own.GetClientCertificate == nil):
		return errors.New("the TLS configuration has no certificate to show at both ends: set Certificates, or GetCertificate and GetClientCertificate")
	}
	a.serve, a.dial = own.GetCertificate, own.GetClientCertificate
	if len(own.Certificates) > 0 {
		first := &own.Certificates[0]
		if a.serve == nil {
			a.serve = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return first, nil }
		}
		if a.dial == nil {
			a.dial = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return first, nil }
		}
	}
	return nil
}

func (a *certificates) protocol() string { return protocolCertificates }

func (a *certificates) serving(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return a.serve(hello)
}

func (a *certificates) dialing(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return a.dial(asked)
}

func (a *certificates) owner(leaf *x509.Certificate) string {
	return names(leaf) + " by its certificate"
}

func (a *certificates) believes(certs []*x509.Certificate, now time.Time) (err error) {
	for _, pool := range a.pools {
		if err = chain(pool, certs, x509.VerifyOptions{CurrentTime: now}); err == nil {
			return nil
		}
	}
	return err
}
