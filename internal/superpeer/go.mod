// The rules of super peers stand apart: a service that elects a leader need not have the libraries of an overlay.
module github.com/batuta-dev/batuta/internal/superpeer

go 1.26.0

require github.com/hashicorp/serf v0.10.4 // 0.11 needs it, too

require (
	github.com/armon/go-metrics v0.4.1 // indirect
	github.com/hashicorp/go-immutable-radix v1.3.1 // indirect
	github.com/hashicorp/go-metrics v0.6.0 // indirect
	github.com/hashicorp/golang-lru v1.0.2 // indirect
)
