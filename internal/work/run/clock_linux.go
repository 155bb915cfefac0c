package run

import "github.com/batuta-dev/batuta/internal/clock"

func now() instant { return instant(clock.Boot()) }
