//go:build !linux

package ask

import (
	"errors"
	"time"
)

func inRealTime(func()) error { return errors.New("only Linux has it") }

func sleep(d time.Duration) { time.Sleep(d) }
