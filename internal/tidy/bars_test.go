// Package tidy holds the tests of the architecture: measured figures and their bars.
package tidy

import (
	"bufio"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "lower the exceptions in bars.txt to today's figures")

const exceptionsFile = "internal/tidy/bars.txt"

// TestMain runs the tests at the top of the repository, whose paths they name.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// bars are what a new part may reach. A part that is above a bar today stands in bars.txt
// with its figure, which may fall and not rise.
var bars = map[string]float64{
	"methods": 60,     // of a type
	"files":   15,     // of a package, without tests
	"loop":    5,      // files of a package that call each other in a circle
	"who":     1,      // who, whom, whose, whoever in 1,000 words of a package's comments
	"tell":    1.6,    // tell, say, hear and word
	"one":     5,      // one, another, other, nobody
	"public":  15,     // packages that a module outside can import
	"root":    17,     // source files of the root package
	"lines":   60_000, // of a module, without tests and their kits
}

// TestBars compares the figures of the tree with the bars. To see all figures:
//
//	go test ./internal/tidy -run TestBars -v
func TestBars(t *testing.T) {
	exceptions := readExceptions(t, exceptionsFile)
	figures := measure(t, ".")
	above := map[figure]float64{}
	for f, value := range figures {
		bar, listed := bars[f.bar], exceptions[f]
		if value > bar {
			above[f] = value
		}
		if value > max(bar, listed) {
			t.Errorf("%s of %s: %s, and the bar is %s. Split the part, or reword its comments", f.bar, f.of, number(value), number(max(bar, listed)))
		}
	}
	for f := range exceptions {
		if _, still := above[f]; !still && !*update {
			t.Errorf("bars.txt lists %s of %s, which is below the bar now: run go test ./internal/tidy -run TestBars -update", f.bar, f.of)
		}
	}
	if *update {
		writeExceptions(t, exceptionsFile, "TestBars", above, exceptions)
	}
	for _, f := range slices.SortedFunc(maps.Keys(above), byBar) {
		t.Logf("above the bar: %-8s %-28s %s", f.bar, f.of, number(above[f]))
	}
	for _, f := range slices.SortedFunc(maps.Keys(figures), byBar) {
		if slices.Contains([]string{"public", "root", "lines"}, f.bar) {
			t.Logf("%s of %s: %s", f.bar, f.of, number(figures[f]))
		}
	}
}

// A figure is measured of a type, a package or the module.
type figure struct{ bar, of string }

func byBar(a, b figure) int { return cmp.Or(cmp.Compare(a.bar, b.bar), cmp.Compare(a.of, b.of)) }

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func readExceptions(t *testing.T, path string) map[figure]float64 {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	list := map[figure]float64{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		value, err := strconv.ParseFloat(words[len(words)-1], 64)
		if err != nil || len(words) < 3 {
			t.Fatalf("%s: %q is not BAR NAME NUMBER", path, lines.Text())
		}
		list[figure{words[0], strings.Join(words[1:len(words)-1], " ")}] = value
	}
	return list
}

// writeExceptions lists what is above its bar still, with the lower of both figures. What was not
// listed before is not added: its test fails, and so it does the next time.
func writeExceptions(t *testing.T, path, test string, above, before map[figure]float64) {
	t.Helper()
	var text strings.Builder
	fmt.Fprintf(&text, "# What is above a bar of %s, with its figure: it may fall, not rise.\n# To lower the figures after a change: go test ./internal/tidy -run %[1]s -update\n", test)
	for _, f := range slices.SortedFunc(maps.Keys(before), byBar) {
		if value, still := above[f]; still {
			fmt.Fprintf(&text, "%s %s %s\n", f.bar, f.of, number(min(value, before[f])))
		}
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestUpdateOnlyLowersTheExceptions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bars.txt")
	before := map[figure]float64{{"loop", "falls"}: 9, {"loop", "rises"}: 7, {"files", "fits now"}: 20}
	above := map[figure]float64{{"loop", "falls"}: 6, {"loop", "rises"}: 8, {"loop", "new"}: 6}
	writeExceptions(t, path, "TestBars", above, before)
	want := map[figure]float64{{"loop", "falls"}: 6, {"loop", "rises"}: 7}
	if got := readExceptions(t, path); !maps.Equal(got, want) {
		t.Errorf("the file lists %v, not %v", got, want)
	}
}
