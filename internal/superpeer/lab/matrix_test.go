package lab

import (
	"fmt"
	"strings"
	"testing"
)

func TestBadMatricesAreRefusedWithRowAndColumn(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "row 1, column 1: the matrix is empty"},
		{"blank", "\n \n", "row 1, column 1: the matrix is empty"},
		{"one host", "0", "row 1, column 1: one host is too few"},
		{"short row", "0,1,2\n1,0\n2,3,0\n", "row 2, column 3: the matrix is not square"},
		{"long row", "0,1\n1,0,5\n", "row 2, column 3: the matrix is not square"},
		{"too few rows", "0,1,2\n1,0,3\n", "row 3, column 1: the matrix is not square"},
		{"too many rows", "0,1\n1,0\n2,3\n", "row 3, column 1: the matrix is not square"},
		{"negative", "0,1\n-1,0\n", "row 2, column 1: -1 is negative"},
		{"NaN", "0,nan\n1,0\n", "row 1, column 2: NaN"},
		{"infinite", "0,1\ninf,0\n", "row 2, column 1: +Inf ms is over a minute"},
		{"a word", "0,a\n1,0\n", `row 1, column 2: "a" is not a number`},
		{"missing", "0,,2\n1,0,3\n2,3,0\n", `row 1, column 2: "" is not a number`},
		{"asymmetric", "0,10,20\n90,0,30\n20,30,0\n", "row 1, column 2: asymmetric beyond use: 1 of 3 pairs"},
	} {
		_, err := ReadMatrix(strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestGoodMatricesAreRead(t *testing.T) {
	for name, text := range map[string]string{
		"commas":     "0,10\n12,0\n",
		"spaces":     "0 10\n12 0",
		"semicolons": "0;10\r\n12;0\r\n",
		"diagonal":   "3,10\n12,4\n",
	} {
		m, err := ReadMatrix(strings.NewReader(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		s := measured{m}
		if m.Size() != 2 || s.rtt(0, 1) != 11 || s.rtt(1, 0) != 11 || s.rtt(1, 1) != 0 {
			t.Errorf("%s: %d hosts, round trips %v, want 2 hosts 11 ms apart", name, m.Size(), m.data)
		}
	}
}

// matrixOf writes the round trips of a space, for tests that want a matrix.
func matrixOf(s space) string {
	var b strings.Builder
	for i := range int32(s.size()) {
		for j := range int32(s.size()) {
			if j > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "%.3f", s.rtt(i, j))
		}
		b.WriteByte('\n')
	}
	return b.String()
}
