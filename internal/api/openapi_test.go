package api_test

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/internal/api"
)

// described is openapi.yaml in JSON; a test of cmd/batuta, which has a parser of YAML, compares them.
//
//go:embed testdata/openapi.json
var described []byte

// spec is what of the description is held against the server.
type spec struct {
	Paths      map[string]map[string]operation
	Components struct {
		Responses map[string]response
		Schemas   map[string]schema
	}
}

type operation struct {
	ID        string `json:"operationId"`
	Summary   string
	Responses map[string]response
}

type response struct {
	Ref     string `json:"$ref"`
	Content map[string]struct{ Schema schema }
}

type schema struct {
	Ref                  string `json:"$ref"`
	Type                 any    // a name, or a list of them
	Enum                 []string
	Required             []string
	Properties           map[string]schema
	Items                *schema
	AdditionalProperties *schema `json:"additionalProperties"`
}

func description(t *testing.T) *spec {
	t.Helper()
	var d spec
	if err := json.Unmarshal(described, &d); err != nil {
		t.Fatal(err)
	}
	return &d
}

func TestEveryCallIsDescribed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := api.NewServer(&fakeNode{done: make(chan struct{})}, l.Addr().String(), "v1", slog.New(slog.DiscardHandler)).Routes()
	for i, r := range served {
		served[i] = strings.TrimSuffix(r, "{$}")
	}
	var written []string
	ids := map[string]bool{}
	for path, operations := range description(t).Paths {
		for method, op := range operations {
			for _, code := range []string{"401", "403", "421"} { // of what guards every call
				if _, ok := op.Responses[code]; !ok {
					t.Errorf("%s %s: no answer %s", method, path, code)
				}
			}
			if op.ID == "" || ids[op.ID] {
				t.Errorf("%s %s: its operationId %q names no call, or two", method, path, op.ID)
			}
			ids[op.ID] = true
			written = append(written, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(served)
	slices.Sort(written)
	if !slices.Equal(served, written) {
		t.Errorf("served:    %q\ndescribed: %q", served, written)
	}
}

// Whatever the server's state, its answers are what the description says.
func TestAnswersAreAsDescribed(t *testing.T) {
	d := description(t)
	for _, n := range []*fakeNode{{}, {view: viewOf("5", 7)}, {view: viewOf("3", 8), votes: true}} {
		addr := serve(t, n)
		for path, operations := range d.Paths {
			for method, op := range operations {
				if path != "/v1/events" { // has a test of its own, and lasts
					d.check(t, addr, strings.ToUpper(method), path, op)
				}
			}
		}
	}
}

func (d *spec) check(t *testing.T, addr, method, path string, op operation) {
	t.Helper()
	body := strings.NewReader(`{"id":"5","address":"127.0.0.1:7405"}`) // for the one call that takes one
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+strings.ReplaceAll(path, "{id}", "5"), body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	where := fmt.Sprintf("%s %s %d", method, path, resp.StatusCode)
	r, ok := op.Responses[fmt.Sprint(resp.StatusCode)]
	if !ok {
		t.Errorf("%s is not described", where)
		return
	}
	if r.Ref != "" {
		r = d.Components.Responses[lastPart(r.Ref)]
	}
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	content, ok := r.Content[kind]
	if !ok {
		t.Errorf("%s: its content type %s is not described", where, kind)
	}
	if kind != "application/json" {
		return
	}
	var v any
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	d.hold(t, where, content.Schema, v)
}

// hold holds a JSON value against its schema; what is not described must not be there.
func (d *spec) hold(t *testing.T, where string, s schema, v any) {
	t.Helper()
	if s.Ref != "" {
		named, ok := d.Components.Schemas[lastPart(s.Ref)]
		if !ok {
			t.Errorf("%s: no schema %s", where, s.Ref)
		}
		s = named
	}
	if !allowed(s.Type, v) {
		t.Errorf("%s: %v is not of type %v", where, v, s.Type)
	}
	if text, ok := v.(string); ok && s.Enum != nil && !slices.Contains(s.Enum, text) {
		t.Errorf("%s: %q is none of %q", where, text, s.Enum)
	}
	switch v := v.(type) {
	case []any:
		for i, item := range v {
			d.hold(t, fmt.Sprintf("%s[%d]", where, i), *s.Items, item)
		}
	case map[string]any:
		for _, name := range s.Required {
			if _, ok := v[name]; !ok {
				t.Errorf("%s: lacks %s", where, name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			inner, ok := s.Properties[name]
			if !ok && s.AdditionalProperties != nil {
				inner, ok = *s.AdditionalProperties, true
			}
			if !ok {
				t.Errorf("%s: %s is not described", where, name)
				continue
			}
			d.hold(t, where+"."+name, inner, v[name])
		}
	}
}

// allowed reports whether v is of a type, or of one of several.
func allowed(names any, v any) bool {
	if list, ok := names.([]any); ok {
		return slices.ContainsFunc(list, func(name any) bool { return allowed(name, v) })
	}
	switch names {
	case "null":
		return v == nil
	case "string":
		_, ok := v.(string)
		return ok
	case "boolean":
		_, ok := v.(bool)
		return ok
	case "number":
		_, ok := v.(float64)
		return ok
	case "integer":
		n, ok := v.(float64)
		return ok && n == float64(int64(n))
	case "array":
		_, ok := v.([]any)
		return ok
	case "object":
		_, ok := v.(map[string]any)
		return ok
	}
	return false
}

func lastPart(ref string) string { return ref[strings.LastIndex(ref, "/")+1:] }
