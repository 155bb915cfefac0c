package hooks_test

import (
	"fmt"

	"github.com/batuta-dev/batuta/internal/work/hooks"
)

func ExampleWords() {
	words, err := hooks.Words(`notify --text "a new leader" $HOME`)
	fmt.Printf("%q %v\n", words, err)
	// Output: ["notify" "--text" "a new leader" "$HOME"] <nil>
}
