module github.com/batuta-dev/batuta

go 1.26.0
