package prometheus_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

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

func ExampleAlerts_Rules() {
	p, err := pipeline.New("words", stage.Sink("count", func(context.Context, string) error { return nil }))
	if err != nil {
		fmt.Println(err)
		return
	}
	rules := goldaprom.Alerts{Wait: 5 * time.Second, Crashes: 0.001}.Rules(p)
	for line := range strings.Lines(string(rules)) {
		if strings.Contains(line, "> 5") || strings.Contains(line, "> 0.001") {
			fmt.Println(strings.TrimSpace(line)[:31], "…")
		}
	}
	// Output:
	// golda_stage_oldest_wait_seconds …
	// rate(golda_stage_crashes_total{ …
}

func ExampleDashboard() {
	p, err := pipeline.New("words", stage.Sink("count", func(context.Context, string) error { return nil }))
	if err != nil {
		fmt.Println(err)
		return
	}
	// Grafana imports the file.
	file := filepath.Join(os.TempDir(), "words.json")
	fmt.Println(os.WriteFile(file, goldaprom.Dashboard(p), 0o600), os.Remove(file))
	// Output: <nil> <nil>
}
