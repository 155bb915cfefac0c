package security

import (
	"crypto/x509"
	"time"
)

// Span is how long a certificate is good. The zero value: there is none.
type Span struct{ From, To time.Time }

// Life is how long this member's certificate is good, and the authority's that it goes
// back to: of several, and of those in between, whichever lets it be believed longest.
type Life struct{ Certificate, Authority Span }

// lifeOf is the life of the certificate with which each chain begins.
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

// Life is how long what this member shows is good, as its files say. It is zero where it
// proves itself by a secret, which issues certificates as they are needed, or by a
// service's own certificates.
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

// Span is how long the server's certificate is good; zero where it is made by a secret.
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
