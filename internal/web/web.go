// Package web serves batuta's pages: embedded files, under a content policy that only lets a page
// run its own scripts and access its own origin.
//
// The pages are plain modules, without a framework or a build step.
package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

//go:embed shared lab dashboard
var assets embed.FS

// Site is the files of a page, by path.
type Site map[string][]byte

// Lab returns the lab's page, without the simulator.
func Lab() Site { return site("lab") }

// Dashboard returns the page of an agent.
func Dashboard() Site { return site("dashboard") }

// site returns the files in dir, and those in shared/, which all pages use.
func site(dir string) Site {
	s := Site{}
	_ = fs.WalkDir(assets, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if name, ok := strings.CutPrefix(p, dir+"/"); ok || strings.HasPrefix(p, "shared/") {
			s[name], err = assets.ReadFile(p)
		}
		return err
	}) // embedded files can be read
	return s
}

// policy lets a page load and request only its own origin. The lab's simulator is WebAssembly,
// which counts as a script that is made while the page runs.
const policy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; img-src 'self'; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Secure sets the security headers of a page.
func Secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
}

// file is a file of a site, ready to be sent.
type file struct {
	kind       string
	tag        string
	body, zips []byte // zips: compressed; nil: that is not smaller
}

// Handler serves a site. Its paths are those of the site, "/" is index.html.
//
// A file is compressed at the first request: most agents' pages never are, and a killed process
// ends its connections only after the kernel has reclaimed its memory, so that the death of a
// smaller process is detected sooner.
func (s Site) Handler() http.Handler {
	files := map[string]func() file{}
	for name, body := range s {
		files["/"+name] = sync.OnceValue(func() file { return fileOf(name, body) })
	}
	files["/"] = files["/index.html"]
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ready, ok := files[r.URL.Path]
		h := w.Header()
		Secure(h)
		switch {
		case !ok || ready == nil:
			http.NotFound(w, r)
			return
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET")
			http.Error(w, "use GET", http.StatusMethodNotAllowed)
			return
		}
		f := ready()
		f.send(w, r)
	})
}

func fileOf(name string, body []byte) file {
	sum := sha256.Sum256(body)
	f := file{kind: kindOf(name), tag: `"` + hex.EncodeToString(sum[:12]) + `"`, body: body}
	if zips := Compressed(body, gzip.BestCompression); len(zips) < len(body)*9/10 {
		f.zips = zips
	}
	return f
}

func kindOf(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".gz":
		return "application/gzip"
	}
	if kind := mime.TypeByExtension(path.Ext(name)); kind != "" {
		return kind
	}
	return "application/octet-stream"
}

func (f *file) send(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", f.tag)
	h.Add("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") == f.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body := f.body
	if f.zips != nil && takesGzip(r) {
		h.Set("Content-Encoding", "gzip")
		body = f.zips
	}
	h.Set("Content-Length", strconv.Itoa(len(body))) // a page shows how much of it is there
	if r.Method == http.MethodGet {
		_, _ = w.Write(body) // a client that disconnected is not our fault
	}
}

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
