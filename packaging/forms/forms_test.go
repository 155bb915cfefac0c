// Package forms has the tools of others read what batuta is deployed by: Docker Compose's loader, Nomad's API, and Ansible.
package forms

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/nomad/api"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// Docker Compose loads the file, with the secret, and three members of a quorum that name each other.
func TestCompose(t *testing.T) {
	o, err := cli.NewProjectOptions([]string{"../compose.yaml"}, cli.WithoutEnvironmentResolution)
	if err != nil {
		t.Fatal(err)
	}
	project, err := o.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(project.Services) != 3 {
		t.Errorf("%d services, want 3 members", len(project.Services))
	}
	for name, s := range project.Services {
		set := func(key string) string {
			if v := s.Environment[key]; v != nil {
				return *v
			}
			return ""
		}
		if len(s.Secrets) != 1 || set("BATUTA_SECRET_FILE") != "/run/secrets/"+s.Secrets[0].Source || set("BATUTA_INSECURE") != "" {
			t.Errorf("%s has the secrets %v, and reads %q", name, s.Secrets, set("BATUTA_SECRET_FILE"))
		}
		if set("BATUTA_ALGORITHM") != "quorum" || len(s.Volumes) != 1 || s.Volumes[0].Target != "/data" {
			t.Errorf("%s is no member of a quorum that keeps its state", name)
		}
	}
}

// BuildKit, which is what "docker build" runs, parses the Dockerfile, and its linter finds nothing.
func TestDockerfile(t *testing.T) {
	text, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	lint := func(text string) (found []string) {
		result, err := parser.Parse(strings.NewReader(text))
		if err != nil {
			return []string{err.Error()}
		}
		warn := func(rule, _, _, message string, _ []parser.Range) { found = append(found, rule+": "+message) }
		stages, _, err := instructions.Parse(result.AST, linter.New(&linter.Config{Warn: warn}))
		if err != nil || len(stages) != 2 {
			found = append(found, fmt.Sprintf("%d stages, %v", len(stages), err))
		}
		return found
	}
	if found := lint(string(text)); found != nil {
		t.Error(found)
	}
	for _, fault := range []string{"COPY --form=build /a /b", "EXPOSE", "ENV A", "MAINTAINER batuta"} {
		if lint(string(text)+fault+"\n") == nil {
			t.Errorf("%s is taken", fault)
		}
	}
}

// Every block and every setting of the job is one of Nomad's own, as its API declares them.
func TestNomad(t *testing.T) {
	file, problems := hclparse.NewParser().ParseHCLFile("../nomad/batuta.nomad.hcl")
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	type root struct {
		Jobs []*api.Job `hcl:"job,block"`
	}
	read := 0
	if err := known(file.Body, reflect.TypeFor[root](), &read); err != nil {
		t.Error(err)
	}
	if read < 30 {
		t.Errorf("it has read only %d settings", read)
	}
}

// known returns an error for what a body has and a type has not, and counts the settings.
func known(body hcl.Body, of reflect.Type, read *int) error {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map && of.Elem().Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct { // a block of any names, such as env
		all, problems := body.JustAttributes()
		*read += len(all)
		if problems.HasErrors() {
			return problems
		}
		return nil
	}
	schema, fields := hcl.BodySchema{}, map[string]reflect.Type{}
	for field := range of.Fields() {
		name, kind, _ := strings.Cut(field.Tag.Get("hcl"), ",")
		switch kind {
		case "block":
			schema.Blocks = append(schema.Blocks, hcl.BlockHeaderSchema{Type: name, LabelNames: labels(name)})
			fields[name] = field.Type
		case "optional", "":
			if name != "" {
				schema.Attributes = append(schema.Attributes, hcl.AttributeSchema{Name: name})
			}
		}
	}
	content, problems := body.Content(&schema)
	if problems.HasErrors() {
		return problems
	}
	*read += len(content.Attributes)
	var errs []error
	for _, block := range content.Blocks {
		errs = append(errs, known(block.Body, fields[block.Type], read))
	}
	return errors.Join(errs...)
}

// labels are the names that Nomad's language has behind the type of a block.
func labels(block string) []string {
	switch block {
	case "job", "group", "task", "port", "volume":
		return []string{"name"}
	}
	return nil
}

// Ansible finds the role's form right, and renders a configuration that batuta takes.
func TestAnsible(t *testing.T) {
	for _, program := range []string{"ansible-playbook", "ansible-lint", "ansible"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed; Debian has it in ansible-core and ansible-lint", program)
		}
	}
	dir := t.TempDir()
	inventory := filepath.Join(dir, "inventory.ini")
	if err := os.WriteFile(inventory, []byte("[batuta]\ndb1 ansible_host=10.0.0.1\ndb2 ansible_host=10.0.0.2\ndb3\n[batuta:vars]\nansible_connection=local\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(directory, program string, args ...string) {
		t.Helper()
		cmd := exec.Command(program, args...)
		cmd.Dir, cmd.Env = directory, append(os.Environ(), "LC_ALL=C.UTF-8", "ANSIBLE_LOCAL_TEMP="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", program, err, out)
		}
	}
	run("../ansible", "ansible-playbook", "-i", inventory, "site.yml", "--syntax-check")
	run("../ansible", "ansible-lint", "--offline", "site.yml", "roles/batuta")

	secret, program := filepath.Join(dir, "batuta.key"), filepath.Join(dir, "batuta")
	run("../..", "go", "build", "-o", program, "./cmd/batuta")
	key, err := exec.Command(program, "secret", "new").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(secret, key, 0o600); err != nil {
		t.Fatal(err)
	}
	role, err := filepath.Abs("../ansible/roles/batuta")
	if err != nil {
		t.Fatal(err)
	}
	run(dir, "ansible", "batuta", "-i", inventory, "-e", "@"+filepath.Join(role, "defaults/main.yml"), "-e", `{"batuta_settings": {"profile": "wan"}}`,
		"-m", "template", "-a", fmt.Sprintf("src=%s/templates/batuta.yaml.j2 dest=%s/{{inventory_hostname}}.yaml", role, dir))
	for _, host := range []string{"db1", "db2", "db3"} {
		path := filepath.Join(dir, host+".yaml")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("/etc/batuta.key"), []byte(secret)), []byte("/var/lib/batuta"), []byte(filepath.Join(dir, "data")))
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		run(dir, program, "config", "check", "--config", path)
	}
}
