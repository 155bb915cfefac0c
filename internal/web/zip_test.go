package web

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"testing"
)

func TestOnlyWhatIsLargeAndWantedIsCompressed(t *testing.T) {
	body := bytes.Repeat([]byte(`{"name":"shard-1","leader":"2"},`), 1000)
	for _, c := range []struct {
		accepts string
		body    []byte
		want    bool
	}{
		{"gzip, deflate, br", body, true},
		{"br;q=1.0, GZIP;q=0.5", body, true},
		{"gzip;q=0", body, false},
		{"gzip; q=0.000", body, false},
		{"br", body, false},
		{"x-gzip-not", body, false},
		{"", body, false},
		{"gzip", body[:1000], false},
	} {
		h, r := http.Header{}, &http.Request{Header: http.Header{"Accept-Encoding": {c.accepts}}}
		got := Zip(h, r, c.body)
		if zipped := h.Get("Content-Encoding") == "gzip"; zipped != c.want {
			t.Errorf("accepting %q, %d bytes: compressed %v, want %v", c.accepts, len(c.body), zipped, c.want)
		}
		if varies := h.Get("Vary") == "Accept-Encoding"; varies != (len(c.body) >= large) {
			t.Errorf("accepting %q, %d bytes: Vary %q", c.accepts, len(c.body), h.Get("Vary"))
		}
		if !c.want {
			if !bytes.Equal(got, c.body) {
				t.Errorf("accepting %q: another body", c.accepts)
			}
			continue
		}
		z, err := gzip.NewReader(bytes.NewReader(got))
		if err != nil {
			t.Fatal(err)
		}
		if plain, err := io.ReadAll(z); err != nil || !bytes.Equal(plain, c.body) || len(got)*10 > len(c.body) {
			t.Errorf("accepting %q: %d bytes of %d, which are others: %v", c.accepts, len(got), len(c.body), err)
		}
	}
}
