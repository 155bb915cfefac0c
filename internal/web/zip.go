package web

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
)

// large is what is worth being compressed, in bytes: less fits into a few packets.
const large = 8 << 10

// Zip gives what to send for body: it compressed, if it is large and the client of r takes
// that. It sets the headers that say so.
func Zip(h http.Header, r *http.Request, body []byte) []byte {
	if len(body) < large {
		return body
	}
	h.Add("Vary", "Accept-Encoding")
	if !takesGzip(r) {
		return body
	}
	h.Set("Content-Encoding", "gzip")
	return zipped(body, gzip.BestSpeed)
}

func zipped(body []byte, level int) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, level) // that level is known
	_, _ = z.Write(body)                   // a buffer takes everything
	_ = z.Close()
	return b.Bytes()
}

// takesGzip tells whether a client accepts that coding (RFC 9110, 12.5.3).
func takesGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, weight, _ := strings.Cut(coding, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		text, ok := strings.CutPrefix(strings.TrimSpace(weight), "q=")
		q, err := strconv.ParseFloat(text, 64)
		return !ok || err == nil && q > 0
	}
	return false
}
