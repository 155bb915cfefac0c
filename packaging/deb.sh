#!/bin/sh
# Builds batuta_VERSION_ARCH.deb in the current directory, from any other.
# usage: packaging/deb.sh VERSION [ARCH]
set -eu
VERSION=${1:?usage: packaging/deb.sh VERSION [ARCH]}
GOARCH=${2:-$(go env GOARCH)}
export VERSION GOARCH
to=$(pwd)
cd "$(dirname "$0")/.."
mkdir -p build/man build/completion
GOARCH='' go generate ./internal/lab # the simulator of "batuta lab", which the program carries
CGO_ENABLED=0 go build -tags lab -trimpath -ldflags="-s -w" -o build/batuta ./cmd/batuta
GOARCH='' go run ./cmd/batuta man build/man
GOARCH='' go run ./cmd/batuta config show --expect 3 > build/batuta.yaml
GOARCH='' go run ./cmd/batuta completion bash > build/completion/batuta.bash
GOARCH='' go run ./cmd/batuta completion zsh > build/completion/_batuta
GOARCH='' go run ./cmd/batuta completion fish > build/completion/batuta.fish
GOARCH='' go -C packaging/tools build -o ../../build/nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm
build/nfpm package -f packaging/nfpm.yaml -p deb -t "$to"
