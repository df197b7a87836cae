package bottleneck_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/bottleneck"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stats"
)

const ms = time.Millisecond

// takes is a stage whose handler takes some time.
func takes(name string, d time.Duration, opts ...stage.Option) *stage.Flow[int, int] {
	return stage.Map(name, func(_ context.Context, n int) (int, error) { time.Sleep(d); return n, nil }, opts...)
}

func workers(n int) stage.Option { return stage.Workers(n, n) }

// line connects stages.
func line(stages ...*stage.Flow[int, int]) []pipeline.Part {
	parts := []pipeline.Part{stages[0]}
	for i, s := range stages[1:] {
		parts = append(parts, stages[i].To(s), s)
	}
	return parts
}

// numbers sends a number each d.
func numbers(d time.Duration) source.Source[int] {
	return func(ctx context.Context, submit func(int) error) error {
		for n := 0; ctx.Err() == nil; n++ {
			time.Sleep(d)
			if err := submit(n); err != nil {
				return err
			}
		}
		return nil
	}
}

// running is a pipeline whose bottleneck is known.
type running struct {
	parts []pipeline.Part
	entry behaviour.Target[int]
	each  time.Duration // between two commands
	then  func(t *testing.T, p *pipeline.Pipeline)
}

func TestTheBottleneckIsFound(t *testing.T) {
	chain := func(each time.Duration, stages ...*stage.Flow[int, int]) running {
		return running{parts: line(stages...), entry: stages[0], each: each}
	}
	for name, c := range map[string]struct {
		of    func() running
		stage string
		limit bottleneck.Limit
		gain  float64

		blocks []string
	}{
		"no stage, if commands arrive slowly": {
			func() running {
				return chain(20*ms, takes("a", 5*ms, workers(1)), takes("b", 10*ms, workers(1)))
			}, "", bottleneck.None, 1, nil,
		},
		"the first of two": {
			func() running {
				return chain(ms, takes("a", 10*ms, workers(1)), takes("b", 6*ms, workers(1)))
			}, "a", bottleneck.Workers, 10.0 / 6, nil,
		},
		"the last of three, which blocks the others": {
			func() running {
				return chain(ms, takes("a", 2*ms, workers(1), stage.Capacity(4)), takes("b", 3*ms, workers(1), stage.Capacity(4)), takes("c", 30*ms, workers(3), stage.Capacity(4)))
			}, "c", bottleneck.Workers, 4.0 / 3, []string{"b", "a"},
		},
		"a stage with many workers beside a faster one with one": {
			func() running {
				return chain(ms, takes("a", 5*ms, workers(1)), takes("b", 60*ms, workers(10)))
			}, "b", bottleneck.Workers, 1.1, nil,
		},
		"a rate": {
			func() running {
				return chain(10*ms, takes("a", 0, workers(4)), takes("b", 2*ms, workers(4), stage.Rate(50, time.Second, 1)))
			}, "b", bottleneck.Rate, 1, nil,
		},
		"one key that has all commands": {
			func() running {
				type one struct{ behaviour.Behaviour[int] }
				s := stage.Keyed("keys", func(int) string { return "hot" }, func(string) one {
					return one{behaviour.Func[int](func(context.Context, int) behaviour.Outcome { time.Sleep(10 * ms); return behaviour.OK(nil) })}
				}, workers(4))
				return running{parts: []pipeline.Part{s}, entry: s, each: 5 * ms}
			}, "keys", bottleneck.Keys, 1, nil,
		},
		"one tenant that may have one handler": {
			func() running {
				s := takes("tenants", 10*ms, workers(4), stage.Fair(func(int) string { return "big" }, nil, 1))
				return running{parts: []pipeline.Part{s}, entry: s, each: 5 * ms}
			}, "tenants", bottleneck.Keys, 1, nil,
		},
		"one instance": {
			func() running {
				return chain(5*ms, takes("a", 10*ms, workers(4), stage.Instances(1)))
			}, "a", bottleneck.Instances, 1, nil,
		},
		"a guard": {
			func() running {
				s := takes("a", ms, workers(4), stage.Guard("int", func(func(string) guard.Counters) bool { return false }))
				return running{parts: []pipeline.Part{s}, entry: s, each: 5 * ms}
			}, "a", bottleneck.Guards, 1, nil,
		},
		"a paused stage": {
			func() running {
				a, b := takes("a", ms, workers(2), stage.Capacity(10)), takes("b", ms, workers(2), stage.Capacity(10))
				return running{line(a, b), a, 5 * ms, func(t *testing.T, p *pipeline.Pipeline) { require.NoError(t, p.Pause(b)) }}
			}, "b", bottleneck.Paused, 1, []string{"a"},
		},
		"a stage in a loop": {
			func() running {
				again := behaviour.NewPort[int]("again")
				var b *stage.Stage[int]
				b = stage.Func("b", func(_ context.Context, n int) behaviour.Outcome {
					time.Sleep(10 * ms)
					if n >= 0 {
						return behaviour.Forward(again, -1)
					}
					return behaviour.OK(nil)
				}, workers(2), stage.Out(again))
				a := stage.Func("a", func(_ context.Context, n int) behaviour.Outcome { time.Sleep(ms); return behaviour.Forward(b, n) }, workers(1))
				return running{parts: []pipeline.Part{a, b, pipeline.Wire(again, a), pipeline.MaxInFlight(100)}, entry: a, each: ms}
			}, "b", bottleneck.Workers, 1.5, nil,
		},
		"a stage of a shared pool": {
			func() running {
				a, b := takes("a", ms), takes("b", 20*ms)
				return running{parts: append(line(a, b), pipeline.Group("pool", 2, 2, a, b)), entry: a, each: 5 * ms}
			}, "b", bottleneck.Workers, 1.5, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := c.of()
				parts := append(r.parts, pipeline.Feed("feed", r.entry, numbers(r.each)), pipeline.Control(policy.Fixed{}),
					pipeline.Logger(slog.New(slog.DiscardHandler)), pipeline.Grace(time.Millisecond))
				p, err := pipeline.New("test", parts...)
				require.NoError(t, err)
				require.NoError(t, p.Start(t.Context()))
				if r.then != nil {
					r.then(t, p)
				}
				time.Sleep(10 * time.Second)
				before := p.Snapshot()
				time.Sleep(10 * time.Second)
				v := bottleneck.Of(before, p.Snapshot())
				assert.Equal(t, c.stage, v.Stage, v)
				assert.Equal(t, c.limit, v.Limit, v)
				assert.InDelta(t, c.gain, v.Gain, 0.15, v)
				assert.Equal(t, c.blocks, v.Blocks)
				ended, cancel := context.WithCancel(context.Background())
				cancel()
				_ = p.Stop(ended)
				time.Sleep(time.Minute) // handlers that were given up return
			})
		})
	}
}

// seen is a snapshot after a time, of stages whose workers were busy for a part of it.
func seen(at, cpu time.Duration, busy ...float64) pipeline.Snapshot {
	s := pipeline.Snapshot{At: time.Unix(0, 0).Add(at), CPU: cpu, Processors: 2}
	for i, b := range busy {
		work := time.Duration(b * float64(at))
		s.Stages = append(s.Stages, stage.Snapshot{
			Name: fmt.Sprint("s", i), Queue: stats.Queue{Queued: 10}, Workers: stats.Workers{Live: 1},
			Counts: stats.Counts{BusyTime: work, IdleTime: at - work},
		})
	}
	return s
}

func TestAPipelineThatUsesAllProcessorsIsLimitedByThem(t *testing.T) {
	v := bottleneck.Of(seen(0, 0, 0, 0), seen(time.Second, 1900*ms, 0.9, 0.95))
	assert.Equal(t, bottleneck.CPU, v.Limit)
	assert.Equal(t, "s1", v.Stage)
	assert.Equal(t, 1.0, v.Gain)
	assert.Equal(t, `stage "s1" limits the pipeline by the processors (95 % used)`, v.String())
	v = bottleneck.Of(seen(0, 0, 0, 0), seen(time.Second, 200*ms, 0.5, 0.95))
	assert.Equal(t, `stage "s1" limits the pipeline by its workers (95 % used); one more worker would bring 90 %`, v.String())
}

func TestSnapshotsOfOneInstantHaveNoBottleneck(t *testing.T) {
	one := seen(time.Second, 0, 1)
	assert.Equal(t, bottleneck.None, bottleneck.Of(one, one).Limit)
	assert.Equal(t, bottleneck.None, bottleneck.Of(pipeline.Snapshot{}, one).Limit, "a stage that was added")
	assert.Equal(t, bottleneck.None, bottleneck.Of(one, pipeline.Snapshot{}).Limit)
}
