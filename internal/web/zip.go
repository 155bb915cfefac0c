package web

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
)

// large is the least size worth compressing, in bytes: less fits into a few packets.
const large = 8 << 10

// Zip returns body, compressed if it is large and the client of r accepts that. It sets the headers
// for that.
func Zip(h http.Header, r *http.Request, body []byte) []byte {
	if len(body) < large {
		return body
	}
	h.Add("Vary", "Accept-Encoding")
	if !takesGzip(r) {
		return body
	}
	h.Set("Content-Encoding", "gzip")
	return Compressed(body, gzip.BestSpeed)
}

// Compressed returns body, compressed by gzip at that level.
func Compressed(body []byte, level int) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, level) // the level is valid
	_, _ = z.Write(body)                   // a buffer does not fail
	_ = z.Close()
	return b.Bytes()
}

// takesGzip reports whether a client accepts that coding (RFC 9110, 12.5.3).
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
