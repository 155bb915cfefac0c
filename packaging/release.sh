#!/usr/bin/env bash
# Makes all files of a release below build/release/VERSION: archives of both commands for each platform, packages and
# images for Linux, SBOMs and checksums. Two runs at one commit give the same files, tagged or not.
# RELEASE_PROGRAMS=batuta leaves out batuta-engine, which takes minutes to compile for each platform.
# With --push it then tags the commit for each module, and pushes the tags. Without, it prints these commands.
# usage: packaging/release.sh [--push] VERSION [PLATFORM…]     such as: packaging/release.sh 0.1.0 linux/amd64
set -euo pipefail
push=
[ "${1:-}" != --push ] || { push=1 && shift; }
version=${1:?usage: packaging/release.sh [--push] VERSION [PLATFORM…]}
shift
platforms=("$@")
[ $# != 0 ] || platforms=(linux/amd64 linux/arm64 linux/arm darwin/amd64 darwin/arm64 freebsd/amd64)
cd "$(dirname "$0")/.."

missing=() # what a release needs and this commit has not
requires() { ! grep -E '^\s(require )?github.com/batuta-dev/batuta\S* v' "$1" | grep -qvE " v${version//./\\.}$"; }
need() { "${@:2}" || missing+=("$1"); }
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9a-z.]+)?$ ]] || { echo "release.sh: version $version: give one such as 0.1.0, without v" >&2 && exit 2; }
need "every change committed" test -z "$(git status --porcelain)"
need "a heading '## $version - YYYY-MM-DD' in CHANGELOG.md" grep -qE "^## ${version//./\\.} - [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md
tags=("v$version")
while read -r folder; do # each module that others fetch
	need "batuta v$version in $folder/go.mod" requires "$folder/go.mod"
	tags+=("$folder/v$version")
done < <(git ls-files '*/go.mod' | sed 's,/go.mod$,,' | grep -vE '(^|/)(internal/(testkit|\w+test)|examples|packaging|tools)(/|$)')
for tag in "${tags[@]}"; do
	[ -z "$push" ] || need "no tag $tag yet" test -z "$(git tag -l "$tag")"
done
for thing in "${missing[@]}"; do
	echo "release.sh: a release needs $thing" >&2
done
[ -z "$push" ] || [ ${#missing[@]} = 0 ] || exit 1

commit=github.com/batuta-dev/batuta/internal/command/floor.commit=$(git rev-parse HEAD) # what "batuta bench" reports
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH GOARM=7 GOAMD64=v1 GOTOOLCHAIN=local
out=$PWD/build/release/$version
rm -rf "$out" && mkdir -p "$out" build
GOARCH='' go -C packaging/tools build -trimpath -o ../../build/cyclonedx-gomod github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod
GOARCH='' go -C packaging/tools build -trimpath -o ../../build/image ./image

read -ra programs <<<"${RELEASE_PROGRAMS:-batuta batuta-engine}"
declare -A images # the arguments of build/image
rm -rf build/images && mkdir build/images
# pack PROGRAM OS ARCH MODULE: an archive of build/PROGRAM, which MODULE has, and its SBOM
pack() {
	local name=$1_${version}_$2_${3/%arm/armv7}
	rm -rf "build/$name" && mkdir "build/$name"
	cp "build/$1" LICENSE README.md CHANGELOG.md "build/$name"
	packaging/notices.sh "build/$1" "$4" >"build/$name/NOTICES"
	tar --sort=name --owner=0 --group=0 --numeric-owner --mode=go-w --mtime="@$SOURCE_DATE_EPOCH" -C build -cf - "$name" | gzip -9n >"$out/$name.tar.gz"
	build/cyclonedx-gomod bin -json -noserial -notimestamp -version "v$version" -output "$out/$name.cdx.json" "build/$1" 2>build/log || { cat build/log >&2 && exit 1; }
	if [ "$2" = linux ]; then
		mv "build/$name/$1" "build/images/$name"
		mv "build/$name/NOTICES" "build/images/$name.NOTICES"
		images[$1]+=" linux/${3/%arm/arm\/v7}=build/images/$name"
	fi
	rm -rf "build/$name"
}
for platform in "${platforms[@]}"; do
	os=${platform%/*} arch=${platform#*/}
	if [ "$os" = linux ]; then
		(cd "$out" && ../../../packaging/build.sh "$version" "$arch")
	else
		GOOS='' GOARCH='' go generate ./internal/command/lab
		GOOS=$os GOARCH=$arch CGO_ENABLED=0 go build -tags lab -trimpath -buildvcs=false -ldflags="-s -w -X main.release=$version -X $commit" -o build/batuta ./cmd/batuta
	fi
	for program in "${programs[@]}"; do
		module=.
		if [ "$program" = batuta-engine ]; then
			module=engines
			GOOS=$os GOARCH=$arch CGO_ENABLED=0 go -C engines build -trimpath -buildvcs=false -ldflags="-s -w -X main.release=$version" -o ../build/batuta-engine ./cmd/batuta-engine
		fi
		pack "$program" "$os" "$arch" "$module"
	done
done
for program in "${!images[@]}"; do # for podman, skopeo and docker load
	rm -rf build/layout
	# shellcheck disable=SC2086 # one argument a platform
	build/image -name "$program" -version "$version" -created "$SOURCE_DATE_EPOCH" -to build/layout ${images[$program]}
	tar --sort=name --owner=0 --group=0 --numeric-owner --mode=go-w --mtime="@$SOURCE_DATE_EPOCH" -C build/layout -cf "$out/${program}_${version}_oci.tar" .
done
(cd "$out" && sha256sum -- * >SHA256SUMS && cat SHA256SUMS)

did=$([ -n "$push" ] || echo echo)
for tag in "${tags[@]}"; do
	$did git tag -a "$tag" -m "batuta $version"
done
$did git push --atomic origin "${tags[@]}"
