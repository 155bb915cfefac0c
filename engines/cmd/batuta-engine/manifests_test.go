package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

// manifests decodes the objects of a file strictly, into Kubernetes' own types.
func manifests(t *testing.T, path string) (all []runtime.Object) {
	t.Helper()
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for documents := yaml.NewYAMLReader(bufio.NewReader(file)); ; {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(string(text)) == "" {
			continue
		}
		object, _, err := strict.Decode(text, nil, nil)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		all = append(all, object)
	}
}

// The manifests are of Kubernetes' own types and nothing else. Every pod has what the restricted profile of its pod security
// standards asks for, and batuta-engine takes its flags.
func TestManifests(t *testing.T) {
	paths, _ := filepath.Glob("../../../packaging/kubernetes/*.yaml")
	engines := 0
	for _, path := range paths {
		if filepath.Base(path) == "kustomization.yaml" {
			continue // is of kustomize's
		}
		for _, object := range manifests(t, path) {
			var pod core.PodSpec
			switch o := object.(type) {
			case *apps.Deployment:
				pod = o.Spec.Template.Spec
			case *apps.StatefulSet:
				pod = o.Spec.Template.Spec
			default:
				continue
			}
			if pod.SecurityContext.SeccompProfile == nil || len(pod.TopologySpreadConstraints) == 0 || len(pod.InitContainers) != 1 || *pod.InitContainers[0].RestartPolicy != core.ContainerRestartPolicyAlways {
				t.Errorf("%s: a pod lacks a seccomp profile, a spread, or a native sidecar", path)
			}
			for _, c := range append(pod.InitContainers, pod.Containers...) {
				if strings.HasPrefix(c.Name, "batuta") && (c.SecurityContext == nil || *c.SecurityContext.AllowPrivilegeEscalation || !*pod.SecurityContext.RunAsNonRoot) {
					t.Errorf("%s: container %s has more rights than it needs", path, c.Name)
				}
				if c.Name == "batuta-engine" {
					engines++
					cmd, _, err := newRootCommand(env{lookup: os.LookupEnv}).Find(c.Args)
					if err == nil {
						err = cmd.ParseFlags(c.Args[1:])
					}
					if err != nil || cmd.Name() != "agent" {
						t.Errorf("%s: %v: %v", path, c.Args, err)
					}
				}
			}
		}
	}
	if engines != 1 {
		t.Errorf("%d manifests run batuta-engine", engines)
	}
}
