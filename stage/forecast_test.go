package stage_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/stage/reason"
)

// timed is a command that knows when it was submitted.
type timed struct {
	n  int
	at time.Time
}

// The commands come at twice the rate that the stage can handle. Each refusal predicts a wait, and the next command that is accepted has it.
func TestARefusalPredictsTheWaitWithinAFactorOfTwo(t *testing.T) {
	exponential := func(mean time.Duration) func(n int) time.Duration {
		return func(n int) time.Duration { // the same for a command in each run
			r := rand.New(rand.NewPCG(1, uint64(n))) //nolint:gosec // a test
			return time.Duration(r.ExpFloat64() * float64(mean))
		}
	}
	always := func(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }
	for name, c := range map[string]struct {
		service   func(n int) time.Duration
		each      time.Duration // between two commands that end
		workers   int
		opts      []stage.Option
		behind    time.Duration // of the stage behind, which has one worker; 0: there is none
		pausesFor time.Duration // after the first half
	}{
		"one worker":                     {service: always(10 * time.Millisecond), each: 10 * time.Millisecond, workers: 1},
		"ten workers":                    {service: always(50 * time.Millisecond), each: 5 * time.Millisecond, workers: 10},
		"times that differ":              {service: exponential(20 * time.Millisecond), each: 5 * time.Millisecond, workers: 4},
		"a rate":                         {service: always(0), each: 20 * time.Millisecond, workers: 4, opts: []stage.Option{stage.Rate(50, time.Second, 1)}},
		"a stage behind that is slower":  {service: always(time.Millisecond), each: 10 * time.Millisecond, workers: 2, behind: 10 * time.Millisecond},
		"commands of a microsecond each": {service: always(time.Microsecond), each: time.Microsecond, workers: 1},
		"a pause in between":             {service: always(10 * time.Millisecond), each: 10 * time.Millisecond, workers: 1, pausesFor: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				started := make(chan timed, 1<<16)
				opts := append([]stage.Option{
					stage.Workers(c.workers, c.workers), stage.Capacity(40), stage.Overflow(overflow.Reject), stage.Batch(1),
				}, c.opts...)
				work := stage.Map("work", func(_ context.Context, cmd timed) (timed, error) {
					started <- cmd
					time.Sleep(c.service(cmd.n))
					return cmd, nil
				}, opts...)
				var part pipeline.Part = work
				if c.behind > 0 {
					part = work.To(stage.Sink("behind", func(context.Context, timed) error { time.Sleep(c.behind); return nil },
						stage.Workers(1, 1), stage.Capacity(4)))
				}
				p, err := pipeline.New("forecast", part, pipeline.Control(policy.Fixed{}))
				require.NoError(t, err)
				require.NoError(t, p.Start(t.Context()))
				begun := map[time.Time]time.Duration{}
				collected := make(chan struct{})
				go func() {
					defer close(collected)
					for cmd := range started {
						begun[cmd.at] = time.Since(cmd.at)
					}
				}()
				type prediction struct {
					at   time.Time
					wait time.Duration
				}
				var predicted []prediction
				var last time.Duration
				const commands = 2000
				for n := range commands {
					if n == commands/2 {
						time.Sleep(c.pausesFor)
					}
					now := time.Now()
					err := work.Submit(t.Context(), timed{n, now})
					switch o, over := stage.Overloaded(err); {
					case over:
						require.Equal(t, reason.Full, o.Reason)
						require.ErrorIs(t, err, stage.ErrFull)
						last = o.RetryAfter
					case last > 0 && n > commands/4:
						require.NoError(t, err)
						predicted = append(predicted, prediction{now, last})
						last = 0
					default:
						require.NoError(t, err)
						last = 0
					}
					time.Sleep(c.each / 2)
				}
				require.NoError(t, p.Drain(t.Context()))
				require.NoError(t, p.Stop(t.Context()))
				close(started)
				<-collected
				require.Greater(t, len(predicted), commands/40)
				var ratios []float64
				for _, one := range predicted {
					ratios = append(ratios, float64(one.wait)/float64(begun[one.at]))
				}
				slices.Sort(ratios)
				n := len(ratios)
				require.Greater(t, ratios[n/20], 0.5, "%v", ratios)
				require.Less(t, ratios[n-1-n/20], 2.0, "%v", ratios)
			})
		})
	}
}

func TestAFullStageOfWhichNothingIsKnownAsksForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		s := stage.Sink("wait", func(context.Context, int) error { <-end; return nil },
			stage.Workers(1, 1), stage.Capacity(1), stage.Overflow(overflow.Reject))
		p, err := pipeline.New("forecast", s, pipeline.Control(policy.Fixed{}))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		require.NoError(t, s.Submit(t.Context(), 1))
		synctest.Wait()
		require.NoError(t, s.Submit(t.Context(), 2))
		err = s.Submit(t.Context(), 3)
		require.True(t, errors.Is(err, stage.ErrFull))
		o, over := stage.Overloaded(err)
		require.True(t, over)
		require.Equal(t, time.Second, o.RetryAfter)
		close(end)
		require.NoError(t, p.Stop(t.Context()))
	})
}
