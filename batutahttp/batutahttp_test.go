package batutahttp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutahttp"
	"github.com/batuta-dev/batuta/batutatest"
)

// A service mounts the API below a path of its own; what only tells changes nothing.
func TestMounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 2)
		c.StartAll()
		c.Agree("2")
		mux := http.NewServeMux()
		mux.Handle("/batuta/", http.StripPrefix("/batuta", batutahttp.Handler(c.Node("2"))))
		mux.Handle("/operate/", http.StripPrefix("/operate", batutahttp.Operate(c.Node("2"))))
		for _, tt := range []struct {
			method, path, origin string
			code                 int
			body                 string
		}{
			{"GET", "/batuta/leader", "", 200, `{"leader":"2"}`},
			{"GET", "/batuta/v1/status", "", 200, `"role":"leader"`},
			{"GET", "/batuta/readyz", "", 200, `"ready":true`},
			{"GET", "/batuta/metrics", "", 404, "no /metrics here"},
			{"POST", "/batuta/v1/resign", "", 404, "no /v1/resign here"},
			{"DELETE", "/batuta/v1/members/1", "", 404, ""},
			{"POST", "/batuta/v1/members", "", 405, "use GET"},
			{"POST", "/operate/v1/resign", "https://elsewhere.example", 403, "another origin"},
			{"POST", "/operate/v1/resign", "", 200, `"resigned"`},
		} {
			r := httptest.NewRequest(tt.method, tt.path, nil)
			r.Host = "service.example"
			if tt.origin != "" {
				r.Header.Set("Origin", tt.origin)
			}
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, r)
			if body, _ := io.ReadAll(w.Body); w.Code != tt.code || !strings.Contains(string(body), tt.body) {
				t.Errorf("%s %s: %d %s, want %d %s", tt.method, tt.path, w.Code, body, tt.code, tt.body)
			}
		}
		c.Agree("1")
	})
}

// Who forgets the node hears of it where the mistake is, not at the first request.
func TestNil(t *testing.T) {
	for name, f := range map[string]func(){"Handler": func() { batutahttp.Handler(nil) }, "Operate": func() { batutahttp.Operate(nil) }} {
		func() {
			defer func() {
				if s, _ := recover().(string); !strings.Contains(s, "nil node") {
					t.Errorf("%s: %q", name, s)
				}
			}()
			f()
		}()
	}
}

func ExampleHandler() {
	var node *batuta.Node // as batuta.Start gives it
	mux := http.NewServeMux()
	mux.Handle("/batuta/", http.StripPrefix("/batuta", batutahttp.Handler(node)))
}

func ExampleLeaderOnly() {
	var node *batuta.Node // as batuta.Start gives it, with Config.Meta{"url": "http://10.0.0.1:8080"}
	orders := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l, _ := batuta.LeadershipFrom(r.Context())
		if epoch, ok := l.Fence(); ok {
			io.WriteString(w, "written under epoch "+strconv.FormatUint(epoch, 10))
		}
	})
	http.Handle("/orders/", batutahttp.LeaderOnly(node, orders, batutahttp.Forward{}))
}
