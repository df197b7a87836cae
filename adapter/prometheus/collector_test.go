package prometheus_test

import (
	"context"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	goldaprom "github.com/golda-dev/golda/adapter/prometheus"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/histogram"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/operate"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
	"github.com/golda-dev/golda/stage/stats"
)

var rewrite = flag.Bool("rewrite", false, "rewrite testdata/scrape.txt and docs/metrics")

// still is a source whose snapshot never changes.
type still pipeline.Snapshot

func (s still) Snapshot() pipeline.Snapshot { return pipeline.Snapshot(s) }

// written is a snapshot in which all numbers differ, so that none can be mistaken for another.
func written() still {
	all := still{
		Pipeline: "images",
		Accepted: 1001, Replied: 1002, Failed: 1003, Shed: 1004, DeadLettered: 1005, InFlight: 1006,
		Decided: []controller.Decided{{Owner: "load", Knob: "workers", Changes: 501}, {Owner: "save", Knob: "workers", Changes: 502}},
		Stages: []stage.Snapshot{
			{
				Name: "load", Paused: true, Draining: true,
				Queue: stats.Queue{
					Queued: 111, Oldest: 2250 * time.Millisecond, InHand: 112, Suspended: 111, Delayed: 113, Waiting: 183, Submitters: 184, Capacity: 114, RateKeys: 129, FairKeys: 130, FairMost: 131,
				},
				Workers: stats.Workers{
					Live: 118, Busy: 119, Blocked: 181, Idle: 182, Min: 120, Max: 121, Most: 122, Instances: 125, CrashStreak: 15, Keys: 132, Abandoned: 133,
				},
				Counts: stats.Counts{
					Accepted: 101, Submitted: 102, Received: 103, Rejected: 10,
					OK: 105, Forwarded: 106, Errors: 107, Shed: 5, DeadLettered: 13, Emitted: 110,
					Crashes: 115, Retries: 116, RetriesRefused: 128, Restarts: 117, Stuck: 134, Passivated: 135, Visits: 126, EmptyVisits: 127,
					BusyTime: 1500 * time.Millisecond, BlockedTime: 2500 * time.Millisecond, IdleTime: 3500 * time.Millisecond,
					RateWait: 4500 * time.Millisecond,
				},
				Reasons: stats.Reasons{
					Rejected:     map[reason.Reason]uint64{reason.Full: 4, reason.Type: 6},
					Shed:         map[reason.Reason]uint64{reason.Oldest: 5},
					DeadLettered: map[reason.Reason]uint64{reason.Crash: 2, "of_tomorrow": 11},
				},
				Latency: stats.Latency{
					Wait:    counted(map[time.Duration]uint64{250 * time.Microsecond: 120, 2 * time.Second: 2, time.Hour: 1}),
					Service: counted(map[time.Duration]uint64{0: 1, 500 * time.Nanosecond: 100, 40 * time.Millisecond: 23}),
				},
			},
			{Name: "save", Queue: stats.Queue{Capacity: 1024}, Workers: stats.Workers{Min: 1, Max: 8}},
		},
		Pools: []pipeline.Pool{
			{Name: "shared", Stages: []string{"load", "save"}, Workers: 201, Rounds: 202, Visits: 203, EmptyVisits: 204},
		},
		Feeds: []pipeline.FeedSnapshot{
			{Name: "lines", Stage: "load", Submitted: 301, Refused: 302, Restarts: 303, Position: 304, Total: 305, Checkpoint: 306},
		},
	}
	edge := all.Stages[0].Edges[:0]
	edge = append(edge, struct {
		To, Port string
		Back     bool
		Moved    uint64
	}{"save", "out", false, 401})
	all.Stages[0].Edges = edge
	return all
}

func counted(samples map[time.Duration]uint64) stats.Durations {
	var h histogram.Histogram
	for d, n := range samples {
		h.Record(d, n)
	}
	return h.Durations()
}

// Run go test ./adapter/prometheus -rewrite to rewrite the text.
func TestAScrapeShowsTheWholeSnapshot(t *testing.T) {
	const file = "testdata/scrape.txt"
	c := goldaprom.NewCollector(written())
	if *rewrite {
		var text strings.Builder
		for _, family := range gather(t, c) {
			_, err := expfmt.MetricFamilyToText(&text, family)
			require.NoError(t, err)
		}
		require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o644))
	}
	want, err := os.Open(file)
	require.NoError(t, err)
	defer want.Close()
	require.NoError(t, testutil.CollectAndCompare(c, want))
}

func TestTheNamesFollowThePrometheusConventions(t *testing.T) {
	problems, err := testutil.CollectAndLint(goldaprom.NewCollector(written()))
	require.NoError(t, err)
	assert.Empty(t, problems)
}

func TestTheOnlyLabelsArePipelineStagePoolFeedStoreReasonToPortOwnerAndKnob(t *testing.T) {
	for _, family := range append(gather(t, goldaprom.NewCollector(written())), gather(t, goldaprom.NewCollector(shop(t)))...) {
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				assert.Contains(t, []string{"pipeline", "stage", "pool", "feed", "store", "reason", "to", "port", "owner", "knob"}, l.GetName(), family.GetName())
			}
		}
	}
}

func TestOneScrapeTakesOneSnapshot(t *testing.T) {
	counted := &counting{still: written()}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(goldaprom.NewCollector(counted))
	before := counted.snapshots
	_, err := registry.Gather()
	require.NoError(t, err)
	assert.Equal(t, 1, counted.snapshots-before)
}

type counting struct {
	still
	snapshots int
}

func (c *counting) Snapshot() pipeline.Snapshot {
	c.snapshots++
	return c.still.Snapshot()
}

func TestSeveralPipelinesShareARegistry(t *testing.T) {
	first, second := written(), written()
	second.Pipeline = "letters"
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(goldaprom.NewCollector(first)))
	require.NoError(t, registry.Register(goldaprom.NewCollector(second)))

	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP golda_pipeline_accepted_total Commands that the pipeline accepted or that its handlers emitted.
# TYPE golda_pipeline_accepted_total counter
golda_pipeline_accepted_total{pipeline="images"} 1001
golda_pipeline_accepted_total{pipeline="letters"} 1001
`), "golda_pipeline_accepted_total"))
}

func TestASecondPipelineOfTheSameNameIsRefusedAtOnce(t *testing.T) {
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(goldaprom.NewCollector(written())))
	err := registry.Register(goldaprom.NewCollector(written()))
	assert.ErrorAs(t, err, new(prometheus.AlreadyRegisteredError))
}

func TestANewPipelineCanReplaceOneOfTheSameName(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	old := goldaprom.NewCollector(written())
	require.NoError(t, registry.Register(old))
	require.True(t, registry.Unregister(old))

	fresh := written()
	fresh.Accepted = 1
	require.NoError(t, registry.Register(goldaprom.NewCollector(fresh)))
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP golda_pipeline_accepted_total Commands that the pipeline accepted or that its handlers emitted.
# TYPE golda_pipeline_accepted_total counter
golda_pipeline_accepted_total{pipeline="images"} 1
`), "golda_pipeline_accepted_total"))
}

func TestANameThatIsNotUTF8FailsTheScrapeAndNotTheProgram(t *testing.T) {
	s := written()
	s.Stages[1].Name = "sa\xffve"
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(goldaprom.NewCollector(s)))
	_, err := registry.Gather()
	require.ErrorContains(t, err, "UTF-8")

	s.Pipeline = "im\xffages"
	require.ErrorContains(t, registry.Register(goldaprom.NewCollector(s)), "UTF-8")
}

// The samples of a stage share labels: code that adds a label to one must not add it to all.
func TestARegistererMayAddLabels(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	outer := prometheus.WrapRegistererWith(prometheus.Labels{"host": "a", "zone": "b"}, registry)
	require.NoError(t, outer.Register(goldaprom.NewCollector(written())))
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			added := 0
			for _, l := range m.GetLabel() {
				if name := l.GetName(); name == "host" || name == "zone" {
					added++
				}
			}
			assert.Equal(t, 2, added, "%s: %s", family.GetName(), m)
		}
	}
}

func TestAStageIsCollectedWithFewAllocations(t *testing.T) {
	p := written()
	p.Feeds, p.Stages[0].Edges = nil, nil // they are no stages
	c := goldaprom.NewCollector(p)
	out := make(chan prometheus.Metric, 1000)
	allocs := testing.AllocsPerRun(100, func() {
		c.Collect(out)
		for len(out) > 0 {
			<-out
		}
	})
	assert.Less(t, allocs/float64(len(p.Stages)), 40.0, "allocations for each stage")
}

func TestThePageHasExactlyTheMetricsThatTheCollectorDescribes(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	listed, want := map[string]string{}, map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(golda_\\w+)` \\| (?:counter|gauge|histogram) \\| (.*) \\|$").FindAllStringSubmatch(string(page), -1) {
		listed[row[1]] = row[2]
	}
	for _, desc := range described(written()) {
		m := regexp.MustCompile(`fqName: "(\w+)", help: "([^"]*)"`).FindStringSubmatch(desc)
		want[m[1]] = m[2]
	}
	assert.Equal(t, want, listed)
	for _, family := range gather(t, goldaprom.NewCollector(shop(t))) {
		kind := strings.ToLower(family.GetType().String())
		assert.Contains(t, string(page), "| `"+family.GetName()+"` | "+kind+" |")
	}
}

func TestACollectorOfNoPipelineSaysSo(t *testing.T) {
	for _, p := range []goldaprom.Source{nil, (*pipeline.Pipeline)(nil)} {
		require.PanicsWithValue(t, "prometheus: NewCollector: the pipeline is nil", func() { goldaprom.NewCollector(p) })
	}
}

func TestDecisionsAreCounted(t *testing.T) {
	p := shop(t)
	require.NoError(t, p.Start(t.Context()))
	defer func() { assert.NoError(t, p.Stop(context.WithoutCancel(t.Context()))) }()
	o := operate.New(p, "ann")
	const n = 300 // the journal has 256 entries
	for range n / 2 {
		_, err := o.Pause("save")
		require.NoError(t, err)
		_, err = o.Resume("save")
		require.NoError(t, err)
	}
	_, err := o.Rate("save", controller.Rate{PerSecond: 7, Burst: 1})
	require.NoError(t, err)
	got := map[string]float64{}
	for _, family := range gather(t, goldaprom.NewCollector(p)) {
		if family.GetName() != "golda_decisions_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			got[m.GetLabel()[1].GetValue()+" "+m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
		}
	}
	assert.InDelta(t, n, got["save paused"], 0)
	assert.InDelta(t, 1, got["save rate"], 0)
}
