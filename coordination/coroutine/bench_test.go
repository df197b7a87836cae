package coroutine_test

import (
	"context"
	"testing"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/scheduler"
	"github.com/golda-dev/golda/internal/coro"
	"github.com/golda-dev/golda/internal/coro/handoff"
)

// yields is a handler that yields until it is stopped.
func yields(c coroutine.Context) {
	for coroutine.Yield(c) == nil { //nolint:revive // until stopped
	}
}

// BenchmarkSwitch measures a handler that yields, from one turn to the next: served by a bare host, and by a scheduler,
// which has a queue of all that are ready. The ratio is to a hand-off over channels to a goroutine and back, which is
// measured in turns with it. The cost of the switch alone is measured in internal/coro.
func BenchmarkSwitch(b *testing.B) {
	h := coro.New(coro.Config{})
	defer h.Close()
	task, err := h.Start(context.Background(), nil, func(c *coro.Task) { yields(c) })
	if err != nil {
		b.Fatal(err)
	}
	s := scheduler.New(scheduler.Config{})
	defer s.Close()
	s.Go(yields)
	for _, one := range []struct {
		by   string
		turn func()
	}{
		{"host", func() { h.Resume(task) }},
		{"scheduler", func() { s.Step(0) }},
	} {
		b.Run("by="+one.by, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				one.turn()
			}
			b.ReportMetric(handoff.Measure(one.turn).Ratio(), "handoffs/op")
		})
	}
}
