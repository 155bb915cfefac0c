// Package packaging tests what can be tested of the files in it without a container
// engine, a cluster or a monitoring system: their form, and that what they name
// exists.
package packaging

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// documents reads every document of a YAML file.
func documents(t *testing.T, path string) (docs []map[string]any) {
	t.Helper()
	in := yaml.NewDecoder(strings.NewReader(read(t, path)))
	for {
		var doc map[string]any
		err := in.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return docs
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		docs = append(docs, doc)
	}
}

// TestMain removes the binary at the end.
func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(built.dir)
	os.Exit(code)
}

var built struct {
	sync.Once
	dir string
	err error
}

// batuta is the binary, built once for all tests that need it.
func batuta(t *testing.T) string {
	t.Helper()
	built.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "batuta-packaging-"); built.err != nil {
			return
		}
		// Like internal/testkit/buildtest, which this module does not require.
		run := exec.Command("go", "run", "-ldflags=-s -w", "-exec=cp", "../cmd/batuta", filepath.Join(built.dir, "batuta"))
		if out, err := run.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "batuta")
}

// variables are the BATUTA_ variables that a file sets.
func variables(text string) []string {
	return slices.Compact(slices.Sorted(slices.Values(regexp.MustCompile(`\bBATUTA_[A-Z_]+`).FindAllString(text, -1))))
}

// Every variable that a package sets is a flag's: unknown ones are ignored, and
// would be found out late.
func TestVariablesAreFlags(t *testing.T) {
	help, err := exec.Command(batuta(t), "vip", "--help-all").Output() // has the agent's flags and its own
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"systemd/batuta.service", "systemd/batuta-vip.service", "systemd/batuta-witness@.service", "Dockerfile", "compose.yaml", "nomad/batuta.nomad.hcl", "kubernetes/sidecar.yaml", "kubernetes/deployment.yaml", "kubernetes/engine.yaml"} {
		for _, name := range variables(read(t, path)) {
			flag := "--" + strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, "BATUTA_")), "_", "-")
			if !strings.Contains(string(help), flag+" ") {
				t.Errorf("%s sets %s, and there is no flag %s", path, name, flag)
			}
		}
	}
}

func TestUnit(t *testing.T) {
	for _, name := range []string{"batuta", "batuta-vip", "batuta-witness@"} {
		t.Run(name, func(t *testing.T) { testUnit(t, name) })
	}
}

// Files of secrets belong to a user that the package declares, and that the units run as.
func TestUnitsRunAsTheUserOfThePackage(t *testing.T) {
	user := ""
	for line := range strings.Lines(read(t, "systemd/batuta.sysusers")) {
		if words := strings.Fields(line); words[0] == "u" {
			user = words[1]
		}
	}
	for _, name := range []string{"batuta", "batuta-vip", "batuta-witness@"} {
		if text := read(t, "systemd/"+name+".service"); user == "" || !strings.Contains(text, "\nUser="+user+"\n") {
			t.Errorf("%s.service does not run as user %q, whom the package declares", name, user)
		}
	}
	if text := read(t, "nfpm.yaml"); !strings.Contains(text, "packaging/systemd/batuta.sysusers, dst: /usr/lib/sysusers.d/") {
		t.Error("the packages do not declare the user")
	}
}

func testUnit(t *testing.T, name string) {
	text := read(t, "systemd/"+name+".service")
	for _, want := range []string{"Type=notify", "KillMode=mixed", "RestartPreventExitStatus=2", "StartLimitIntervalSec=0", "WantedBy=multi-user.target"} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("the unit lacks %s", want)
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze here: the unit is checked for its form alone")
	}
	// It wants the program to be there.
	unit := filepath.Join(t.TempDir(), name+".service")
	text = strings.ReplaceAll(text, "/usr/bin/batuta ", batuta(t)+" ")
	if err := os.WriteFile(unit, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(analyze, "verify", "--man=no", unit).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, name+".service") {
			t.Errorf("systemd-analyze (%v): %s", err, line)
		}
	}
}

// The image is one static file, run by nobody in particular.
func TestDockerfile(t *testing.T) {
	var stages, last []string
	for line := range strings.Lines(read(t, "Dockerfile")) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "FROM":
			stages, last = append(stages, rest), nil
		case "COPY", "RUN", "USER", "ENTRYPOINT", "CMD", "ENV", "EXPOSE", "VOLUME", "WORKDIR", "HEALTHCHECK":
			last = append(last, word+" "+rest)
		case "", "#", "&&": // a blank, a comment, the rest of a line
		default:
			t.Errorf("Dockerfile: unknown instruction %q", word)
		}
	}
	if len(stages) != 2 || stages[1] != "scratch" {
		t.Errorf("stages %q, want the last from scratch", stages)
	}
	if !slices.Contains(last, "USER 65532:65532") || !slices.Contains(last, `ENTRYPOINT ["/batuta"]`) {
		t.Errorf("last stage: %q", last)
	}
	if !strings.Contains(read(t, "Dockerfile"), "CGO_ENABLED=0") {
		t.Error("the binary would not be static")
	}
	if !strings.Contains(read(t, "../.dockerignore"), "**/*.key\n") {
		t.Error("a secret next to compose.yaml would be copied into the image that builds it")
	}
}

func TestCompose(t *testing.T) {
	services, _ := documents(t, "compose.yaml")[0]["services"].(map[string]any)
	delete(services, "new") // a tool
	if len(services) != 3 {
		t.Fatalf("%d services, want 3", len(services))
	}
	for name, s := range services {
		environment, _ := s.(map[string]any)["environment"].(map[string]any)
		members, _ := environment["BATUTA_MEMBER"].(string)
		own, _ := environment["BATUTA_ID"].(string)
		if !slices.Contains(strings.Fields(members), own+"="+name+":7400") {
			t.Errorf("service %s, id %q, is not in its own member list %q", name, own, members)
		}
	}
}

func TestKubernetes(t *testing.T) {
	var kinds []string
	for _, doc := range documents(t, "kubernetes/sidecar.yaml") {
		kind, _ := doc["kind"].(string)
		kinds = append(kinds, kind)
		metadata, _ := doc["metadata"].(map[string]any)
		if doc["apiVersion"] == nil || metadata["name"] != "batuta" || doc["spec"] == nil {
			t.Errorf("%s lacks apiVersion, name or spec: %v", kind, doc)
		}
	}
	if want := []string{"Service", "PodDisruptionBudget", "StatefulSet"}; !slices.Equal(kinds, want) {
		t.Errorf("kinds %q, want %q", kinds, want)
	}
	set := documents(t, "kubernetes/sidecar.yaml")[2]
	for _, key := range []string{"spec", "template", "metadata", "annotations"} {
		set, _ = set[key].(map[string]any)
	}
	listens := fmt.Sprintf("BATUTA_HEALTH_HTTP\n              value: 0.0.0.0:%v ", set["prometheus.io/port"])
	if set["prometheus.io/scrape"] != "true" || set["prometheus.io/path"] != "/metrics" || !strings.Contains(read(t, "kubernetes/sidecar.yaml"), listens) {
		t.Errorf("Prometheus is sent to %v, where no agent has metrics", set)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if !strings.Contains(read(t, "kubernetes/sidecar.yaml"), "path: "+path+",") {
			t.Errorf("no probe of %s", path)
		}
	}
}

// An agent takes every flag and variable of the manifests.
func TestManifestsAreConfigurations(t *testing.T) {
	program := batuta(t)
	key, err := exec.Command(program, "secret", "new").Output()
	if err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "cluster.key")
	if err := os.WriteFile(secret, key, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"kubernetes/sidecar.yaml", "kubernetes/deployment.yaml"} {
		checked := 0
		for _, doc := range documents(t, path) {
			spec, _ := doc["spec"].(map[string]any)
			template, _ := spec["template"].(map[string]any)
			pod, _ := template["spec"].(map[string]any)
			initial, _ := pod["initContainers"].([]any)
			containers, _ := pod["containers"].([]any)
			for _, c := range append(initial, containers...) {
				if c := c.(map[string]any); c["name"] == "batuta" {
					checked++
					cmd := exec.Command(program, "config", "check")
					args, _ := c["args"].([]any)
					for _, arg := range args[1:] { // after "agent"
						cmd.Args = append(cmd.Args, arg.(string))
					}
					values := strings.NewReplacer("$(BATUTA_ID)", "batuta-0", "$(POD_NAME)", "batuta-0", "$(POD_IP)", "10.0.0.1", "/secret/cluster.key", secret)
					environment, _ := c["env"].([]any)
					cmd.Env = []string{"BATUTA_ID=batuta-0"}
					for _, v := range environment {
						if value, ok := v.(map[string]any)["value"].(string); ok {
							cmd.Env = append(cmd.Env, fmt.Sprint(v.(map[string]any)["name"], "=", values.Replace(value)))
						}
					}
					if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "BATUTA_") {
						t.Errorf("%s: %v, with %q: %v: %s", path, cmd.Args[3:], cmd.Env, err, out)
					}
				}
			}
		}
		if checked != 1 {
			t.Errorf("%s has %d containers of batuta", path, checked)
		}
	}
}

// Whatever an alert or a graph asks for is a metric that an agent has.
func TestMetricsExist(t *testing.T) {
	rules := documents(t, "prometheus/batuta.rules.yaml")
	dashboard := read(t, "grafana/batuta.json")
	if !json.Valid([]byte(dashboard)) {
		t.Error("the dashboard is not JSON")
	}
	if groups, _ := rules[0]["groups"].([]any); len(groups) == 0 {
		t.Error("no group of rules")
	}
	known := read(t, "../internal/api/metrics.go") + read(t, "../internal/api/joblist/joblist.go")
	asked := regexp.MustCompile(`\bbatuta_[a-z_]+`).FindAllString(dashboard+read(t, "prometheus/batuta.rules.yaml"), -1)
	if len(asked) < 20 {
		t.Errorf("only %d metrics are asked for", len(asked))
	}
	for _, name := range asked {
		name = strings.TrimSuffix(name, "_bucket")
		if !strings.Contains(known, `"`+name+`"`) {
			t.Errorf("no agent has a metric %s", name)
		}
	}
}

// The dashboard asks for its data source when it is imported, and shows the members of the chosen clusters.
func TestDashboardHasInputs(t *testing.T) {
	var dashboard struct {
		Inputs     []struct{ Name, PluginID string } `json:"__inputs"`
		Templating struct {
			List []struct {
				Name, AllValue string
				Query          string
			}
		}
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "grafana/batuta.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	if len(dashboard.Inputs) != 1 || dashboard.Inputs[0].PluginID != "prometheus" {
		t.Errorf("the inputs are %v", dashboard.Inputs)
	}
	names := ""
	for _, v := range dashboard.Templating.List {
		names += v.Name + " "
		if v.Name == "instance" && (!strings.Contains(v.Query, `cluster=~"$cluster"`) || v.AllValue != "") {
			t.Errorf("all members are not those of the cluster: %+v", v)
		}
	}
	if names != "datasource cluster instance " {
		t.Errorf("the variables are %s", names)
	}
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			if !strings.Contains(target.Expr, `$instance"`) && !strings.Contains(target.Expr, `$cluster"`) {
				t.Errorf("%s shows every cluster: %s", p.Title, target.Expr)
			}
		}
	}
}

// Each alert names the section of the documentation with the remedy, and the section exists.
func TestAlertsNameTheirRunbook(t *testing.T) {
	rules := read(t, "prometheus/batuta.rules.yaml")
	urls := regexp.MustCompile(`runbook_url: https://github\.com/batuta-dev/batuta/blob/main/(docs/[a-z-]+\.md)#([a-z-]+)\n`).FindAllStringSubmatch(rules, -1)
	if alerts := strings.Count(rules, "- alert:"); len(urls) != alerts {
		t.Errorf("%d of %d alerts name a section of a page", len(urls), alerts)
	}
	for _, url := range urls {
		found := false
		for line := range strings.Lines(read(t, "../"+url[1])) {
			heading := strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#")))
			heading = regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(heading, "")
			found = found || line[0] == '#' && strings.ReplaceAll(heading, " ", "-") == url[2]
		}
		if !found {
			t.Errorf("%s has no section %s", url[1], url[2])
		}
	}
}

// Prometheus evaluates the alerts over the histories of clusters that are well, dead,
// parted, unstable, late, and knocked at by strangers.
func TestAlertsFire(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil && os.Getenv("BATUTA_TEST_NETNS") == "" {
		t.Skip("Prometheus's promtool is not here")
	}
	for _, args := range [][]string{
		{"check", "rules", "batuta.rules.yaml"},
		{"test", "rules", "batuta.rules.test.yaml", "batuta.rules.two-nodes.test.yaml", "batuta.rules.days.test.yaml"},
	} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = "prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	tried := read(t, "prometheus/batuta.rules.test.yaml") + read(t, "prometheus/batuta.rules.days.test.yaml")
	for _, alert := range regexp.MustCompile(`(?m)alert: (\w+)`).FindAllStringSubmatch(read(t, "prometheus/batuta.rules.yaml"), -1) {
		if !strings.Contains(tried, "alertname: "+alert[1]+"\n        exp_alerts:\n") {
			t.Errorf("no history raises %s", alert[1])
		}
	}
}

// Every alert is of one cluster, or of one member, and there is one for a cluster of
// which nobody is left to tell anything.
func TestAlertsAreOfOneCluster(t *testing.T) {
	names := map[string]string{}
	groups, _ := documents(t, "prometheus/batuta.rules.yaml")[0]["groups"].([]any)
	for _, g := range groups {
		rules, _ := g.(map[string]any)["rules"].([]any)
		for _, r := range rules {
			rule, _ := r.(map[string]any)
			expr, _ := rule["expr"].(string)
			if name, _ := rule["alert"].(string); name != "" {
				names[name] = expr
			}
			if strings.Count(expr, "(") != strings.Count(expr, ")") {
				t.Errorf("%v: brackets do not match", rule["alert"])
			}
		}
	}
	for name, expr := range names {
		ofOne := regexp.MustCompile(`by \((cluster|instance)|^batuta:leaders|^batuta_has_leader`).MatchString(expr)
		if !ofOne && !strings.HasPrefix(expr, "absent(") {
			t.Errorf("%s sums over clusters: %s", name, expr)
		}
		if strings.Contains(expr, "_bucket") && !strings.Contains(expr, "by (cluster, le)") {
			t.Errorf("%s mixes clusters: %s", name, expr)
		}
	}
	if !strings.Contains(names["BatutaClusterGone"], "unless") || names["BatutaAbsent"] == "" {
		t.Error("no alert of a cluster that is dead")
	}
}

// A machine on which nothing but the package was installed founds no cluster of its own.
// try.sh installs the packages and sees to the rest.
func TestDefaultConfigurationWaits(t *testing.T) {
	out, err := exec.Command(batuta(t), "config", "check", "--config", "batuta.yaml").CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if expect, _ := documents(t, "batuta.yaml")[0]["expect"].(int); expect < 2 {
		t.Errorf("expect: %d: a member that is alone would lead", expect)
	}
}

// What the package takes is in the repository, or built by build.sh.
func TestDebContents(t *testing.T) {
	contents, _ := documents(t, "nfpm.yaml")[0]["contents"].([]any)
	if len(contents) == 0 {
		t.Fatal("the package is empty")
	}
	script := read(t, "build.sh")
	for _, c := range contents {
		src, _ := c.(map[string]any)["src"].(string)
		if c.(map[string]any)["type"] == "dir" {
			continue
		}
		if dir, _, built := strings.Cut(src, "/*"); strings.HasPrefix(src, "build/") {
			if !strings.Contains(script, dir) {
				t.Errorf("build.sh does not build %s (%v)", src, built)
			}
			continue
		}
		if _, err := os.Stat("../" + src); err != nil {
			t.Error(err)
		}
	}
}

// The load balancers ask what agents answer.
func TestLoadBalancers(t *testing.T) {
	for path, want := range map[string]string{
		"../examples/haproxy/haproxy.cfg": "option httpchk GET /leader",
		"../examples/nginx/nginx.conf":    "proxy_pass http://127.0.0.1:7500/leader;",
	} {
		text := read(t, path)
		if !strings.Contains(text, want) {
			t.Errorf("%s lacks %q", path, want)
		}
		if open, shut := strings.Count(text, "{"), strings.Count(text, "}"); open != shut {
			t.Errorf("%s: %d braces open, %d shut", path, open, shut)
		}
	}
}

// What GitHub runs exists here: a workflow only calls scripts of the tree.
func TestGitHubRunsWhatIsHere(t *testing.T) {
	for _, path := range []string{"ci", "release"} {
		doc := documents(t, "../.github/workflows/"+path+".yml")[0]
		if doc["permissions"] == nil || doc["jobs"] == nil {
			t.Errorf("%s: %v: give jobs, and permissions as few as they need", path, doc)
		}
	}
	for path, script := range map[string]string{"ci": ".ci/run", "release": "packaging/release.sh"} {
		info, err := os.Stat("../" + script)
		if err != nil || info.Mode()&0o111 == 0 || !strings.Contains(read(t, "../.github/workflows/"+path+".yml"), script) {
			t.Errorf("workflow %s does not run %s, which can be run: %v", path, script, err)
		}
	}
	for _, path := range []string{"bug", "idea", "config"} {
		documents(t, "../.github/ISSUE_TEMPLATE/"+path+".yml")
	}
}
