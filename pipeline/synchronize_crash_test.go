package pipeline_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/coordination/synchronizer"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/upgrade"
)

// often lets a stage crash as often as it will.
var often = stage.Restart(stage.RestartPolicy{Limit: 1 << 20, Backoff: time.Microsecond, Max: time.Microsecond})

// requireSettled stops a pipeline and requires that all counters are settled.
func requireSettled(t *testing.T, p *pipeline.Pipeline) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	require.NoError(t, p.Stop(ctx))
	s := p.Snapshot()
	require.True(t, s.Balanced(), s.Law())
	require.Zero(t, s.InFlight)
	for _, st := range s.Stages {
		for _, m := range st.Methods {
			require.Zero(t, m.Current, "%s: %+v", st.Name, m)
			require.Equal(t, m.Accepted, m.Completed, "%s: %+v", st.Name, m)
			require.Equal(t, m.Invocations, m.Accepted, "%s: %+v", st.Name, m)
		}
	}
}

func TestACommandThatCrashesACanaryIsCountedOnce(t *testing.T) {
	for name, by := range map[string]func(sheet) string{
		"a handler panics": func(s sheet) string { return fmt.Sprint(s.n) },
		"the key of By panics": func(s sheet) string {
			if s.n%5 == 0 {
				panic("planned")
			}
			return fmt.Sprint(s.n)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var x exclusive
				version := func(crashes bool) behaviour.Func[sheet] {
					return func(_ context.Context, s sheet) behaviour.Outcome {
						x.enter()
						defer x.leave()
						time.Sleep(time.Millisecond)
						if crashes && s.n%3 == 0 {
							panic("planned")
						}
						return behaviour.OK(nil)
					}
				}
				a := stage.Func("a", version(false), stage.Workers(4, 4), often)
				b := stage.Func("b", version(false), stage.Workers(4, 4))
				p := running(t, a, b, pipeline.Synchronize("two", func(s *synchronizer.Synchronizer) {
					s.AtMost(2, on(a, "sheet"), on(b, "sheet"))
				}))
				r, err := a.Upgrade(t.Context(), func() behaviour.Behaviour[sheet] { return version(true) },
					upgrade.Canary(0.5), upgrade.By(by), upgrade.MaxCrashes(1000), upgrade.PromoteAfter(1<<20, time.Hour))
				require.NoError(t, err)
				var wg sync.WaitGroup
				for n := range 60 {
					for _, s := range []*stage.Stage[sheet]{a, b} {
						wg.Go(func() { _, _ = stage.Call[any](t.Context(), s, sheet{n}) })
					}
				}
				wg.Wait()
				require.NotZero(t, a.Snapshot().Crashes, "%v", r.Status())
				require.EqualValues(t, 2, x.most.Load())
				requireSettled(t, p)
			})
		})
	}
}

func TestARuleThatCountsAStageWhichInitDoesNotNameSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ok := func(context.Context, sheet) behaviour.Outcome { return behaviour.OK(nil) }
		a, b := stage.Func("a", ok), stage.Func("b", ok)
		running(t, a, b, pipeline.Synchronize("after", func(s *synchronizer.Synchronizer) {
			s.Constrain(a, "sheet", func(guard.Request) bool { return s.Count(b, "sheet").Completed > 0 })
		}))
		_, err := stage.Call[any](t.Context(), a, sheet{})
		require.ErrorContains(t, err, `it counts "sheet" of "b", a stage that init does not name: call Count for it in init, too`)
	})
}

func TestACommandThatCrashesBeforeItsHandlerDoesNotStayCurrent(t *testing.T) {
	ok := func(context.Context, sheet) behaviour.Outcome { return behaviour.OK(nil) }
	for name, c := range map[string]struct {
		opt stage.Option
		ctx func(t *testing.T) context.Context
	}{
		"ExpiresAt panics": {
			stage.ExpiresAt(func(s sheet) time.Time {
				if s.n == 0 {
					panic("planned")
				}
				return time.Now().Add(time.Hour)
			}),
			func(t *testing.T) context.Context { return t.Context() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := stage.Func("a", ok, often, c.opt), stage.Func("b", ok)
				g := stage.Func("g", ok, often, c.opt, stage.Guard("sheet", func(count func(string) guard.Counters) bool {
					return count("sheet").Current == 0
				}))
				p := running(t, a, b, g, pipeline.Synchronize("one", func(s *synchronizer.Synchronizer) {
					s.AtMost(1, on(a, "sheet"), on(b, "sheet"))
				}))
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				for _, s := range []*stage.Stage[sheet]{a, g} {
					f, err := s.Ask(c.ctx(t), sheet{0})
					require.NoError(t, err)
					_, err = f.Wait(ctx)
					require.ErrorContains(t, err, "planned")
				}
				for _, s := range []*stage.Stage[sheet]{a, b, g} {
					_, err := stage.Call[any](ctx, s, sheet{1})
					require.NoError(t, err)
				}
				requireSettled(t, p)
			})
		})
	}
}
