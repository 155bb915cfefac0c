package api_test

import (
	"log/slog"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/api"
)

// taken describes the body of a call: what its refusal proposes, the kind of each field, and whether it may be empty.
type taken struct {
	send   string
	fields map[string]string
	empty  bool
	limit  string
}

// values has a value of JSON of each kind, and the words for it.
var values = []struct{ kind, value, words string }{
	{"string", `"x"`, "a string"},
	{"object", `{"x":1}`, "an object"},
	{"boolean", `true`, "a boolean"},
	{"array", `[["x"]]`, "an array"},
	{"number", `5`, "a number"},
}

// Each call with a body refuses a wrong one by a sentence that names the field, what came and what is wanted, and does
// nothing.
func TestEachCallRefusesAWrongBody(t *testing.T) {
	const text, boolean, whole, natural = "a string", "a boolean", "a whole number of 64 bits", "a whole number of 64 bits, 0 or more"
	member := taken{send: `{"id":"4"}`, fields: map[string]string{"id": text, "force": boolean}}
	candidacy := taken{send: `{"ttl":"10s"} for a lease, or nothing for a stream`, empty: true, limit: "4096", fields: map[string]string{
		"ttl": text, "candidacy": text, "released": boolean, "grace": text, "weight": whole, "seats": whole, "prefer": boolean}}
	bodies := map[string]taken{
		"POST /v1/members":  {send: `{"id":"4","address":"10.0.0.4:7400"}`, fields: map[string]string{"id": text, "address": text, "priority": whole}},
		"PUT /v1/meta":      {send: `{"url":"http://10.0.0.3:8080"}`, fields: map[string]string{"url": text}},
		"PUT /v1/health":    {send: `{"healthy":false,"why":"the database is down"}`, fields: map[string]string{"healthy": boolean, "why": text}},
		"POST /v1/ready":    {send: `{"epoch":7}`, empty: true, fields: map[string]string{"epoch": natural}},
		"POST /v1/resign":   {send: `{"id":"4"}, or nothing`, empty: true, fields: map[string]string{"id": text}},
		"POST /v1/pause":    {send: `{"for":"1h"}`, fields: map[string]string{"for": text}},
		"POST /v1/transfer": {send: `{"id":"4"}`, fields: map[string]string{"id": text, "election": text}},
		"POST /v1/drain":    member,
		"POST /v1/undrain":  member,

		"PUT /v1/elections/{name}/candidacy": candidacy,
		"POST /v1/elections/{name}/ready":    candidacy,
	}
	none := []string{"POST /v1/campaign", "POST /v1/resume", "POST /v1/jobs/{name}/run", "POST /v1/jobs/{name}/pause", "POST /v1/jobs/{name}/resume"}
	n, at := startNode(t, "1")
	for range n.Events(t.Context()) {
		if n.IsLeader() {
			break
		}
	}
	routes := slices.DeleteFunc(api.NewServer(n, at, "v1", slog.New(slog.DiscardHandler)).Routes(), func(r string) bool {
		return strings.HasPrefix(r, "GET ") || strings.HasPrefix(r, "DELETE ") || slices.Contains(none, r)
	})
	if tried := slices.Sorted(maps.Keys(bodies)); !slices.Equal(slices.Sorted(slices.Values(routes)), tried) {
		t.Errorf("calls with a body are %q, tried are %q", routes, tried)
	}
	for route, want := range bodies {
		method, path, _ := strings.Cut(route, " ")
		path = strings.ReplaceAll(path, "{name}", "payroll")
		refuses := func(body string, code int, why string) {
			t.Helper()
			got, text := call{method: method, path: path, body: strings.NewReader(body)}.do(t, at)
			if want := `{"error":"` + strings.ReplaceAll(why, `"`, `\"`) + `"}`; got != code || text != want {
				t.Errorf("%s %.60q: %d %s\nnot %d %s", route, body, got, text, code, want)
			}
		}
		wrong := func(body, why string) {
			t.Helper()
			refuses(body, http.StatusBadRequest, "body: "+why+"; send "+want.send)
		}
		for _, v := range values {
			if v.kind != "object" {
				wrong(v.value, "it is "+v.words+", not an object")
			}
			for name, wanted := range want.fields {
				if !strings.Contains(wanted, v.kind) {
					wrong(` {"`+name+`": `+v.value+` } `, `"`+name+`" is `+v.words+", not "+wanted)
				}
			}
		}
		good := map[string]string{"a string": `"5s"`, "a boolean": "false", whole: "1", natural: "1"}
		for name, wanted := range want.fields {
			field := `{"` + name + `":`
			wrong(field+`null}`, `"`+name+`" is null: leave it out`)
			if strings.Contains(wanted, "number") {
				wrong(field+`1.5}`, `"`+name+`" is the number 1.5, not `+wanted)
				wrong(field+`1e400}`, `"`+name+`" is the number 1e400, not `+wanted)
				wrong(field+strings.Repeat("9", 1000)+`}`, `"`+name+`" is the number `+strings.Repeat("9", 40)+`, not `+wanted)
			}
			if wanted == natural {
				wrong(field+`-1}`, `"`+name+`" is the number -1, not `+wanted)
			}
			valid := field + good[wanted]
			wrong(valid, "it ends too early")
			wrong(valid+`} {}`, "it goes on after the object")
			wrong(valid+`}}`, "it goes on after the object")
			wrong(valid+`}]`, "it goes on after the object")
			wrong(valid+`} x`, "it goes on after the object")
		}
		wrong("{\"id\":\"\xff\"}", "it is not UTF-8")
		wrong("\xef\xbb\xbf{}", "invalid character 'ï' looking for beginning of value")
		wrong("null", "it is null, not an object")
		wrong(`{'id':1}`, `invalid character '\\'' looking for beginning of object key string`)
		if _, free := want.fields["url"]; !free {
			wrong(`{"nested":{"id":"4"}}`, `unknown field "nested"`)
		}
		if !want.empty {
			wrong("", "it is empty")
			wrong(" \n", "it is empty")
		}
		limit := "65536"
		if want.limit != "" {
			limit = want.limit
		}
		refuses(`{"id":"`+strings.Repeat("x", 1<<20)+`"}`, http.StatusRequestEntityTooLarge, "body: more than "+limit+" bytes")
	}
	st, err := n.Status(t.Context())
	delete(st.Lost, batuta.CauseStalled) // by this machine, not by a call
	if err != nil || len(st.Lost) > 0 || len(st.Members) != 1 || !reflect.DeepEqual(st.Members[0].Meta, map[string]string{"name": "m1"}) {
		t.Errorf("afterwards, leaderships have ended by %v, with %+v: %v", st.Lost, st.Members, err)
	}
}
