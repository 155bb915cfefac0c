package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/internal/superpeer"
)

func mustRun(t *testing.T, o Options) *Report {
	t.Helper()
	r, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func churn(t *testing.T, text string) []Change {
	t.Helper()
	c, err := ParseChurn(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// replay is the command that shows a failing run again.
func replay(o Options, churn string) string {
	o = o.Defaults()
	return fmt.Sprintf("replay: batuta sim superpeers --method %s --space %s --nodes %d --fraction %g --capacity %d --rounds %d --churn %q --seed %d",
		o.Method, o.Space, o.Nodes, o.Fraction, o.Capacity, o.Rounds, churn, o.Seed)
}

func TestTheSameSeedGivesTheSameBytes(t *testing.T) {
	for _, space := range []string{"plane2", "internet"} {
		var first string
		for _, procs := range []int{1, 3} {
			before := runtime.GOMAXPROCS(procs)
			r := mustRun(t, Options{Space: space, Nodes: 600, Fraction: 0.02, Capacity: 60, Rounds: 40, Seed: 9, Churn: churn(t, "5%@20,0.2%")})
			runtime.GOMAXPROCS(before)
			r.Seconds = 0
			var b bytes.Buffer
			text, err := json.Marshal(r)
			if err := errors.Join(err, r.WriteCSV(&b), r.WriteSVG(&b), r.WriteTable(&b)); err != nil {
				t.Fatal(err)
			}
			b.Write(text)
			if first == "" {
				first = b.String()
			} else if b.String() != first {
				t.Errorf("%s: another result on %d processors", space, procs)
			}
		}
	}
}

// Whatever happens, nobody serves more than the capacity, and once churn has
// stopped the number is right and everybody is served.
func TestCapacityAndNumberAlwaysHold(t *testing.T) {
	for _, method := range []superpeer.Method{superpeer.Tokens, superpeer.Textbook, superpeer.PrefixExact, superpeer.Random} {
		for _, text := range []string{"none", "10%@40", "30%@40", "+40%@30,-30%@50"} {
			o := Options{Method: method, Nodes: 500, Fraction: 0.02, Capacity: 60, Rounds: 100, Seed: 3, Churn: churn(t, text)}
			r := mustRun(t, o)
			if r.CapViolations != 0 || r.LoadMax > 60 {
				t.Errorf("%d super peers were over capacity; %s", r.CapViolations, replay(o, text))
			}
			if r.Live != r.Wanted || r.NumberMissed != 0 {
				t.Errorf("%d live, %d wanted, wrong in %d rounds after settling; %s", r.Live, r.Wanted, r.NumberMissed, replay(o, text))
			}
			if r.Unserved > 0.01 {
				t.Errorf("%.2f %% unserved at the end; %s", 100*r.Unserved, replay(o, text))
			}
		}
	}
}

// Not a place to spare: each one must be found.
func TestExactCapacity(t *testing.T) {
	o := Options{Nodes: 505, Fraction: 5.0 / 505, Capacity: 100, Rounds: 80, Seed: 2}
	r := mustRun(t, o)
	if r.CapViolations != 0 || r.Unserved > 0.01 {
		t.Errorf("%d over capacity, %.2f %% unserved; %s", r.CapViolations, 100*r.Unserved, replay(o, "none"))
	}
}

func TestSteadyChurn(t *testing.T) {
	o := Options{Nodes: 1000, Fraction: 0.02, Capacity: 70, Rounds: 80, Seed: 5, Churn: churn(t, "0.5%")}
	r := mustRun(t, o)
	if r.CapViolations != 0 {
		t.Errorf("%d super peers were over capacity; %s", r.CapViolations, replay(o, "0.5%"))
	}
	if r.Unserved > 0.05 {
		t.Errorf("%.1f %% unserved; %s", 100*r.Unserved, replay(o, "0.5%"))
	}
}

func TestTokensComeCloseToKMedoids(t *testing.T) {
	for space, most := range map[string]float64{"torus2": 1.08, "plane2": 1.08, "plane3": 1.10, "clustered": 1.15, "internet": 1.6} {
		o := Options{Space: space, Nodes: 1000, Fraction: 0.02, Rounds: 100, Seed: 1}
		r := compare(t, o)
		if r.ratio() > most || r.KMedoids == nil {
			t.Errorf("%.3f × k-medoids, want at most %.2f; %s", r.ratio(), most, replay(o, "none"))
		}
		if r.Mean >= r.Random.Mean {
			t.Errorf("%.2f ms, random choice has %.2f; %s", r.Mean, r.Random.Mean, replay(o, "none"))
		}
	}
}

func TestTextbookSettlesOnATorus(t *testing.T) {
	o := Options{Method: superpeer.Textbook, Space: "torus2", Nodes: 3000, Fraction: 0.01, Seed: 1}
	r := compare(t, o)
	if r.KMedoids == nil || r.ratio() > 1.12 || r.SettledRound == nil || *r.SettledRound > 100 {
		t.Errorf("%.3f × k-medoids, settled %s; %s", r.ratio(), maybe("%d", r.SettledRound), replay(o, "none"))
	}
}

func TestARecoveryIsQuick(t *testing.T) {
	o := Options{Nodes: 3000, Fraction: 0.01, Rounds: 90, Seed: 4, Churn: churn(t, "10%@60")}
	r := mustRun(t, o)
	v := r.Recovery[0]
	if v.Served == nil || *v.Served > 10 || v.Latency > 1.05 {
		t.Errorf("99.9 %% served after %s rounds, latency × %.3f after 20; %s", maybe("%d", v.Served), v.Latency, replay(o, "10%@60"))
	}
}

func TestAMatrixIsASpace(t *testing.T) {
	m, err := ReadMatrix(strings.NewReader(matrixOf(newInternet(200, 3))))
	if err != nil {
		t.Fatal(err)
	}
	r := compare(t, Options{RTT: m, Fraction: 0.05, Capacity: 25, Rounds: 120, Seed: 1})
	if r.Space != "rtt" || r.Nodes != 200 || r.CapViolations != 0 || r.KMedoids == nil || r.ratio() > 1.4 {
		t.Errorf("%s of %d nodes: %d over capacity, %.3f × k-medoids", r.Space, r.Nodes, r.CapViolations, r.ratio())
	}
}

func TestOptionsAreRefusedWithTheirRange(t *testing.T) {
	for want, o := range map[string]Options{
		"nodes 5: want 10 to":             {Nodes: 5},
		"fraction 1.5":                    {Fraction: 1.5},
		"rounds -1: want 1 to":            {Rounds: -1},
		`space "moon": want one of`:       {Space: "moon"},
		"capacity -2":                     {Capacity: -2},
		"capacity 10 = 1000 places":       {Capacity: 10},
		"churn in round 500":              {Churn: []Change{{At: 500}}},
		"nodes 200000: want 10 to 100000": {Space: "internet", Nodes: 200000},
	} {
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}

func TestParseChurn(t *testing.T) {
	got := churn(t, "10%@60, +0.5@7,-20%@9,0.5%")
	want := []Change{{0.1, 0.1, 60}, {0.5, 0, 7}, {0, 0.2, 9}, {0.005, 0.005, -1}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, bad := range []string{"x", "10%@", "0%@3", "120%@3", "+-5%@3", "10%@-4", ",", "nan@3"} {
		if _, err := ParseChurn(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestTokensUnderACapComeCloseToTheReference(t *testing.T) {
	o := Options{Nodes: 500, Fraction: 0.02, Capacity: 60, Rounds: 60, Seed: 1}
	if r := compare(t, o); r.KMedoids == nil || r.ratio() >= 1.2 {
		t.Errorf("%.3f × the capacitated reference, want less than 1.2; %s", r.ratio(), replay(o, "none"))
	}
}

func ExampleRun() {
	r, err := Run(Options{Nodes: 500, Fraction: 0.02, Capacity: 60, Rounds: 60, Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Live, r.Wanted, r.CapViolations)
	// Output: 10 10 0
}
