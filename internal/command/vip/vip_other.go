//go:build !linux

package vip

import (
	"context"
	"errors"
	"runtime"
)

var errSystem = errors.New("floating addresses need Linux, and this is " + runtime.GOOS)

// Check reports why addresses cannot be held here.
func Check(Config) error { return errSystem }

// Clear removes addresses that an earlier process has left.
func Clear(Config) error { return errSystem }

// Hold adds the addresses and keeps them until ctx ends.
func Hold(context.Context, Config) error { return errSystem }
