module github.com/batuta-dev/batuta/clients/go

go 1.26.0
