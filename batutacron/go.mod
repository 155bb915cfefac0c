// The reader of cron schedules stands apart: a service that elects a leader need not have it.
module github.com/batuta-dev/batuta/batutacron

go 1.26.0

require (
	github.com/batuta-dev/batuta v0.1.0
	github.com/netresearch/go-cron v0.9.1
)

require (
	github.com/fxamacker/cbor/v2 v2.9.6 // indirect
	github.com/google/renameio/v2 v2.0.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/x448/float16 v0.8.4 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)
