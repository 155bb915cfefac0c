package main

import "testing"

// Only a command of the user reports that it serves: with an agent, and an address that is held, --on-lead does.
func TestACommandOfTheUserReportsThatItServes(t *testing.T) {
	for what, tt := range map[string]struct {
		job  *job
		want bool
	}{
		"batuta agent":                {nil, false},
		"batuta agent with elections": {&job{}, false},
		"batuta run":                  {&job{argv: []string{"./worker"}}, true},
		"batuta vip":                  {&job{argv: []string{"batuta", "hold-address"}, clear: func() error { return nil }}, false},
	} {
		if got := tt.job.reports(); got != tt.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}
