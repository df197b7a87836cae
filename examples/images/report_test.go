package main

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golda-dev/golda/examples/internal/show"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stats"
)

// aResult returns a run of three images in two stages, one of which failed.
func aResult() result {
	ms := time.Millisecond
	cpu := 1500 * ms
	return result{
		images: 3, wall: 2 * time.Second, cpu: &cpu, peak: 5 << 20, alive: 2,
		end: pipeline.Snapshot{
			Policy: "erlda", Accepted: 3, Replied: 2, Failed: 1,
			Stages: []stage.Snapshot{
				{
					Name: "load", Pool: "load", Workers: stats.Workers{Live: 1, Most: 2},
					Counts: stats.Counts{Accepted: 3, Submitted: 3, Forwarded: 2, Errors: 1, Crashes: 4, Retries: 4},
					Latency: stats.Latency{
						Wait:    stats.Durations{Count: 3, P50: ms, P99: 1500 * ms},
						Service: stats.Durations{Count: 3, P50: 12345 * time.Nanosecond, P99: 12 * ms},
					},
				},
				{Name: "save", Pool: "other", Counts: stats.Counts{Accepted: 2, Received: 2, OK: 2}, Workers: stats.Workers{Most: 1}},
			},
			Pools: []pipeline.Pool{
				{Name: "shared", Dispatch: controller.Polled, Most: 2, Rounds: 7, Visits: 100, EmptyVisits: 30},
				{Name: "other", Dispatch: controller.SharedFIFO, Most: 1, Visits: 5, EmptyVisits: 1},
			},
		},
	}
}

func TestTheTable(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, aResult().print(&out))
	assert.Equal(t, strings.TrimPrefix(`
  stage  accepted  ok  forwarded  errors  crashes  retries  workers now/most  wait p50/p99  service p50/p99
   load         3   0          2       1        4        4               1/2      1ms/1.5s      12.3µs/12ms
   save         2   2          0       0        0        0        of "other"             -                -

pool "shared", polled: at most 2 workers, 100 visits, 30 of them empty, 7 rounds
pool "other", shared FIFO: at most 1 workers, 5 visits, 1 of them empty, 0 rounds

2 of 3 images in 2s, 1 a second, with 1.5s of CPU; 4 crashes; at most 2 images and 5 MiB in memory; policy erlda
accepted 3 = replied 2 + failed 1 + shed 0 + dead-lettered 0 + in flight 0  balanced
`, "\n"), out.String())
}

func TestTheObject(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, aResult().printJSON(&out))
	//nolint:testifylint // the order of the fields is part of the format
	assert.Equal(t, `{"policy":"erlda","images":3,"ok":2,"failed":1,"dead_lettered":0,"crashes":4,"wall_ms":2000,"images_per_s":1,`+
		`"peak_rss_bytes":5242880,"balanced":true,"stages":[`+
		`{"name":"load","accepted":3,"ok":0,"forwarded":2,"errors":1,"crashes":4,"retries":4,"workers_max":2},`+
		`{"name":"save","accepted":2,"ok":2,"forwarded":0,"errors":0,"crashes":0,"retries":0,"workers_max":1}],`+
		`"cpu_ms":1500,"peak_live_images":2,"rounds":7,"empty_visits":31}`+"\n", out.String())
}

func TestABrokenLawIsReportedInCapitals(t *testing.T) {
	assert.Contains(t, show.Law(pipeline.Snapshot{Accepted: 1}), "NOT BALANCED")
}

func TestProgressWithoutATerminalIsAFewLines(t *testing.T) {
	var out bytes.Buffer
	startProgress(&out, "drawing", 1000, func() int { return 1000 }).done()
	assert.Equal(t, "drawing 1000 of 1000\n", out.String())
}

func TestMetricsAreServed(t *testing.T) {
	l, err := show.Listen(t.Context(), "-metrics", "127.0.0.1:0")
	require.NoError(t, err)
	p, _, err := plan(config{workers: 2, policy: policy.ERLDA{}}, &outbox{}, &census{}, io.Discard)
	require.NoError(t, err)
	stop := show.ServeMetrics(l, p)
	defer http.DefaultClient.CloseIdleConnections()
	defer stop()

	answer, err := http.Get("http://" + l.Addr().String() + "/metrics")
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	for _, name := range stageNames() {
		assert.Contains(t, string(text), `stage="`+name+`"`)
	}
}

func TestAllWorkersRunFromTheStartIfThePolicyDoesNotSetTheirNumber(t *testing.T) {
	rows := []struct {
		policy controller.Policy
		want   int
	}{
		{policy.ERLDA{}, 1},
		{policy.Stealing{}, 1},
		{policy.Cohort{}, 1},
		{policy.Fixed{}, 5},
		{policy.Batching{}, 5},
	}
	for _, row := range rows {
		assert.Equal(t, row.want, fewest(config{workers: 5, policy: row.policy}), row.policy.Name())
	}
}

func TestAnUnknownTimeIsNotZero(t *testing.T) {
	unknown := aResult()
	unknown.cpu = nil
	var out bytes.Buffer
	require.NoError(t, unknown.print(&out))
	assert.Contains(t, out.String(), "with - of CPU")
	out.Reset()
	require.NoError(t, unknown.printJSON(&out))
	assert.NotContains(t, out.String(), "cpu_ms")
}
