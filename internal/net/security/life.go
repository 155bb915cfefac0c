package security

import (
	"crypto/x509"
	"time"
)

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
