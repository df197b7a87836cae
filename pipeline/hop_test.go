package pipeline_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// parcel is a command that is passed by pointer.
type parcel struct{ _ int }

// hopping is a pipeline of five stages in a line that do nothing.
type hopping struct {
	p     *pipeline.Pipeline
	first *stage.Stage[*parcel]
	left  int // until ended is closed
	ended chan struct{}
}

const hops = 5

func newHopping(tb testing.TB, law controller.Policy) *hopping {
	tb.Helper()
	h := &hopping{ended: make(chan struct{}, 1)}
	next := stage.Func("5", func(context.Context, *parcel) behaviour.Outcome {
		if h.left--; h.left == 0 {
			h.ended <- struct{}{}
		}
		return behaviour.OK(nil)
	}, stage.Workers(1, 1))
	parts := []pipeline.Part{next}
	for i := hops - 1; i >= 1; i-- {
		to := next
		next = stage.Func(strconv.Itoa(i), func(_ context.Context, p *parcel) behaviour.Outcome {
			return behaviour.Forward(to, p)
		}, stage.Workers(1, 1))
		parts = append([]pipeline.Part{next}, parts...)
	}
	h.first = next
	p, err := pipeline.New("hop", append(parts, pipeline.System(system()), pipeline.Control(law))...)
	require.NoError(tb, err)
	require.NoError(tb, p.Start(context.Background()))
	tb.Cleanup(func() { require.NoError(tb, p.Stop(context.Background())) })
	h.p = p
	return h
}

// pass submits n commands and waits for the last.
func (h *hopping) pass(tb testing.TB, cmd *parcel, n int) {
	tb.Helper()
	h.left = n
	for range n {
		if err := h.first.Submit(context.Background(), cmd); err != nil {
			tb.Fatal(err)
		}
	}
	<-h.ended
}

// hoppers are the ways to run the five stages.
func hoppers() map[string]controller.Policy {
	return map[string]controller.Policy{
		"own":      policy.Fixed{},
		"fifo":     sharing(controller.SharedFIFO, nil),
		"priority": sharing(controller.SharedPriority, nil),
		"polled":   sharing(controller.Polled, nil),
		"bounded":  sharing(controller.Polled, &controller.VisitPlan{Gating: controller.Bounded, Bound: 8}),
	}
}

// A thousand commands over five hops may cost at most twenty allocations: for a queue that grows, or a goroutine that starts.
func TestAllocsPerRunOfAHopThroughSharedStagesAreNone(t *testing.T) {
	for name, law := range hoppers() {
		t.Run(name, func(t *testing.T) {
			h, cmd := newHopping(t, law), &parcel{}
			for range 5 {
				h.pass(t, cmd, 1000)
			}
			allocs := testing.AllocsPerRun(20, func() { h.pass(t, cmd, 1000) })
			t.Log(allocs)
			require.LessOrEqual(t, allocs, 20.0)
		})
	}
}

// With one command at a time, each hop is a visit.
func TestAllocsPerRunOfAVisitOfASharedWorkerAreNone(t *testing.T) {
	for name, law := range hoppers() {
		t.Run(name, func(t *testing.T) {
			h, cmd := newHopping(t, law), &parcel{}
			h.pass(t, cmd, 1000)
			allocs := testing.AllocsPerRun(500, func() { h.pass(t, cmd, 1) })
			t.Log(allocs)
			require.LessOrEqual(t, allocs, 5.0, "one goroutine for each that is woken")
		})
	}
}

// BenchmarkSharedHop measures five stages in a line: with a worker each, and with one that they share.
//
//	go test -run '^$' -bench SharedHop -benchmem -count 10 ./pipeline
func BenchmarkSharedHop(b *testing.B) {
	for name, law := range hoppers() {
		b.Run("by="+name, func(b *testing.B) {
			h, cmd := newHopping(b, law), &parcel{}
			h.pass(b, cmd, 1000)
			b.ReportAllocs()
			b.ResetTimer()
			h.pass(b, cmd, b.N)
			b.StopTimer()
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/hops, "ns/hop")
		})
	}
}
