package api_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/batuta-dev/batuta/internal/api/metric"
)

// shown shows metrics in as much of Prometheus' text as the tests here ask for; an agent's text is batutaprom's.
func shown(sources ...metric.Source) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for _, source := range sources {
			for _, f := range source() {
				if f.Err != nil {
					http.Error(w, f.Err.Error(), http.StatusInternalServerError)
					return
				}
				for _, s := range f.Samples {
					if f.Kind == metric.Histogram {
						fmt.Fprintf(w, "%s_count %d\n", f.Name, s.Count)
						continue
					}
					var labels []string
					for i, name := range f.Labels {
						labels = append(labels, fmt.Sprintf("%s=%q", name, s.Labels[i]))
					}
					slices.Sort(labels)
					text := "{" + strings.Join(labels, ",") + "} "
					fmt.Fprintln(w, f.Name+strings.TrimPrefix(text, "{}")+strconv.FormatFloat(s.Value, 'g', -1, 64))
				}
			}
		}
	})
}
