package security

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
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
		return nil, fmt.Errorf("%s: %w", s.options.CertFile, s.options.issued(err))
	}
	return a, nil
}

// issued adds what to do to the error of this member's own certificate.
func (o Options) issued(err error) error {
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return fmt.Errorf("%w; issue it by an authority of %s, or add its authority to that file", err, o.CAFile)
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return fmt.Errorf("%w; issue another one, or set the clock of this machine", err)
	}
	return err
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

// DefaultTemplate is the URI in a member's certificate.
const DefaultTemplate = "batuta://{cluster}/{id}"

// memberUsage is what a member's certificate must be valid for: members dial each other, and a
// client's certificate makes no member.
var memberUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}

// naming maps ids to names in certificates.
type naming struct {
	cluster  string
	template string // of a URI; empty: any of the forms in this package
}

// uri returns the name of id by a template.
func (n naming) uri(template, id string) string {
	return strings.NewReplacer("{cluster}", url.PathEscape(n.cluster), "{id}", url.PathEscape(id)).Replace(template)
}

func checkTemplate(template string) error {
	if !strings.Contains(template, "{id}") {
		return fmt.Errorf("template %q has no {id}: write it as spiffe://example.org/batuta/{cluster}/{id}", template)
	}
	if _, err := url.Parse(strings.NewReplacer("{cluster}", "c", "{id}", "1").Replace(template)); err != nil {
		return fmt.Errorf("template %q makes no URI: %w", template, err)
	}
	return nil
}

// proves reports whether a certificate is for id. A certificate with batuta:// names is only for
// those ids, so that the addresses of its host in it name no further member.
func (n naming) proves(leaf *x509.Certificate, id string) bool {
	uris := make([]string, 0, len(leaf.URIs))
	own := false
	for _, u := range leaf.URIs {
		uris = append(uris, u.String())
		own = own || u.Scheme == "batuta"
	}
	switch {
	case n.template != "":
		return slices.Contains(uris, n.uri(n.template, id))
	case own:
		return slices.Contains(uris, n.uri(DefaultTemplate, id))
	}
	if addr, err := netip.ParseAddr(id); err == nil {
		return slices.ContainsFunc(leaf.IPAddresses, func(ip net.IP) bool {
			named, ok := netip.AddrFromSlice(ip)
			return ok && named.Unmap() == addr.Unmap()
		})
	}
	return slices.ContainsFunc(leaf.DNSNames, func(name string) bool { return strings.EqualFold(name, id) })
}

// names lists what a certificate is for, as text.
func names(leaf *x509.Certificate) string {
	var all []string
	for _, u := range leaf.URIs {
		all = append(all, u.String())
	}
	all = append(all, leaf.DNSNames...)
	for _, ip := range leaf.IPAddresses {
		all = append(all, ip.String())
	}
	if len(all) == 0 {
		return "no member"
	}
	return strings.Join(all, ", ")
}

// chain verifies that a certificate is trusted now, and valid for a member.
func chain(roots *x509.CertPool, certs []*x509.Certificate, options x509.VerifyOptions) error {
	_, err := chains(roots, certs, options)
	return err
}

// chains does the same, and returns the chains of authorities.
func chains(roots *x509.CertPool, certs []*x509.Certificate, options x509.VerifyOptions) (by [][]*x509.Certificate, err error) {
	if len(certs) == 0 {
		return nil, errors.New("it shows no certificate")
	}
	if certs[0].IsCA {
		return nil, errors.New("it shows an authority's certificate, which is no member's")
	}
	options.Roots, options.Intermediates = roots, x509.NewCertPool()
	for _, c := range certs[1:] {
		options.Intermediates.AddCert(c)
	}
	for _, usage := range memberUsage {
		options.KeyUsages = []x509.ExtKeyUsage{usage}
		if by, err = certs[0].Verify(options); err != nil {
			return nil, err
		}
		if certs[0].ExtKeyUsage == nil && certs[0].UnknownExtKeyUsage == nil {
			break // it is valid for any use
		}
	}
	return by, nil
}

// Span is the time for which a certificate is valid. The zero value: there is none.
type Span struct{ From, To time.Time }

// Life is the validity of this member's certificate and of its authority. Of several chains, and of
// the authorities in them, it is the validity that keeps the member trusted for longest.
type Life struct{ Certificate, Authority Span }

// lifeOf returns the life of the certificate with which each chain begins.
func lifeOf(chains [][]*x509.Certificate) (l Life) {
	for _, chain := range chains {
		l.Certificate = spanOf(chain[0])
		first := spanOf(chain[len(chain)-1])
		for _, c := range chain[1:] {
			if s := spanOf(c); s.To.Before(first.To) {
				first = s
			}
		}
		if first.To.After(l.Authority.To) {
			l.Authority = first
		}
	}
	return l
}

func spanOf(c *x509.Certificate) Span { return Span{c.NotBefore, c.NotAfter} }

// Life returns the validity of this member's certificate, as its files have it. It is zero with a
// secret, which issues certificates as needed, and with a service's own certificates.
func (s *Security) Life() Life {
	if s == nil {
		return Life{}
	}
	for _, a := range s.current.Load().authorities {
		if c, ok := a.(*certificates); ok {
			return c.life
		}
	}
	return Life{}
}

// Span returns the validity of the server's certificate; zero if it is made by a secret.
func (s *Serving) Span() Span {
	if s.options.CertFile == "" {
		return Span{}
	}
	c, err := s.certificate()
	if err != nil || c.Leaf == nil {
		return Span{}
	}
	return spanOf(c.Leaf)
}
