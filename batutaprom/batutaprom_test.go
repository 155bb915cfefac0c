package batutaprom_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutaprom"
	"github.com/batuta-dev/batuta/batutatest"
)

// Two nodes of one process stand in one registry, each under its label.
func TestOneRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := batutatest.New(t, 2)
		c.StartAll()
		c.Agree("2")
		registry := prometheus.NewPedanticRegistry()
		for _, id := range []batuta.ID{"1", "2"} {
			prometheus.WrapRegistererWith(prometheus.Labels{"node": string(id)}, registry).MustRegister(batutaprom.New(c.Node(id)))
		}
		synctest.Wait()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		leads := map[string]float64{}
		var names []string
		for _, f := range families {
			names = append(names, f.GetName())
			if f.GetName() != "batuta_is_leader" {
				continue
			}
			for _, m := range f.GetMetric() {
				leads[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
		if leads["1"] != 0 || leads["2"] != 1 || len(leads) != 2 {
			t.Errorf("leaders %v", leads)
		}
		for _, want := range []string{"batuta_failover_seconds", "batuta_standing", "batuta_longest_silence_seconds"} {
			if !slices.Contains(names, want) {
				t.Errorf("no %s among %q", want, names)
			}
		}
	})
}

// Who forgets the node hears of it where the mistake is, not at the first request.
func TestNil(t *testing.T) {
	for name, f := range map[string]func(){"New": func() { batutaprom.New(nil) }} {
		func() {
			defer func() {
				if s, _ := recover().(string); !strings.Contains(s, "nil node") {
					t.Errorf("%s: %q", name, s)
				}
			}()
			f()
		}()
	}
}
