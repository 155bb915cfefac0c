package security

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

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
		return "nobody"
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
