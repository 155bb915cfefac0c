//go:build !lab

package lab

// carried: this program is built without a simulator.
func carried() map[string][]byte { return nil }
