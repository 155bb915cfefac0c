package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

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

// A time that would overflow once it is added to another is refused, in all commands and from all
// sources.
func TestTimesAreBounded(t *testing.T) {
	for text, want := range map[string]bool{"87600h": true, "-87600h": true, "87600h1s": false, "-87600h1s": false, "2562047h": false} {
		var grace time.Duration
		root := &cobra.Command{Use: "root", SilenceErrors: true, SilenceUsage: true}
		sub := &cobra.Command{Use: "sub", Run: func(*cobra.Command, []string) {}}
		sub.Flags().DurationVar(&grace, "grace", 0, "`DURATION` of it")
		root.AddCommand(sub)
		root.SetFlagErrorFunc(FlagError)
		var errs strings.Builder
		code := Execute(t.Context(), root, []string{"sub", "--grace=" + text}, &errs)
		if given, _ := time.ParseDuration(text); (code == Done) != want || want && grace != given {
			t.Errorf("%s: exit code %d, %v: %s", text, code, grace, &errs)
		}
		if !want && !strings.Contains(errs.String(), "give at most 87600h") {
			t.Errorf("%s: the error does not name the bound: %s", text, &errs)
		}
	}
}
