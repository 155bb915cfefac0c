#!/bin/sh
# Builds batuta_VERSION_ARCH.deb and batuta-VERSION.ARCH.rpm in the current directory,
# from any other. What it needs of modules is in the module cache or fetched into it.
# usage: packaging/build.sh VERSION [ARCH]     arm is built for ARMv7 if GOARM=7
set -eu
VERSION=${1:?usage: packaging/build.sh VERSION [ARCH]}
GOARCH=${2:-$(go env GOARCH)}
export VERSION GOARCH
to=$(pwd)
cd "$(dirname "$0")/.."
commit=github.com/batuta-dev/batuta/internal/command/floor.commit=$(git rev-parse HEAD 2>/dev/null || echo unknown) # what "batuta bench" reports
rm -rf build/man # may have pages of commands that are no longer there
mkdir -p build/man build/completion
GOARCH='' go generate ./internal/command/lab # the simulator of "batuta lab", which the program carries
GOOS=linux CGO_ENABLED=0 go build -tags lab -trimpath -buildvcs=false -ldflags="-s -w -X main.release=$VERSION -X $commit" -o build/batuta ./cmd/batuta
GOARCH='' go run ./cmd/batuta man build/man
gzip -9n build/man/*.1
packaging/notices.sh build/batuta >build/NOTICES
gzip -9nc CHANGELOG.md >build/changelog.gz
GOARCH='' go run ./cmd/batuta completion bash > build/completion/batuta.bash
GOARCH='' go run ./cmd/batuta completion zsh > build/completion/_batuta
GOARCH='' go run ./cmd/batuta completion fish > build/completion/batuta.fish
GOARCH='' go -C packaging/tools build -o ../../build/nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm
[ "$GOARCH" != arm ] || GOARCH=arm7 # what nfpm calls it
for kind in deb rpm; do
	build/nfpm package -f packaging/nfpm.yaml -p "$kind" -t "$to"
done
