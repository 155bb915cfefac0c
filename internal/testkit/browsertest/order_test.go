package browsertest

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/batuta-dev/batuta/election"
)

// The dashboard orders ids as batuta status does.
func TestTheDashboardOrdersIDsAsTheStatusDoes(t *testing.T) {
	b := agentOf(t)
	for _, ids := range [][]election.ID{
		{"0", "2", "10", "9007199254740993", "9007199254740992", "123456789012345678901234567890"},
		{"10.0.0.9", "10.0.0.10", "9.255.0.1", "::1", "2001:db8::9", "2001:db8::10", "2001:db8:0:0:1::", "fe80::1%eth1", "fe80::1%eth0", "fe80::1", "ff02::"},
		{"b", "a", "B", "node-10", "node-9", "é", "z", "\uffee", "\U0001f600", "ab", "1.2.3.4.5", "1.2.3.256", "01.2.3.4", "a:b", "1:2"},
		{"0190a6f8-0000-7000-8000-000000000000", "f190a6f8-0000-7000-8000-000000000000", "a190a6f8-0000-7000-8000-000000000000"},
	} {
		text, err := json.Marshal(ids)
		if err != nil {
			t.Fatal(err)
		}
		got := eval[[]election.ID](b, "import('/ui/order.js').then(({ byID }) => "+string(text)+".sort(byID))")
		slices.SortFunc(ids, election.ID.Compare)
		if !slices.Equal(got, ids) {
			t.Errorf("got %v, want %v", got, ids)
		}
	}
}
