#!/usr/bin/env bash
# Makes the files of HEAD for one platform twice: they are the same, and hold the command, its image and its modules.
# batuta-engine is left out there: compiled anew it would take minutes. Its image is made of what "go build" has made before.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GOFLAGS=-modcacherw RELEASE_PROGRAMS=batuta
platform=$(go env GOOS)/$(go env GOARCH)
git clone -q . "$work/one"
for _ in 1 2; do
	cp "$work/one/build/release/9.8.7/SHA256SUMS" "$work/before" 2>/dev/null || true
	"$work/one/packaging/release.sh" 9.8.7 "$platform" >"$work/one.out" 2>"$work/one.err"
	git -C "$work/one" tag -f v9.8.7 >/dev/null # a build after the tag is the same
done
git -C "$work/one" tag -d v9.8.7 >/dev/null
cmp "$work/before" "$work/one/build/release/9.8.7/SHA256SUMS"
go -C tools run ./moduleproxy "$work/one" "$work/proxy" v0.0.0
(cd "$work/proxy/github.com/batuta-dev/batuta" && find . -name v0.0.0.zip) | sed 's,^\./,,; s,@v/v0.0.0.zip$,v9.8.7,' >"$work/tags"
grep -qx v9.8.7 "$work/tags"
while read -r tag; do # of each module that a user fetches
	grep -q "^git push --atomic origin .*\b$tag\b" "$work/one.out"
done <"$work/tags"
grep -q "needs a heading '## 9.8.7 - " "$work/one.err"
if "$work/one/packaging/release.sh" --push 9.8.7 "$platform" 2>/dev/null; then
	echo "it would tag a commit that CHANGELOG.md does not call 9.8.7" >&2
	exit 1
fi
cd "$work/one/build/release/9.8.7"
sha256sum --quiet -c SHA256SUMS
tar -xzf batuta_*.tar.gz -C "$work"
"$work"/batuta_9.8.7_*/batuta version | grep -q 'batuta 9.8.7,'
"$work"/batuta_9.8.7_*/batuta bench failover --nodes 2 --rounds 1 2>"$work/bench.err" | grep "commit $(git -C "$work/one" rev-parse --short=12 HEAD)," || { cat "$work/bench.err" >&2 && exit 1; }
python3 - batuta_*.cdx.json <<'PY'
import json, sys
parts = {c["name"] for c in json.load(open(sys.argv[1]))["components"]}
assert "github.com/spf13/cobra" in parts, parts
PY

grep -q '^==== github.com/hashicorp/memberlist@' "$work"/batuta_9.8.7_*/NOTICES

# image PROGRAM: the image in PROGRAM.tar holds that program, and nothing else that could be run.
image() {
	local os=${platform%/*}
	mkdir "$work/$1.layout"
	tar -xf "$work/$1.tar" -C "$work/$1.layout"
	python3 - "$work/$1.layout" "$1" "$work/$1" "${platform#*/}" <<'PY'
import gzip, hashlib, io, json, sys, tarfile
layout, name, program, arch = sys.argv[1:]
def blob(descriptor):
    content = open(f"{layout}/blobs/" + descriptor["digest"].replace(":", "/"), "rb").read()
    assert "sha256:" + hashlib.sha256(content).hexdigest() == descriptor["digest"], descriptor
    return content
(index,) = json.load(open(f"{layout}/index.json"))["manifests"]
(manifest,) = json.loads(blob(index))["manifests"]
assert manifest["platform"]["architecture"] == arch, manifest
manifest = json.loads(blob(manifest))
config = json.loads(blob(manifest["config"]))["config"]
assert config["User"] == "65532:65532" and config["Entrypoint"] == ["/" + name] and config["Cmd"] == ["agent"], config
(layer,) = manifest["layers"]
files = tarfile.open(fileobj=io.BytesIO(gzip.decompress(blob(layer))))
kept = {f.name: (f.mode, f.uid) for f in files}
want = {name: (0o755, 0), "NOTICES": (0o644, 0)} | ({"data": (0o700, 65532)} if name == "batuta" else {})
assert kept == want, kept # no shell, no library
assert files.extractfile(name).read() == open(program, "rb").read()
PY
	if command -v skopeo >/dev/null; then # reads it as a registry's client does
		skopeo copy -q "oci-archive:$work/$1.tar:9.8.7" "dir:$work/$1.copied"
		ls "$work/$1.copied/manifest.json" >/dev/null
	fi
	echo "the image of $1 for $os is as it should be"
}
cp batuta_9.8.7_oci.tar "$work/batuta.tar"
cp "$work"/batuta_9.8.7_*/batuta "$work/batuta"
image batuta
cd "$work/one"
go -C engines build -buildvcs=false -ldflags="-X main.release=9.8.7" -o "$work/batuta-engine" ./cmd/batuta-engine
"$work/batuta-engine" --version | grep -q 'batuta-engine 9.8.7,'
packaging/notices.sh "$work/batuta-engine" engines >"$work/batuta-engine.NOTICES"
build/image -name batuta-engine -version 9.8.7 -to "$work/layout" "$platform=$work/batuta-engine"
tar -C "$work/layout" -cf "$work/batuta-engine.tar" .
image batuta-engine
cd build/release/9.8.7
echo "two runs gave the same $(wc -l <SHA256SUMS) files"
