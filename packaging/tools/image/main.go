// Command image writes an OCI image, for several platforms, as a directory in the OCI layout. It needs no daemon.
//
//	image -name batuta -version 0.1.0 -to DIR linux/amd64=build/batuta linux/arm64=…
//
// The image of a platform has a single layer: the program, its licences of FILE.NOTICES and, for batuta, an empty /data.
// It has no shell, and runs as the user nobody.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const nobody = 65532

func main() {
	name, version := flag.String("name", "batuta", "`NAME` of the program"), flag.String("version", "", "`VERSION` of the release")
	to, created := flag.String("to", "", "`DIR` to make"), flag.Int64("created", 0, "Unix `TIME` of the commit")
	flag.Parse()
	if err := write(*name, *version, *to, time.Unix(*created, 0).UTC(), flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "image %s: %v\n", *name, err)
		os.Exit(1)
	}
}

// write makes the layout; each argument is PLATFORM=FILE.
func write(name, version, to string, created time.Time, programs []string) error {
	if to == "" || version == "" || len(programs) == 0 {
		return errors.New("give -to DIR, -version VERSION and PLATFORM=FILE")
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range programs {
		of, file, ok := strings.Cut(p, "=")
		platform, err := v1.ParsePlatform(of)
		if err != nil || !ok {
			return fmt.Errorf("%s: give PLATFORM=FILE, such as linux/arm/v7=build/batuta: %w", p, err)
		}
		image, err := build(name, version, file, created, *platform)
		if err != nil {
			return fmt.Errorf("%s: %w", of, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	path, err := layout.Write(to, empty.Index)
	if err != nil {
		return err
	}
	return path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": version,              // as skopeo and podman look for it
		"io.containerd.image.name":          name + ":" + version, // as docker load does
	}))
}

// build makes the image of a platform.
func build(name, version, file string, created time.Time, platform v1.Platform) (v1.Image, error) {
	content, err := pack(name, file, created)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.AppendLayers(image, layer); err != nil {
		return nil, err
	}
	config := v1.Config{
		User: fmt.Sprintf("%d:%d", nobody, nobody), Entrypoint: []string{"/" + name}, Cmd: []string{"agent"},
		Labels: map[string]string{
			"org.opencontainers.image.title":    name,
			"org.opencontainers.image.version":  version,
			"org.opencontainers.image.source":   "https://github.com/batuta-dev/batuta",
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	if name == "batuta" { // as packaging/Dockerfile has it
		config.Env = []string{"BATUTA_DATA_DIR=/data", "BATUTA_LISTEN=0.0.0.0:7400", "BATUTA_HTTP=127.0.0.1:7500"}
		config.ExposedPorts, config.Volumes = map[string]struct{}{"7400/tcp": {}}, map[string]struct{}{"/data": {}}
		config.Healthcheck = &v1.HealthConfig{Test: []string{"CMD", "/batuta", "leader"}, Interval: 5 * time.Second, Timeout: 3 * time.Second}
	}
	all, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	all = all.DeepCopy()
	all.OS, all.Architecture, all.Variant, all.Created, all.Config = platform.OS, platform.Architecture, platform.Variant, v1.Time{Time: created}, config
	for i := range all.History {
		all.History[i] = v1.History{Created: v1.Time{Time: created}, CreatedBy: "packaging/release.sh"}
	}
	return mutate.ConfigFile(image, all)
}

// pack returns the layer.
func pack(name, file string, created time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range []struct {
		name, from string
		mode       int64
	}{{name, file, 0o755}, {"NOTICES", file + ".NOTICES", 0o644}} {
		content, err := os.ReadFile(f.from)
		if err != nil {
			return nil, err
		}
		if err := w.WriteHeader(&tar.Header{Name: f.name, Typeflag: tar.TypeReg, Mode: f.mode, Size: int64(len(content)), ModTime: created}); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	if name == "batuta" {
		if err := w.WriteHeader(&tar.Header{Name: "data/", Typeflag: tar.TypeDir, Mode: 0o700, Uid: nobody, Gid: nobody, ModTime: created}); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
