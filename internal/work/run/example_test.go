package run_test

import (
	"fmt"

	"github.com/batuta-dev/batuta/internal/work/run"
)

// What systemd told batuta is not the command's; what it had under a name is replaced.
func ExampleEnvironment() {
	own := []string{"HOME=/root", "NOTIFY_SOCKET=/run/systemd/notify", "BATUTA_ID=2"}
	fmt.Println(run.Environment(own, "BATUTA_ID=3"))
	// Output: [HOME=/root BATUTA_ID=3]
}
