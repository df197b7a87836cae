package prometheus_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	goldaprom "github.com/golda-dev/golda/adapter/prometheus"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
)

// The pipeline has three stages with all kinds of outcomes: results, errors, crashes, retries, emitted commands, and a
// full queue that drops the oldest command.
func TestTheLawHoldsInEveryScrapeOfARunningPipeline(t *testing.T) {
	defer goleak.VerifyNone(t)
	p, entry := busy(t)
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(goldaprom.NewCollector(p)))

	const producers, commands, scrapers = 4, 2000, 3
	var sources, wg sync.WaitGroup
	dry := make(chan struct{})
	for range producers {
		sources.Go(func() {
			for i := range commands {
				assert.NoError(t, entry.Submit(t.Context(), i))
			}
		})
	}
	for range scrapers {
		wg.Go(func() {
			for more := true; more; {
				families, err := registry.Gather()
				if assert.NoError(t, err) {
					assertLaw(t, families)
				}
				select {
				case <-dry:
					more = false
				default:
				}
			}
		})
	}
	sources.Wait()
	close(dry)
	wg.Wait()
	require.NoError(t, p.Stop(t.Context()))

	families, err := registry.Gather()
	require.NoError(t, err)
	assertLaw(t, families)
	end := sums(families, "")
	assert.Zero(t, end["golda_pipeline_in_flight"])
	for _, term := range []string{"replied", "failed", "shed", "dead_lettered"} {
		assert.Positive(t, end["golda_pipeline_"+term+"_total"], "no command was %s: the test covers less than it should", term)
	}
	first := sums(families, "first")
	assert.InDelta(t, producers*commands, first["golda_stage_submitted_total"], 0)
	assert.Positive(t, first["golda_stage_retries_total"])
	assert.Positive(t, first["golda_stage_restarts_total"])
	assert.Positive(t, first["golda_stage_emitted_total"])
}

// assertLaw checks the sums of the terms of a scrape.
func assertLaw(t *testing.T, families []*dto.MetricFamily) {
	t.Helper()
	all := sums(families, "")
	assert.InDelta(t, all["golda_pipeline_accepted_total"],
		all["golda_pipeline_replied_total"]+all["golda_pipeline_failed_total"]+all["golda_pipeline_shed_total"]+
			all["golda_pipeline_dead_lettered_total"]+all["golda_pipeline_in_flight"], 0)
	for _, name := range []string{"first", "second", "third"} {
		s := sums(families, name)
		accepted := s["golda_stage_accepted_total"]
		assert.InDelta(t, accepted, s["golda_stage_submitted_total"]+s["golda_stage_received_total"], 0, name)
		assert.InDelta(t, accepted, s["golda_stage_ok_total"]+s["golda_stage_forwarded_total"]+
			s["golda_stage_errors_total"]+s["golda_stage_shed_total"]+s["golda_stage_dead_lettered_total"]+
			s["golda_stage_queue_length"]+s["golda_stage_in_hand"]+s["golda_stage_delayed"], 0, name)
	}
}

// sums adds up each metric of a stage, or of the pipeline, over all reasons.
func sums(families []*dto.MetricFamily, name string) map[string]float64 {
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if label(m, "stage") == name {
				all[f.GetName()] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return all
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// busy starts a pipeline first → second → third.
func busy(t *testing.T) (*pipeline.Pipeline, *stage.Stage[int]) {
	t.Helper()
	toSecond, toThird := behaviour.NewPort[int]("to second"), behaviour.NewPort[int]("to third")
	first := stage.New("first", behaviour.Func[int](func(ctx context.Context, n int) behaviour.Outcome {
		switch {
		case n%100 == 7 && behaviour.Attempt(ctx) == 1:
			panic("at the first attempt")
		case n%500 == 13:
			panic("at each attempt")
		case n%10 == 3:
			return behaviour.Error(errors.New("an odd number"))
		case n%10 == 4:
			if err := behaviour.Emit(ctx, toThird, n); err != nil {
				return behaviour.Error(err)
			}
		}
		return behaviour.Forward(toSecond, n)
	}), stage.Out(toSecond, toThird), stage.Retry(stage.RetryPolicy{Attempts: 2, If: stage.Crashed}), stage.Workers(1, 4))
	second := stage.New("second", behaviour.Func[int](func(_ context.Context, n int) behaviour.Outcome {
		return behaviour.Forward(toThird, n)
	}), stage.Out(toThird), stage.Capacity(64))
	third := stage.New("third", behaviour.Func[int](func(_ context.Context, n int) behaviour.Outcome {
		return behaviour.OK(strings.Repeat("x", n))
	}), stage.Capacity(8), stage.Workers(1, 1), stage.Overflow(overflow.DropOldest))

	p, err := pipeline.New("busy", first, second, third,
		pipeline.Wire(toSecond, second), pipeline.Wire(toThird, third))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	return p, first
}

func gather(t require.TestingT, c prometheus.Collector) []*dto.MetricFamily {
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	families, err := registry.Gather()
	require.NoError(t, err)
	return families
}
