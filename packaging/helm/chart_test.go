// Package helm tests the chart batuta by Helm's own packages and Kubernetes' own types, and all
// that Kubernetes is given by kustomize's own packages and by kubectl-validate.
package helm

import (
	"cmp"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// values reads a file of the chart's own examples; none without a name.
func values(t *testing.T, name string) map[string]any {
	t.Helper()
	if name == "" {
		return map[string]any{}
	}
	file, err := os.Open(filepath.Join("batuta/ci", name+"-values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	v, err := loader.LoadValues(file)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// render gives the manifests as "helm template" does, or why it gives none.
func render(t *testing.T, v map[string]any) (map[string]string, error) {
	t.Helper()
	chart, err := loader.LoadDir("batuta")
	if err != nil {
		t.Fatal(err)
	}
	all, err := util.ToRenderValues(chart, v, common.ReleaseOptions{Name: "shop", Namespace: "prod", IsInstall: true, Revision: 1}, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

// objects decodes all manifests into Kubernetes' types, which have all of their fields.
func objects(t *testing.T, v map[string]any) (all []runtime.Object) {
	t.Helper()
	files, err := render(t, v)
	if err != nil {
		t.Fatal(err)
	}
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for manifest := range strings.SplitSeq(files[name], "\n---\n") {
			if strings.TrimSpace(manifest) == "" || filepath.Base(name) == "NOTES.txt" {
				continue
			}
			object, _, err := strict.Decode([]byte(manifest), nil, nil)
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, manifest)
			}
			all = append(all, object)
		}
	}
	return all
}

// Helm finds nothing to warn of, whatever the values are, and gives manifests of Kubernetes' own types.
func TestLintAndRender(t *testing.T) {
	for name, want := range map[string]string{
		"":            "PodDisruptionBudget ServiceAccount Role RoleBinding Service Service StatefulSet",
		"sidecar":     "PodDisruptionBudget ServiceAccount Role RoleBinding Secret Service Service StatefulSet",
		"best-effort": "PodDisruptionBudget Service Deployment",
		"engine":      "PodDisruptionBudget ServiceAccount Role RoleBinding Service Deployment",
	} {
		for _, m := range lint.RunAll("batuta", values(t, name), "prod").Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%q: %v", name, m)
			}
		}
		var kinds []string
		for _, o := range objects(t, values(t, name)) {
			kinds = append(kinds, o.GetObjectKind().GroupVersionKind().Kind)
		}
		if got := strings.Join(kinds, " "); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

// Kubernetes' own schemas take every form: the manifests, what kustomize makes of them, and the
// chart with each of its examples. kubectl-validate, which checks that, has the schemas in it. The directory
// BATUTA_TEST_FORMS keeps what is made, for Kubernetes' own API server.
func TestKubernetesTakesTheForms(t *testing.T) {
	dir := cmp.Or(os.Getenv("BATUTA_TEST_FORMS"), t.TempDir())
	find := exec.Command("go", "-C", "../forms", "tool", "-n", "kubectl-validate")
	find.Stderr = t.Output() // where the go command names what it downloads first
	tool, err := find.Output()
	if err != nil {
		t.Fatal(err)
	}
	validate := strings.TrimSpace(string(tool))
	write := func(name string, text []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	text, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	forms := []string{write("kustomization.yaml", text)}
	for _, name := range []string{"deployment", "engine", "sidecar"} {
		forms = append(forms, filepath.Join("../kubernetes", name+".yaml"))
	}
	for _, name := range []string{"", "sidecar", "best-effort", "engine"} {
		files, err := render(t, values(t, name))
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, file := range slices.Sorted(maps.Keys(files)) {
			if strings.TrimSpace(files[file]) != "" && filepath.Base(file) != "NOTES.txt" {
				all = append(all, files[file])
			}
		}
		forms = append(forms, write("chart-"+name+".yaml", []byte(strings.Join(all, "\n---\n"))))
	}
	out, err := exec.Command(validate, forms...).CombinedOutput()
	if err != nil || strings.Count(string(out), "OK") < len(forms) {
		t.Errorf("%v\n%s", err, out)
	}

	// It refuses each fault, so that its silence means something.
	dir = t.TempDir()
	for fault, change := range map[string][2]string{
		"a field that does not exist": {"maxUnavailable: 1", "maxUnavailible: 1"},
		"text for a number":           {"periodSeconds: 5", `periodSeconds: "5"`},
		"no selector":                 {"  selector:\n    matchLabels: {app: batuta}\n  template:", "  template:"},
		"a version that is gone":      {"policy/v1", "policy/v1beta1"},
	} {
		form, err := os.ReadFile("../kubernetes/sidecar.yaml")
		if err != nil {
			t.Fatal(err)
		}
		broken := strings.Replace(string(form), change[0], change[1], 1)
		if broken == string(form) {
			t.Errorf("sidecar.yaml has no %s", change[0])
		}
		if out, err := exec.Command(validate, write("broken.yaml", []byte(broken))).CombinedOutput(); err == nil {
			t.Errorf("%s is taken:\n%s", fault, out)
		}
	}
}

// The schema refuses what no template would notice.
func TestSchemaRefuses(t *testing.T) {
	for name, v := range map[string]map[string]any{
		"a key that does not exist": {"replica": 3},
		"an algorithm as the mode":  {"mode": "bully"},
		"a name that is no label":   {"cluster": "a_b"},
		"no pods":                   {"replicas": 0},
		"a volume without a size":   {"storage": map[string]any{"size": ""}},
		"a size in no unit":         {"storage": map[string]any{"size": "1 GB"}},
		"a volume of no bytes":      {"storage": map[string]any{"size": "0"}},
		"none in a unit":            {"storage": map[string]any{"size": "0.0Gi"}},
		"a port that is none":       {"leaderService": map[string]any{"targetPort": 0}},
		"a port above all":          {"leaderService": map[string]any{"targetPort": 65536}},
		"a port without a name":     {"leaderService": map[string]any{"targetPort": ""}},
		"a port's number as a name": {"leaderService": map[string]any{"targetPort": "8080"}},
		"a container without image": {"containers": []any{map[string]any{"name": "service"}}},
	} {
		if _, err := render(t, v); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	for _, size := range []string{"64Mi", "0.5Gi", "1e9", "10G"} {
		if _, err := render(t, map[string]any{"storage": map[string]any{"size": size}, "leaderService": map[string]any{"targetPort": "web-1"}}); err != nil {
			t.Errorf("%s: %v", size, err)
		}
	}
	_, err := render(t, map[string]any{"secret": map[string]any{"value": "hunter2"}})
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "batuta secret new") {
		t.Errorf("a secret that is none: %v", err)
	}
}

// A cluster may have a name that YAML reads as a number, and the secret outlives the release.
func TestNamesAreText(t *testing.T) {
	for _, mode := range []string{"quorum", "engine"} {
		all := objects(t, map[string]any{"mode": mode, "cluster": "123", "secret": map[string]any{"value": "# new\nbm90IGEgc2VjcmV0LCBhbiBleGFtcGxlIG9mIHRoZSBjaGFydA==\n"}})
		p := split(all)
		if got := p.services["shop-batuta-leader"].Spec.Selector["batuta.dev/cluster"]; got != "123" {
			t.Errorf("%s: the leader's Service selects cluster %q", mode, got)
		}
		if mode == "engine" && p.role.Rules[1].ResourceNames[0] != "123" {
			t.Errorf("the Role is for Lease %q", p.role.Rules[1].ResourceNames)
		}
		for _, o := range all {
			if s, ok := o.(*core.Secret); ok && s.Annotations["helm.sh/resource-policy"] != "keep" {
				t.Error("helm uninstall deletes the secret")
			}
		}
	}
}

// parts are the template of the pods, and what must go with it.
type parts struct {
	pod      core.PodTemplateSpec
	set      *apps.StatefulSet
	services map[string]*core.Service
	role     *rbac.Role
	budget   *policy.PodDisruptionBudget
}

func split(all []runtime.Object) parts {
	p := parts{services: map[string]*core.Service{}}
	for _, object := range all {
		switch o := object.(type) {
		case *apps.StatefulSet:
			p.set, p.pod = o, o.Spec.Template
		case *apps.Deployment:
			p.pod = o.Spec.Template
		case *core.Service:
			p.services[o.Name] = o
		case *rbac.Role:
			p.role = o
		case *policy.PodDisruptionBudget:
			p.budget = o
		}
	}
	return p
}

// covers reports whether a selector finds the pods, with labels that batuta adds.
func covers(selector map[string]string, pod core.PodTemplateSpec, added map[string]string) bool {
	have := maps.Clone(pod.Labels)
	maps.Copy(have, added)
	for key, value := range selector {
		if have[key] != value {
			return false
		}
	}
	return len(selector) > 0
}

// The Services and the budget select the pods; rights are there only where they are used.
func TestPartsFit(t *testing.T) {
	for _, name := range []string{"", "sidecar", "best-effort", "engine"} {
		v := values(t, name)
		p := split(objects(t, v))
		cluster, _ := v["cluster"].(string)
		if cluster == "" {
			cluster = "shop-batuta"
		}
		if !covers(p.budget.Spec.Selector.MatchLabels, p.pod, nil) || !covers(p.pod.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels, p.pod, nil) {
			t.Errorf("%q: the budget or the spread selects no pod", name)
		}
		if s := p.services["shop-batuta"]; (s == nil) != (name == "engine") || s != nil && (!covers(s.Spec.Selector, p.pod, nil) || s.Spec.ClusterIP != "None" || !s.Spec.PublishNotReadyAddresses) {
			t.Errorf("%q: members do not find each other by %v", name, s)
		}
		labels := map[string]string{"batuta.dev/role": "leader", "batuta.dev/cluster": cluster}
		if s := p.services["shop-batuta-leader"]; (s == nil) != (name == "best-effort") || s != nil && (!covers(s.Spec.Selector, p.pod, labels) || covers(s.Spec.Selector, p.pod, nil)) {
			t.Errorf("%q: the Service does not select the leader alone: %v", name, s)
		}
		if p.set != nil && p.set.Spec.ServiceName != "shop-batuta" {
			t.Errorf("%q: the names of the members are not of Service %s", name, p.set.Spec.ServiceName)
		}
		if token := p.pod.Spec.AutomountServiceAccountToken; (p.role == nil) != (name == "best-effort") || (p.role == nil) != (token != nil && !*token) {
			t.Errorf("%q: role %v, token mounted %v", name, p.role, token)
		}
		restricted(t, name, p.pod.Spec)
	}
}

// restricted checks what the restricted profile of Kubernetes' pod security standards asks for, of batuta's container.
func restricted(t *testing.T, name string, pod core.PodSpec) {
	t.Helper()
	c := container(pod)
	of, all := c.SecurityContext, pod.SecurityContext
	if *of.AllowPrivilegeEscalation || !*of.ReadOnlyRootFilesystem || of.Capabilities.Drop[0] != "ALL" || !*of.RunAsNonRoot || *of.RunAsUser != 65532 || *of.RunAsGroup != 65532 || all.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%q: the container has more rights than it needs", name)
	}
	if all.RunAsUser != nil || all.RunAsGroup != nil || all.RunAsNonRoot != nil || *all.FSGroup != 65532 {
		t.Errorf("%q: other containers have batuta's user: %v", name, all)
	}
	if sidecar := len(pod.InitContainers) == 1; sidecar && *c.RestartPolicy != core.ContainerRestartPolicyAlways || !sidecar && c.RestartPolicy != nil {
		t.Errorf("%q: restartPolicy %v of a sidecar: %v", name, c.RestartPolicy, sidecar)
	}
	if probed := c.ReadinessProbe != nil && c.ReadinessProbe.HTTPGet.Path == "/readyz" && c.LivenessProbe.HTTPGet.Path == "/healthz"; probed == (name == "engine") {
		t.Errorf("%q: readiness %v", name, c.ReadinessProbe)
	}
}

func container(pod core.PodSpec) core.Container {
	if len(pod.InitContainers) > 0 {
		return pod.InitContainers[0]
	}
	return pod.Containers[0]
}

// The commands take every flag and variable that the chart gives them.
func TestCommandsTakeWhatTheChartGives(t *testing.T) {
	dir := t.TempDir()
	for program, module := range map[string]string{"batuta": "../..", "batuta-engine": "../../engines"} {
		cmd := exec.Command("go", "-C", module, "build", "-o", filepath.Join(dir, program), "./cmd/"+program)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	key, err := exec.Command(filepath.Join(dir, "batuta"), "secret", "new").Output()
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "cluster.key"), key, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "sidecar", "best-effort", "engine"} {
		c := container(split(objects(t, values(t, name))).pod.Spec)
		program, wrong := "batuta", []string{"config", "check"}
		if strings.HasPrefix(c.Image, "batuta-engine:") {
			program, wrong = "batuta-engine", []string{"agent"}
		}
		in := strings.NewReplacer("$(POD_NAME)", "shop-batuta-0", "$(POD_IP)", "10.0.0.1", "$(POD_NAMESPACE)", "prod", "/secret/", dir+"/", "/data/", dir+"/data")
		cmd := exec.Command(filepath.Join(dir, program), wrong...)
		for _, arg := range c.Args[1:] { // after "agent"
			cmd.Args = append(cmd.Args, in.Replace(arg))
		}
		cmd.Env = []string{"POD_NAME=shop-batuta-0", "HOME=" + dir}
		for _, v := range c.Env {
			if v.ValueFrom == nil {
				cmd.Env = append(cmd.Env, v.Name+"="+in.Replace(v.Value))
			}
		}
		out, err := cmd.CombinedOutput()
		switch program {
		case "batuta": // it reports variables that no flag has
			if err != nil || strings.Contains(string(out), "BATUTA_") {
				t.Errorf("%q: %v: %v: %s", name, cmd.Args, err, out)
			}
		case "batuta-engine": // all flags were read when it looks for its pod
			if !strings.Contains(string(out), "this process is in no pod of Kubernetes") {
				t.Errorf("%q: %v: %v: %s", name, cmd.Args, err, out)
			}
		}
	}
}

// Values that are not described are not found.
func TestValuesAreDescribed(t *testing.T) {
	chart, err := loader.LoadDir("batuta")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("batuta/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range chart.Values {
		keys := []string{key}
		if table, ok := value.(map[string]any); ok && key != "resources" {
			keys = keys[:0]
			for k := range table {
				keys = append(keys, key+"."+k)
			}
			if len(table) == 0 {
				keys = []string{key}
			}
		}
		for _, k := range keys {
			if !strings.Contains(string(text), "`"+k+"`") {
				t.Errorf("README.md does not describe %s", k)
			}
		}
	}
}
