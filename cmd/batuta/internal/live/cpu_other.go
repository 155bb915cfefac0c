//go:build !unix

package live

import "time"

// cpuTime cannot be measured here.
func cpuTime() time.Duration { return 0 }
