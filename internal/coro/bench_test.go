package coro_test

import (
	"context"
	"flag"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/coro"
	"github.com/golda-dev/golda/internal/coro/handoff"
)

// turner runs one task that yields for ever, and resumes it turn by turn.
type turner struct {
	host *coro.Host
	task *coro.Task
}

func newTurner(e coro.Engine) *turner {
	h := coro.New(coro.Config{Engine: e})
	task, _ := h.Start(context.Background(), nil, func(c *coro.Task) {
		for c.Yield() == nil { //nolint:revive // until stopped
		}
	})
	return &turner{h, task}
}

func (s *turner) turn() { s.host.Resume(s.task) }

// bare is an engine without a host: next, and a body that yields.
type bare struct {
	next func() (struct{}, bool)
	stop func()
}

func newBare(e coro.Engine) bare {
	next, stop := e(func(yield func(struct{}) bool) {
		for yield(struct{}{}) {
		}
	})
	return bare{next, stop}
}

func (b bare) turn() { b.next() }

// BenchmarkSwitch measures resuming until the next yield: with the engine alone, and with all that a host does for a
// task. The ratio is to a hand-off over channels to a goroutine and back, which is measured in turns with it.
//
//	go test -run '^$' -bench Switch ./internal/coro ./coordination/coroutine
func BenchmarkSwitch(b *testing.B) {
	pull, baton := newTurner(coro.Pull), newTurner(coro.Baton)
	defer pull.host.Close()
	defer baton.host.Close()
	engine := newBare(coro.Pull)
	defer engine.stop()
	for _, one := range []struct {
		by   string
		turn func()
	}{
		{"engine", engine.turn}, {"task", pull.turn}, {"baton", baton.turn},
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

var speed = flag.Bool("speed", false, "check the promises about speed, which can fail on a busy machine")

// The promise, in one run: to resume and to yield costs at most a quarter of a hand-off over channels and back, median
// by median. It is measured again if the machine was too busy: the cost of the switch is the runtime's, and it was 0.23
// to 0.26 of a hand-off. What a host adds to it is logged.
//
//	go test -v -run QuarterOfAChannel ./internal/coro -speed
func TestResumeAndYieldCostAQuarterOfAChannelHandOff(t *testing.T) {
	if !*speed || raceDetector {
		t.Skip("needs the flag -speed, and no race detector")
	}
	engine, task := newBare(coro.Pull), newTurner(coro.Pull)
	defer engine.stop()
	defer task.host.Close()
	ratio := 1.0
	for try := 0; try < 10 && ratio > 0.25; try++ {
		e, c := handoff.Measure(engine.turn), handoff.Measure(task.turn)
		ratio = e.Ratio()
		t.Logf("a switch there and back %v (%.2f), a task's resume and yield %v (%.2f), hand-off over channels and back %v",
			e.Turn, ratio, c.Turn, c.Ratio(), c.HandOff)
	}
	assert.LessOrEqual(t, ratio, 0.25)
}

func TestResumeDoesNotAllocate(t *testing.T) {
	for name, e := range engines {
		s := newTurner(e)
		assert.Zero(t, testing.AllocsPerRun(1000, s.turn), name)
		s.host.Close()
	}
}

// BenchmarkStart measures a task on a pooled coroutine, from its start to its end.
func BenchmarkStart(b *testing.B) {
	run := map[string]func(*coro.Task){
		"ends":     func(*coro.Task) {},
		"suspends": func(c *coro.Task) { _ = c.Yield() },
	}
	for name, f := range run {
		b.Run("task="+name, func(b *testing.B) {
			h := coro.New(coro.Config{})
			defer h.Close()
			b.ReportAllocs()
			for b.Loop() {
				task, _ := h.Start(context.Background(), nil, f)
				h.Resume(task)
			}
		})
	}
}

// The test measures the memory of a suspended task. The runtime starts a stack with as much as the average goroutine of
// the program uses: 2 KB, or 4 KB if that is deeper than about 1.1 KB. In a program with many suspended tasks these
// make the average, in a test its few goroutines do; so the test starts some tasks before it measures.
func TestAHundredThousandSuspendedTasksHoldAtMostFourKilobytesEach(t *testing.T) {
	if testing.Short() || raceDetector {
		t.Skip("the race detector uses additional memory")
	}
	const few, n = 1000, 100_000
	h := coro.New(coro.Config{})
	suspend(h, few)
	each := measure(func() { suspend(h, n) }) / n
	require.Equal(t, few+n, h.Stats().Live)
	begin := time.Now()
	h.Close()
	t.Logf("%d suspended tasks: %d bytes each, stack and heap; unwound in %v", n, each, time.Since(begin))
	assert.LessOrEqual(t, each, uint64(4096))
}

func suspend(h *coro.Host, n int) {
	for range n {
		_, _ = h.Start(context.Background(), nil, func(c *coro.Task) {
			if _, err := c.Prepare(); err == nil {
				_ = c.Park()
			}
		})
	}
}

// measure returns by how many bytes stacks and heap have grown.
func measure(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return after.HeapAlloc + after.StackInuse - before.HeapAlloc - before.StackInuse
}
