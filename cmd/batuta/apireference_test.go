package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/testkit/page"
)

// The pages have the calls, the schemas, the events and the metrics as the code has them.
func TestReferenceOfTheAPI(t *testing.T) {
	var doc yaml.Node
	describedAPI(t, &doc)
	d := reference{doc.Content[0]}
	const again = "go test ./cmd/batuta -run Reference -update-reference"
	page.Hold(t, "../../docs/reference-api.md", map[string]string{"calls": d.calls(), "schemas": d.schemas("Event")}, *updateReference, again)
	page.Hold(t, "../../docs/reference-events.md", map[string]string{"events": strings.ReplaceAll(d.schema("Event"), "](#", "](reference-api.md#"), "metrics": metricsTable(t)}, *updateReference, again)
}

// The tests of internal/api read JSON: the module of what a service imports has no parser of YAML.
func TestTheDescriptionIsTheSameInJSON(t *testing.T) {
	var doc any
	describedAPI(t, &doc)
	want, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	const file = "../../internal/api/testdata/openapi.json"
	if *updateReference {
		if err := os.WriteFile(file, append(want, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != string(want)+"\n" {
		t.Errorf("%s is not what openapi.yaml describes (%v): go test ./cmd/batuta -run JSON -update-reference", file, err)
	}
}

// describedAPI reads openapi.yaml.
func describedAPI(t *testing.T, to any) {
	t.Helper()
	text, err := os.ReadFile("../../internal/api/openapi.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// reference is a mapping of the description, whose order the pages keep.
type reference struct{ *yaml.Node }

// at follows keys; it gives an empty mapping where there is none.
func (n reference) at(keys ...string) reference {
	for _, key := range keys {
		next := reference{&yaml.Node{}}
		for k, v := range n.each() {
			if k == key {
				next = v
			}
		}
		n = next
	}
	return n
}

// each yields the keys of a mapping with their values, in order.
func (n reference) each() func(func(string, reference) bool) {
	return func(yield func(string, reference) bool) {
		for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
			if !yield(n.Content[i].Value, reference{n.Content[i+1]}) {
				return
			}
		}
	}
}

// text is a scalar as the cell of a table.
func (n reference) text() string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "_", `\_`).Replace(strings.Join(strings.Fields(n.Value), " "))
}

func (n reference) calls() string {
	var b strings.Builder
	for path, operations := range n.at("paths").each() {
		for method, op := range operations.each() {
			fmt.Fprintf(&b, "### `%s %s`\n\n%s.", strings.ToUpper(method), path, op.at("summary").text())
			if more := op.at("description").text(); more != "" {
				b.WriteString("\n" + more)
			}
			b.WriteString("\n\n| part | content |\n| --- | --- |\n")
			for _, p := range op.at("parameters").Content {
				p := reference{p}
				fmt.Fprintf(&b, "| %s `%s` | %s: %s |\n", p.at("in").text(), p.at("name").Value, p.at("schema").kind(), p.at("description").text())
			}
			if body := op.at("requestBody", "content", "application/json", "schema"); body.Kind != 0 {
				fmt.Fprintf(&b, "| body | %s |\n", body.kind())
			}
			var faults []string
			for code, response := range op.at("responses").each() {
				switch {
				case slices.Contains([]string{"401", "403", "421"}, code): // the page has them once, for all calls
				case response.at("$ref").Value == "#/components/responses/Error":
					faults = append(faults, code)
				default:
					fmt.Fprintf(&b, "| %s | %s |\n", code, n.answer(response))
				}
			}
			if len(faults) > 0 {
				fmt.Fprintf(&b, "| %s | [Error](#error) |\n", strings.Join(faults, ", "))
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// answer describes one response, which may stand among the components.
func (n reference) answer(response reference) string {
	if name := response.at("$ref").Value; name != "" {
		response = n.at("components", "responses", lastPartOf(name))
	}
	var kinds []string
	for kind, content := range response.at("content").each() {
		of := content.at("schema").kind()
		if kind != "application/json" {
			of = "`" + kind + "`"
		}
		if !slices.Contains(kinds, of) {
			kinds = append(kinds, of)
		}
	}
	text := response.at("description").text()
	if len(kinds) > 0 {
		text += ": " + strings.Join(kinds, ", ")
	}
	return text
}

// kind names the type of a schema, with a link to one that has a name.
func (n reference) kind() string {
	if name := n.at("$ref").Value; name != "" {
		name = lastPartOf(name)
		if name == "Event" {
			return "[Event](reference-events.md#events)"
		}
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	}
	kind := n.at("type")
	names := []string{kind.Value}
	if kind.Kind == yaml.SequenceNode {
		names = nil
		for _, c := range kind.Content {
			names = append(names, c.Value)
		}
	}
	text := strings.Join(names, " or ")
	if format := n.at("format").Value; format != "" {
		text = strings.Replace(text, "string", format, 1)
	}
	switch {
	case n.at("items").Kind != 0:
		text = strings.Replace(text, "array", "list of "+n.at("items").kind(), 1)
	case n.at("additionalProperties").Kind != 0 && n.at("properties").Kind == 0:
		text = "object of " + n.at("additionalProperties").kind()
	}
	if enum := n.at("enum"); enum.Kind != 0 {
		var values []string
		for _, c := range enum.Content {
			values = append(values, "`"+c.Value+"`")
		}
		text = strings.Join(values, ", ")
	}
	return text
}

// schemas has all but those that another page has.
func (n reference) schemas(but ...string) string {
	var b strings.Builder
	for name := range n.at("components", "schemas").each() {
		if !slices.Contains(but, name) {
			fmt.Fprintf(&b, "### %s\n\n%s\n", name, n.schema(name))
		}
	}
	return b.String()
}

func (n reference) schema(name string) string {
	var b strings.Builder
	s := n.at("components", "schemas", name)
	if text := s.at("description").text(); text != "" {
		fmt.Fprintf(&b, "%s.\n\n", text)
	}
	parts := []reference{s}
	for _, c := range s.at("allOf").Content {
		part := reference{c}
		if ref := part.at("$ref").Value; ref != "" {
			fmt.Fprintf(&b, "All of %s, and:\n\n", part.kind())
			continue
		}
		parts = append(parts, part)
	}
	b.WriteString("| key | value | meaning |\n| --- | --- | --- |\n")
	for _, part := range parts {
		var required []string
		for _, c := range part.at("required").Content {
			required = append(required, c.Value)
		}
		for key, property := range part.at("properties").each() {
			optional := " (may be absent)"
			if slices.Contains(required, key) {
				optional = ""
			}
			fmt.Fprintf(&b, "| `%s`%s | %s | %s |\n", key, optional, property.kind(), property.at("description").text())
		}
	}
	if extra := s.at("additionalProperties"); extra.Kind != 0 && s.at("properties").Kind == 0 {
		fmt.Fprintf(&b, "| any | %s | |\n", extra.kind())
	}
	return b.String()
}

// metricsTable has what an agent registers. The metrics of the process itself are Prometheus' own.
func metricsTable(t *testing.T) string {
	t.Helper()
	node, err := batuta.New(batuta.Config{ID: "1", Listen: "127.0.0.1:0", Algorithm: bully.New()})
	if err != nil {
		t.Fatal(err)
	}
	s := api.NewServer(node, "127.0.0.1:0", "v1", slog.New(slog.DiscardHandler))
	var rows []string
	for _, source := range s.Metrics() {
		for _, f := range source() {
			labels := ""
			if len(f.Labels) > 0 {
				labels = "`" + strings.Join(f.Labels, "`, `") + "`"
			}
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |\n", f.Name, labels, reference{&yaml.Node{Value: f.Help}}.text()))
		}
	}
	slices.Sort(rows)
	return "| metric | labels | meaning |\n| --- | --- | --- |\n" + strings.Join(rows, "")
}

// lastPartOf gives the name that a reference ends with.
func lastPartOf(ref string) string { return ref[strings.LastIndex(ref, "/")+1:] }
