package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/api"
)

// indexed is an event as a client keeps it.
type indexed struct{ index, line string }

// stream reads events until there are n, and its connection ends.
func stream(t *testing.T, at, query, last string, n int) (list []indexed) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "GET", "http://"+at+"/v1/events?"+query, nil)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	in, e := bufio.NewScanner(resp.Body), indexed{}
	for len(list) < n && in.Scan() {
		switch field, value, _ := strings.Cut(in.Text(), ": "); {
		case field == "id":
			e.index = value
		case field == "data":
			e.line = value
		case in.Text() == "" && e.line != "":
			list, e = append(list, e), indexed{}
		}
	}
	if len(list) < n {
		t.Fatalf("events?%s after %s end with %q: %v", query, last, list, in.Err())
	}
	return list
}

// poll asks for a list of events, and the index to go on after.
func poll(t *testing.T, at, query string) (list []indexed, next string) {
	t.Helper()
	code, body, head := with(t, at, "GET", "/v1/events?"+query, "")
	var raw []map[string]any
	if err := json.Unmarshal([]byte(body), &raw); err != nil || code != http.StatusOK {
		t.Fatalf("events?%s: %d %s", query, code, body)
	}
	for _, e := range raw {
		if e["index"] == "" {
			t.Errorf("an event of events?%s has no index: %v", query, e)
		}
		list = append(list, indexed{index: e["index"].(string), line: fmt.Sprint(e["event"])})
	}
	return list, head.Get(api.IndexHeader)
}

// A client whose connections end again and again, and one that polls, have each event that one has which stays.
func TestNoEventIsSkippedBetweenConnections(t *testing.T) {
	n, at := startNode(t, "1")
	awaitLead(t, n, "default", "1")
	const query = "elections=true"
	begin := stream(t, at, query, "", 1)[0].index
	churn := make(chan struct{})
	go func() {
		defer close(churn)
		for i := range 40 {
			ctx, cancel := context.WithCancel(t.Context())
			n.Election(fmt.Sprint("e", i%3)).Lead(ctx, func(context.Context, batuta.Leadership) error { cancel(); return nil })
			cancel()
		}
	}()
	const count = 60
	want := stream(t, at, query, begin, count)
	var got, polled []indexed
	for last, i := begin, 1; len(got) < count; i++ {
		got = append(got, stream(t, at, query, last, min(1+i%4, count-len(got)))...)
		last = got[len(got)-1].index
	}
	for since := begin; len(polled) < count; {
		var list []indexed
		list, since = poll(t, at, query+"&wait=30s&since="+since)
		polled = append(polled, list...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("resumed:  %q\nstayed: %q", got, want)
	}
	for i, e := range polled[:count] {
		if e.index != want[i].index || !strings.Contains(want[i].line, `"event":"`+e.line+`"`) {
			t.Errorf("polled %v, not %v", e, want[i])
		}
	}
	<-churn
}

// A long poll waits for the next event and no longer than it is asked to.
func TestALongPollWaits(t *testing.T) {
	n, at := startNode(t, "1")
	awaitLead(t, n, "default", "1")
	list, since := poll(t, at, "wait=30s")
	if len(list) == 0 || list[len(list)-1].index != since {
		t.Errorf("the first poll gives %v, and %s to go on after", list, since)
	}
	if list, next := poll(t, at, "wait=0s&since="+since); len(list) > 0 || next == "" {
		t.Errorf("a poll that does not wait gives %v and %q", list, next)
	}
	began := time.Now()
	if list, _ := poll(t, at, "election=nothing&wait=300ms&since="+since); len(list) > 0 || time.Since(began) < 300*time.Millisecond {
		t.Errorf("a poll of 300ms gives %v after %v", list, time.Since(began))
	}
	time.AfterFunc(200*time.Millisecond, func() { n.Resign(context.Background()) })
	if list, _ := poll(t, at, "wait=30s&since="+since); len(list) == 0 || list[0].line != "lost" {
		t.Errorf("a poll while it resigns gives %v", list)
	}
	for _, query := range []string{"wait=x", "wait=-1s", "wait=6m", "since=x", "since=-1", "wait=1s&since=5"} {
		if code, body := (call{method: "GET", path: "/v1/events?" + query}).do(t, at); code != http.StatusBadRequest {
			t.Errorf("events?%s: %d %s", query, code, body)
		}
	}
}

// A client that goes on at an agent that has started since learns that, and gets the current view.
func TestAnIndexOfAnEarlierProcessIsReset(t *testing.T) {
	one, before := startNode(t, "1")
	awaitLead(t, one, "default", "1")
	last := stream(t, before, "", "", 1)[0].index
	n, at := startNode(t, "1")
	awaitLead(t, n, "default", "1")
	stream(t, at, "", "", 1)
	for _, query := range []string{"", "since=" + last} {
		after := last
		if query != "" {
			after = ""
		}
		list := stream(t, at, query, after, 2)
		if !strings.Contains(list[0].line, `"event":"reset","id":"1","election":"default"`) || !strings.Contains(list[1].line, `"event":"leader"`) {
			t.Errorf("events?%s: %q", query, list)
		}
	}
	if list, _ := poll(t, at, "wait=1s&since="+last); len(list) < 2 || list[0].line != "reset" || list[1].line != "leader" {
		t.Errorf("polled %v", list)
	}
	stream(t, at, "", "any text", 2) // of a browser, which cannot mend it
}

// A watch goes on by itself where its connection broke.
func TestAWatchGoesOn(t *testing.T) {
	n, at := startNode(t, "1")
	awaitLead(t, n, "default", "1")
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: at})
	proxy.FlushInterval = -1
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Host = at
		proxy.ServeHTTP(w, r)
	}))
	defer between.Close()
	c, err := api.NewClient(between.URL, api.Access{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var got []string
	err = c.Watch(ctx, nil, func(line []byte) error {
		var l api.Line
		if err := json.Unmarshal(line, &l); err != nil {
			return err
		}
		switch got = append(got, fmt.Sprint(l.Event, l.Epoch)); len(got) {
		case 1, 3:
			between.CloseClientConnections()
			n.Resign(ctx)
			n.Campaign(ctx)
		case 7:
			cancel()
		}
		return nil
	})
	var lost, led int
	for _, e := range got {
		if strings.HasPrefix(e, "lost") {
			lost++
		}
		if strings.HasPrefix(e, "leader") {
			led++
		}
	}
	if err != nil || lost < 2 || led < 2 || strings.Contains(strings.Join(got, " "), "reset") {
		t.Errorf("watched %q, %v", got, err)
	}
}
