package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/batuta-dev/batuta/engines/internal/enginetest"
)

// cluster is Kubernetes' own API server without kubelets: what is applied is checked, and no container runs.
type cluster struct {
	*enginetest.Kubernetes
	t        *testing.T
	client   *kubernetes.Clientset
	objects  *dynamic.DynamicClient
	warnings []string
}

// HandleWarningHeader keeps what the API server warns of, except of the user's own container, which has no rights taken away.
func (c *cluster) HandleWarningHeader(_ int, _, text string) {
	if !strings.Contains(text, `(container "service" must`) || strings.Contains(text, `"batuta`) {
		c.warnings = append(c.warnings, text)
	}
}

func serveCluster(t *testing.T) *cluster {
	t.Helper()
	if os.Getenv(enginetest.RealKubernetes) == "" {
		t.Skip(enginetest.RealKubernetes + " names no API server of Kubernetes; see package enginetest")
	}
	c := &cluster{Kubernetes: enginetest.ServeKubernetes(t), t: t}
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig(t, c.Addr))
	if err == nil {
		config.QPS, config.WarningHandler = -1, c
		c.client, err = kubernetes.NewForConfig(config)
	}
	if err == nil {
		c.objects, err = dynamic.NewForConfig(config)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *cluster) create(namespace string, object runtime.Object) {
	c.t.Helper()
	text, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err == nil {
		version := object.GetObjectKind().GroupVersionKind()
		resource := version.GroupVersion().WithResource(strings.ToLower(version.Kind) + "s")
		_, err = c.objects.Resource(resource).Namespace(namespace).Create(c.t.Context(), &unstructured.Unstructured{Object: text}, meta.CreateOptions{})
	}
	if err != nil {
		c.t.Errorf("%s, %T: %v", namespace, object, err)
	}
}

// apply creates the objects of a file in a namespace that admits only pods of the restricted profile. It creates two pods of
// each template, as controllers would, without the user's own containers.
func (c *cluster) apply(namespace, file string) (args []string) {
	c.t.Helper()
	labels := map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	if _, err := c.client.CoreV1().Namespaces().Create(c.t.Context(), &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: namespace, Labels: labels}}, meta.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.create(namespace, &core.ServiceAccount{TypeMeta: meta.TypeMeta{Kind: "ServiceAccount", APIVersion: "v1"}, ObjectMeta: meta.ObjectMeta{Name: "default"}}) // as a controller does
	for _, object := range manifests(c.t, file) {
		c.create(namespace, object)
		var template core.PodTemplateSpec
		switch o := object.(type) {
		case *apps.Deployment:
			template = o.Spec.Template
		case *apps.StatefulSet:
			template = o.Spec.Template
			for _, claim := range o.Spec.VolumeClaimTemplates {
				source := core.VolumeSource{PersistentVolumeClaim: &core.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name + "-0"}}
				template.Spec.Volumes = append(template.Spec.Volumes, core.Volume{Name: claim.Name, VolumeSource: source})
			}
		default:
			continue
		}
		all := append(template.Spec.InitContainers, template.Spec.Containers...)
		all = slices.DeleteFunc(all, func(c core.Container) bool { return !strings.HasPrefix(c.Name, "batuta") })
		args, all[0].RestartPolicy = all[0].Args, nil // a pod has a container that is no sidecar
		template.Spec.InitContainers, template.Spec.Containers = nil, all
		for i := 1; i <= 2; i++ {
			pod := &core.Pod{TypeMeta: meta.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: template.ObjectMeta, Spec: template.Spec}
			pod.Name = fmt.Sprint("pod-", i)
			c.create(namespace, pod)
		}
	}
	if args == nil {
		c.t.Errorf("%s has no pods", file)
	}
	return args
}

// Kubernetes' own API server takes every manifest, and those of the directory BATUTA_TEST_MANIFESTS, without a warning. A
// namespace of the restricted profile admits the pods.
func TestManifestsAreApplied(t *testing.T) {
	t.Parallel()
	c := serveCluster(t)
	files := []string{}
	for _, pattern := range []string{"../../../packaging/kubernetes/*.yaml", os.Getenv("BATUTA_TEST_MANIFESTS")} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	applied := 0
	for i, file := range files {
		if !strings.HasSuffix(file, "kubernetes/kustomization.yaml") { // is of kustomize's
			c.apply(fmt.Sprint("applied-", i), file)
			applied++
		}
	}
	if applied < 3 || len(c.warnings) > 0 {
		t.Errorf("%d of %q are applied, with the warnings %q", applied, files, c.warnings)
	}
}

// The Role of engine.yaml has the rights that its pods use: two processes, in the place of the pods' containers, elect a leader
// and label the pods, and the label moves with leadership. Both answer as Kubernetes' retired leader-elector did.
func TestTheSidecarHasItsRights(t *testing.T) {
	t.Parallel()
	c := serveCluster(t)
	const namespace, account = "shop", "/var/run/secrets/kubernetes.io/serviceaccount"
	args := c.apply(namespace, "../../../packaging/kubernetes/engine.yaml")
	granted, err := c.client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "orders", &authentication.TokenRequest{}, meta.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"namespace": namespace, "token": granted.Status.Token, "ca.crt": c.CA} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(t.TempDir(), "batuta-engine")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	host, port, _ := strings.Cut(c.Addr, ":")
	https := map[string]string{}
	for i, port := range enginetest.Ports(t, 2) {
		https[fmt.Sprint("pod-", i+1)] = fmt.Sprint("localhost:", port)
	}
	start := func(pod string) *exec.Cmd {
		script := `mount -t tmpfs none /var/run && mkdir -p ` + account + ` && cp "$0"/* ` + account + ` && exec "$@"`
		cmd := exec.Command("unshare", "-m", "sh", "-c", script, dir, program)
		for _, arg := range args {
			cmd.Args = append(cmd.Args, strings.ReplaceAll(arg, "$(POD_NAMESPACE)", namespace))
		}
		cmd.Args = append(cmd.Args, "--http="+https[pod], "--lease", "3s")
		cmd.Env = append(os.Environ(), "KUBERNETES_SERVICE_HOST="+host, "KUBERNETES_SERVICE_PORT="+port, "POD_NAME="+pod, "BATUTA_ID="+pod)
		cmd.Stdout, cmd.Stderr, cmd.WaitDelay = t.Output(), t.Output(), time.Second
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		return cmd
	}
	await := func(leader, roles string, serving ...string) {
		t.Helper()
		enginetest.Await(t, "the roles of the pods are "+roles, func(ctx context.Context) error {
			found := ""
			for _, name := range []string{"pod-1", "pod-2"} {
				pod, err := c.client.CoreV1().Pods(namespace).Get(ctx, name, meta.GetOptions{})
				if err != nil {
					return err
				}
				found += pod.Labels["batuta.dev/role"] + " "
			}
			for _, pod := range serving {
				answer, err := http.Get("http://" + https[pod])
				if err != nil {
					return err
				}
				defer answer.Body.Close()
				text, err := io.ReadAll(answer.Body)
				if err != nil || strings.TrimSpace(string(text)) != `{"name":"`+leader+`"}` {
					return fmt.Errorf("%s answers %s, %v", pod, text, err)
				}
			}
			if found != roles {
				return fmt.Errorf("they are %s", found)
			}
			return nil
		})
	}
	first := start("pod-1")
	await("pod-1", "leader  ")
	second := start("pod-2")
	await("pod-1", "leader follower ", "pod-1", "pod-2")
	first.Process.Kill()
	await("pod-2", "follower leader ", "pod-2")
	start("pod-1")
	second.Process.Signal(os.Interrupt)
	await("pod-1", "leader follower ")
}
