package prometheus_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	goldaprom "github.com/golda-dev/golda/adapter/prometheus"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func Example() {
	ctx := context.Background()
	count := stage.New("count", behaviour.Func[string](func(_ context.Context, line string) behaviour.Outcome {
		return behaviour.OK(len(strings.Fields(line)))
	}))
	p, err := pipeline.New("words", count)
	if err != nil {
		fmt.Println(err)
		return
	}

	registry := prometheus.NewRegistry()
	registry.MustRegister(goldaprom.NewCollector(p))
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})

	fmt.Println(p.Start(ctx))
	fmt.Println(stage.Call[int](ctx, count, "what a fine day"))
	fmt.Println(p.Stop(ctx))

	// A server would call http.Handle("GET /metrics", metrics).
	answer := httptest.NewRecorder()
	metrics.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text, _ := io.ReadAll(answer.Body)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "golda_pipeline") {
			fmt.Print(line)
		}
	}
	// Output:
	// <nil>
	// 4 <nil>
	// <nil>
	// golda_pipeline_accepted_total{pipeline="words"} 1
	// golda_pipeline_dead_lettered_total{pipeline="words"} 0
	// golda_pipeline_failed_total{pipeline="words"} 0
	// golda_pipeline_in_flight{pipeline="words"} 0
	// golda_pipeline_replied_total{pipeline="words"} 1
	// golda_pipeline_shed_total{pipeline="words"} 0
}
