package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// What the library words for services is printed and logged for users of a command.
func TestTextsOfTheLibraryNameFlags(t *testing.T) {
	fault := errors.New("give all the same Config.TMax\nand set Config.Advertise to HOST:PORT")
	var out bytes.Buffer
	Execute(context.Background(), &cobra.Command{Use: "batuta", SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) error { return Exit(Failed, fault) }}, nil, &out)
	if want := "batuta: give all the same --t-max; and set --advertise HOST:PORT\n"; out.String() != want {
		t.Errorf("%q is printed, not %q", out.String(), want)
	}
	for _, form := range []string{"text", "json"} {
		var written bytes.Buffer
		o := Output{level: "info", format: form}
		log, err := o.Open(&written)
		if err != nil {
			t.Fatal(err)
		}
		log.Warn("Config.Advertise sets another", "error", fault, "why", "start it with Config.Bootstrap", "n", 3)
		o.Close()
		for _, want := range []string{"--advertise sets another", "the same --t-max", "with --bootstrap", "3"} {
			if !strings.Contains(written.String(), want) {
				t.Errorf("%s: no %q in %s", form, want, written.String())
			}
		}
	}
}
