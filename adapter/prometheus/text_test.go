package prometheus_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	goldaprom "github.com/golda-dev/golda/adapter/prometheus"
)

// samplesOf returns the samples of a scrape, by the text of their labels.
func samplesOf(families []*dto.MetricFamily) map[string]any {
	all := map[string]any{}
	for _, f := range families {
		all[f.GetName()] = f.GetHelp() + f.GetType().String()
		for _, m := range f.GetMetric() {
			var value any = m.GetCounter().GetValue() + m.GetGauge().GetValue()
			if h := m.GetHistogram(); h != nil {
				buckets := map[float64]uint64{}
				for _, b := range h.GetBucket() {
					buckets[b.GetUpperBound()] = b.GetCumulativeCount()
				}
				for bound := range buckets {
					if bound > 1e300 { // a registry leaves +Inf out
						delete(buckets, bound)
					}
				}
				value = []any{h.GetSampleCount(), h.GetSampleSum(), buckets}
			}
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			all[f.GetName()+fmt.Sprint(labels)] = value
		}
	}
	return all
}

func TestTheCollectorsOwnPageHasTheSamplesOfARegistry(t *testing.T) {
	hostile := written()
	hostile.Pipeline = "a\"b\\c\nd"
	hostile.Stages[1].Name = `"{}`
	live, entry := busy(t)
	for n := range 100 {
		require.NoError(t, entry.Submit(t.Context(), n))
	}
	require.NoError(t, live.Stop(t.Context()))
	for name, p := range map[string]goldaprom.Source{"written": written(), "hostile": hostile, "live": live, "empty": still{Pipeline: "empty"}} {
		c := goldaprom.NewCollector(p)
		answer := httptest.NewRecorder()
		c.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		require.Equal(t, http.StatusOK, answer.Code)
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(answer.Body)
		require.NoError(t, err, name)
		assert.Equal(t, samplesOf(gather(t, c)), samplesOf(slices.Collect(maps.Values(families))), name)
	}
}

func TestAPageWithANameThatIsNotUTF8IsAnError(t *testing.T) {
	s := written()
	s.Stages[1].Name = "sa\xffve"
	answer := httptest.NewRecorder()
	goldaprom.NewCollector(s).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	assert.Equal(t, http.StatusInternalServerError, answer.Code)
	assert.Contains(t, answer.Body.String(), "UTF-8")
}

func TestSeveralScrapesOfAPageAtOnceDoNotMix(t *testing.T) {
	var all sync.WaitGroup
	for _, name := range []string{"a", "b", "c"} {
		s := written()
		s.Pipeline = name
		c := goldaprom.NewCollector(s)
		want := ""
		for range 20 {
			answer := httptest.NewRecorder()
			c.ServeHTTP(answer, nil)
			want = answer.Body.String()
		}
		all.Go(func() {
			for range 50 {
				answer := httptest.NewRecorder()
				c.ServeHTTP(answer, nil)
				assert.Equal(t, len(want), answer.Body.Len())
				assert.NotContains(t, strings.ReplaceAll(answer.Body.String(), `pipeline="`+name+`"`, ""), "pipeline=")
			}
		})
	}
	all.Wait()
}
