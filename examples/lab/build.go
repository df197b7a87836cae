package main

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/lab"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/stage/queue"
)

// job is a command: how long each step takes for it. It depends on the seed of
// its request alone, so all policies get the same jobs.
type job struct {
	takes    []time.Duration
	rounds   int // that are left
	priority int
	poison   poison
}

type poison uint8

const (
	healthy poison = iota
	panics
	hangs
)

// mostRounds is how often a job goes through a loop at most.
const mostRounds = 11

// newJob returns the job of a request.
func (w workload) newJob(r lab.Request, length time.Duration) *job {
	random := rand.New(rand.NewPCG(r.Seed, 0)) //nolint:gosec // a seed must give the same job again
	j := &job{rounds: 1}
	slower := 1.0
	if w.drift > 0 {
		slower += (w.drift - 1) * r.At.Seconds() / length.Seconds()
	}
	for _, s := range w.steps {
		j.takes = append(j.takes, time.Duration(slower*float64(s.takes.Draw(random))))
	}
	for j.rounds < mostRounds && random.Float64() < w.again {
		j.rounds++
	}
	switch x := random.Float64(); {
	case x < w.poison:
		j.poison = panics
	case x < 2*w.poison:
		j.poison = hangs
	}
	j.priority = -slices.Index([]string{"first", "second", "third"}, r.Class)
	return j
}

// build makes the pipeline of a workload: a line of stages, of which the last
// may lead back to the first.
func (w workload) build(control pipeline.Part, length time.Duration) (*pipeline.Pipeline, lab.Send, error) {
	again := behaviour.NewPort[*job]("again")
	parts := []pipeline.Part{control, pipeline.Logger(slog.New(slog.DiscardHandler))} // panics are part of the load
	var next *stage.Stage[*job]
	for i := len(w.steps) - 1; i >= 0; i-- {
		var opts []stage.Option
		if w.poison > 0 {
			opts = append(opts, stage.Timeout(200*time.Millisecond))
		}
		switch {
		case next != nil:
			opts = append(opts, stage.Out(next))
		case w.again > 0:
			opts = append(opts, stage.Out(again))
		}
		if w.classes != nil {
			opts = append(opts, stage.Discipline(queue.PriorityOf(func(j *job) int { return j.priority })))
		}
		if w.steps[i].waits {
			opts = append(opts, stage.Blocking(), stage.Workers(w.steps[i].bounds()))
		}
		if w.peak > 0 && i == 0 {
			opts = append(opts, stage.Overflow(overflow.Reject))
		}
		next = stage.Func(w.steps[i].name, w.handler(i, next, again), opts...)
		parts = append(parts, next)
	}
	if w.again > 0 {
		parts = append(parts, pipeline.Wire(again, next))
	}
	p, err := pipeline.New(w.name, parts...)
	return p, func(ctx context.Context, r lab.Request) error {
		_, err := stage.Call[any](ctx, next, w.newJob(r, length))
		return err
	}, err
}

// handler returns the function of a step.
func (w workload) handler(i int, next *stage.Stage[*job], again *behaviour.Port[*job]) func(context.Context, *job) behaviour.Outcome {
	return func(ctx context.Context, j *job) behaviour.Outcome {
		if i == len(w.steps)/2 && j.poison != healthy {
			if j.poison == panics {
				panic("poison")
			}
			<-ctx.Done() // until the Timeout of the stage
			return behaviour.Error(ctx.Err())
		}
		if w.steps[i].waits {
			rest(ctx, j.takes[i])
		} else {
			burn(j.takes[i])
		}
		switch {
		case next != nil:
			return behaviour.Forward(next, j)
		case j.rounds > 1:
			j.rounds--
			return behaviour.Forward(again, j)
		default:
			return behaviour.OK(nil)
		}
	}
}

// rest waits.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// burn computes for about that much CPU time, however busy the machine is.
func burn(d time.Duration) {
	spin(int(d.Seconds() * calibrated()))
}

// calibrated returns how many rounds of spin take a second of CPU time.
var calibrated = sync.OnceValue(func() float64 {
	const rounds = 200_000
	best := time.Duration(1<<63 - 1)
	for range 9 {
		begin := time.Now()
		spin(rounds)
		best = min(best, time.Since(begin))
	}
	return rounds / best.Seconds()
})

// sink keeps the compiler from leaving out the computation.
var sink = make(chan uint64, 1)

//go:noinline
func spin(rounds int) {
	x := uint64(rounds) | 1 //nolint:gosec // any bits are good
	for range rounds {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	if x == 0 { // never: a shift register with a bit set keeps one
		sink <- x
	}
}
