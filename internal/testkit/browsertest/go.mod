// The tests of the pages stand apart: a library's users need not have the browser's versions.
module github.com/batuta-dev/batuta/internal/testkit/browsertest

go 1.26.0

require (
	github.com/batuta-dev/batuta v0.1.0
	github.com/batuta-dev/batuta/internal/command v0.1.0
	github.com/batuta-dev/batuta/internal/superpeer v0.1.0
	github.com/chromedp/cdproto v0.0.0-20250724212937-08a3db8b4327
	github.com/chromedp/chromedp v0.14.2
)

require (
	github.com/armon/go-metrics v0.4.1 // indirect
	github.com/batuta-dev/batuta/quorum v0.1.0 // indirect
	github.com/chromedp/sysutil v1.1.0 // indirect
	github.com/fxamacker/cbor/v2 v2.9.6 // indirect
	github.com/go-json-experiment/json v0.0.0-20250725192818-e39067aee2d2 // indirect
	github.com/gobwas/httphead v0.1.0 // indirect
	github.com/gobwas/pool v0.2.1 // indirect
	github.com/gobwas/ws v1.4.0 // indirect
	github.com/google/renameio/v2 v2.0.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/hashicorp/go-immutable-radix v1.3.1 // indirect
	github.com/hashicorp/go-metrics v0.6.0 // indirect
	github.com/hashicorp/golang-lru v1.0.2 // indirect
	github.com/hashicorp/serf v0.10.4 // indirect
	github.com/x448/float16 v0.8.4 // indirect
	go.etcd.io/raft/v3 v3.7.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace (
	github.com/batuta-dev/batuta v0.1.0 => ../../..
	github.com/batuta-dev/batuta/internal/command v0.1.0 => ../../command
	github.com/batuta-dev/batuta/internal/superpeer v0.1.0 => ../../superpeer
	github.com/batuta-dev/batuta/quorum v0.1.0 => ../../../quorum
)
