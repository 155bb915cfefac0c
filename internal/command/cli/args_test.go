package cli

import (
	"testing"

	"github.com/spf13/cobra"
)

// An argument that is empty, as an unset variable of a script is, counts as missing.
func TestAnEmptyArgumentIsMissing(t *testing.T) {
	for args, takes := range map[*[]string]bool{{"4"}: true, {""}: false, {"4", ""}: false, {}: false} {
		for name, check := range map[string]cobra.PositionalArgs{"Exactly": Exactly("ID", "4"), "Several": Several("ID", "4")} {
			if err := check(&cobra.Command{Use: "remove"}, *args); (err == nil) != takes {
				t.Errorf("%s takes %q: %v", name, *args, err)
			}
		}
	}
}
