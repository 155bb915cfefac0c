module github.com/batuta-dev/batuta

go 1.26.0

require (
	github.com/fxamacker/cbor/v2 v2.9.6
	github.com/google/renameio/v2 v2.0.2
	github.com/google/uuid v1.6.0
	golang.org/x/sys v0.48.0
	golang.org/x/text v0.43.0
)

require github.com/x448/float16 v0.8.4 // indirect
