// Super peers stand apart: a service that elects a leader need not have the libraries of an overlay.
module github.com/batuta-dev/batuta/superpeer

go 1.26.0

require (
	github.com/batuta-dev/batuta v0.1.0
	github.com/batuta-dev/batuta/internal/superpeer v0.1.0
	github.com/fxamacker/cbor/v2 v2.9.6
	github.com/hashicorp/memberlist v0.6.0 // 0.7 needs go-metrics 0.7, with which raft up to 1.7 does not build
)

require (
	github.com/armon/go-metrics v0.4.1 // indirect
	github.com/google/btree v1.1.3 // indirect
	github.com/hashicorp/errwrap v1.1.0 // indirect
	github.com/hashicorp/go-immutable-radix v1.3.1 // indirect
	github.com/hashicorp/go-metrics v0.6.0 // indirect
	github.com/hashicorp/go-msgpack/v2 v2.1.5 // indirect
	github.com/hashicorp/go-multierror v1.1.1 // indirect
	github.com/hashicorp/go-sockaddr v1.0.7 // indirect
	github.com/hashicorp/golang-lru v1.0.2 // indirect
	github.com/hashicorp/serf v0.10.4 // indirect
	github.com/miekg/dns v1.1.73 // indirect
	github.com/sean-/seed v0.0.0-20170313163322-e2103e2c3529 // indirect
	github.com/x448/float16 v0.8.4 // indirect
	golang.org/x/net v0.59.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)
