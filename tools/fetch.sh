#!/usr/bin/env bash
# Serves the modules of HEAD as a release, and uses them as a stranger does. A service fetches the library and leads.
# One that has hashicorp/raft adds it. Both commands are installed, the lab included. It lists the modules that the
# service compiles; its module graph has no other. Another service fetches one adapter, and compiles no library of the
# others. The service in testdata runs as three processes, whose leader is killed, with a quorum and on a real etcd.
set -euo pipefail
cd "$(dirname "$0")"
tools=$PWD
version=$(sed -n 's,.*github.com/batuta-dev/batuta \(v[0-9.]*\)$,\1,p' ../engines/go.mod)

work=$(mktemp -d)
cache=$(go env GOMODCACHE)
forget() { # what an earlier commit served under this version
	chmod -R u+w "$cache/github.com/batuta-dev" 2>/dev/null || true
	rm -rf "$cache/github.com/batuta-dev" "$cache/cache/download/github.com/batuta-dev"
}
trap 'forget; rm -rf "$work"' EXIT
forget
git clone -q .. "$work/clone"
go run ./moduleproxy "$work/clone" "$work/proxy" "$version"
go build -o "$work/servicetry" ./servicetry
GOPROXY="file://$work/proxy,$(go env GOPROXY)"
export GODEBUG=goindex=0 # or the go command goes by the files that an earlier commit had under this version
export GOPROXY GOBIN="$work/bin" GOWORK=off GOFLAGS=-mod=mod GONOSUMDB="github.com/batuta-dev/*"

mkdir "$work/service"
cd "$work/service"
cat >main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election/bully"
)

func main() {
	node, err := batuta.Start(context.Background(), batuta.Config{ID: "1", Algorithm: bully.New(), Listen: "127.0.0.1:0"})
	if err != nil {
		log.Fatal(err)
	}
	err = node.Lead(context.Background(), func(context.Context, batuta.Leadership) error {
		fmt.Println("a service leads")
		return context.Canceled
	})
	fmt.Println(err)
	node.Close()
}
GO
go mod init example.com/service
go get "github.com/batuta-dev/batuta@$version"
go mod tidy
go run .
compiled=$(go list -deps -f '{{with .Module}}{{.Path}}{{end}}' . | grep -v example.com | sort -u)
printf 'A service compiles:\n%s\n' "$compiled"
if [ "$(wc -l <<<"$compiled")" -gt 7 ]; then
	echo "that is more than batuta and six modules" >&2
	exit 1
fi
# golang.org/x/text names three modules for its own tools.
named='golang.org/x/(mod|sync|tools)'
unused=$(go list -m -f '{{if not .Main}}{{.Path}}{{end}}' all | grep -vxF "$compiled" | grep -vxE "|$named" || true)
if [ -n "$unused" ]; then
	printf "it compiles none of these: keep them out of the root's go.mod:\n%s\n" "$unused" >&2
	exit 1
fi

lines=$(wc -l <"$tools/testdata/service/main.go")
changed=$({ diff "$tools/testdata/service/main.go" "$tools/testdata/service/etcd/main.go" || true; } | grep -c '^>')
if [ "$lines" -gt 60 ] || [ "$changed" -gt 5 ]; then
	echo "the service has $lines lines, want at most 60; $changed of them are different on etcd, want at most 5" >&2
	exit 1
fi
try() { # SOURCE MODULES [etcd]
	mkdir "$work/$1"
	cd "$work/$1"
	cp "$tools/testdata/$1/main.go" "$tools/testdata/service/main_test.go" .
	go mod init example.com/service
	go get "$2"
	go mod tidy
	go vet .
	go test .
	go build -o program .
	"$work/servicetry" ./program "${@:3}"
}
rm -r "$work/service"

mkdir "$work/beside"
cd "$work/beside"
cat >main.go <<'GO'
package main

import (
	"fmt"

	_ "github.com/batuta-dev/batuta"
	"github.com/hashicorp/raft"
	_ "github.com/hashicorp/raft-boltdb/v2"
)

func main() { fmt.Println("a service with raft has batuta too:", raft.ProtocolVersionMax) }
GO
go mod init example.com/beside
go get github.com/hashicorp/raft@v1.7.3 github.com/hashicorp/raft-boltdb/v2@v2.3.1
go get "github.com/batuta-dev/batuta@$version"
go mod tidy
go run .

try service "github.com/batuta-dev/batuta/quorum@$version"
try service/etcd "github.com/batuta-dev/batuta/engines@$version" etcd

mkdir "$work/adapted"
cd "$work/adapted"
cat >main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/batuta-dev/batuta"
	batutagocron "github.com/batuta-dev/batuta/adapters/gocron"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/go-co-op/gocron/v2"
)

func main() {
	node, err := batuta.Start(context.Background(), batuta.Config{ID: "1", Algorithm: bully.New(), Listen: "127.0.0.1:0"})
	if err != nil {
		log.Fatal(err)
	}
	defer node.Close()
	_, err = gocron.NewScheduler(gocron.WithDistributedLocker(batutagocron.Locker(node)))
	fmt.Println("a scheduler on batuta:", err)
}
GO
go mod init example.com/adapted
go get "github.com/batuta-dev/batuta/adapters/gocron@$version"
go mod tidy
go run .
compiled=$(go list -deps -f '{{with .Module}}{{.Path}}{{end}}' . | sort -u)
if ! grep -q gocron <<<"$compiled" || grep -E 'k8s.io|google.golang.org/grpc|riverqueue|asynq|opentelemetry' <<<"$compiled"; then
	echo "a service with the adapter for gocron does not compile that adapter's library, or compiles another's" >&2
	exit 1
fi

cd "$work"
go install "github.com/batuta-dev/batuta/cmd/batuta@$version"
go install "github.com/batuta-dev/batuta/engines/cmd/batuta-engine@$version"
"$GOBIN/batuta" demo >"$work/demo"
"$GOBIN/batuta-engine" --help >"$work/help"
"$GOBIN/batuta" lab --static "$work/lab" # compiles the simulator from the module that it was installed from
ls "$work/lab"/*.wasm*
echo "both commands are installed, and run"
