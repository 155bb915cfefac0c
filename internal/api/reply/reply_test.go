package reply_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/api/reply"
)

// Every call refuses a body by what is wrong with it, in time.
func TestABodyIsBounded(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/late" {
			http.NewResponseController(w).SetReadDeadline(time.Now()) // the server's own time for a request is over
		}
		v := struct{ N int }{}
		if reply.Read(w, r, 100, r.URL.Path == "/empty", &v, `{"n":1}`) {
			reply.JSON(w, http.StatusOK, v)
		}
	}))
	s.Start()
	defer s.Close()
	for _, test := range []struct {
		path, body string
		length     int // that is promised; 0: that of the body
		want       string
	}{
		{"/", `{"n":1}`, 0, `200 {"N":1}`},
		{"/empty", "", 0, `200 {"N":0}`},
		{"/", "", 0, `400 {"error":"body: it is empty; send {\"n\":1}"}`},
		{"/", `{"n":"x"}`, 0, `400 {"error":"body: \"n\" is a string, not a whole number of 64 bits; send {\"n\":1}"}`},
		{"/", `{"m":1}`, 0, `400 {"error":"body: unknown field \"m\"; send {\"n\":1}"}`},
		{"/", `{"n":1} {}`, 0, `400 {"error":"body: it goes on after the object; send {\"n\":1}"}`},
		{"/", strings.Repeat(" ", 101), 0, `413 {"error":"body: more than 100 bytes"}`},
		{"/late", `{"n":1`, 50, `408 {"error":"body: it has not ended in time"}`},
	} {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "PUT %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", test.path, max(test.length, len(test.body)), test.body)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		if got := fmt.Sprintf("%d %s", resp.StatusCode, strings.TrimSpace(string(body))); got != test.want {
			t.Errorf("PUT %s %.20q: %s, not %s", test.path, test.body, got, test.want)
		}
	}
}
