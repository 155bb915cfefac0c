// Command generate builds the lab's simulator into a directory.
package main

import (
	"compress/gzip"
	"context"
	"fmt"
	"os"

	"github.com/batuta-dev/batuta/internal/command/lab"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./generate DIR")
		os.Exit(2)
	}
	files, err := lab.Build(context.Background(), gzip.BestCompression)
	if err == nil {
		err = lab.Write(os.Args[1], files)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
