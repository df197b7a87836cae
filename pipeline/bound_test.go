package pipeline_test

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// fill keeps a stage's queue full until the context ends.
func fill(ctx context.Context, s *stage.Stage[int]) {
	go func() {
		for err := error(nil); err == nil || errors.Is(err, stage.ErrPolicy); err = s.Submit(ctx, 1) {
			if err != nil { // seda:cruz discards
				time.Sleep(time.Millisecond)
			}
		}
	}()
}

// The first stage forwards to a slow stage with one worker, so more workers for the first stage would not help.
func TestNoPolicyAddsWorkersToAStageThatIsBlockedDownstream(t *testing.T) {
	unraced(t)
	for name, law := range map[string]controller.Policy{
		"backlog": policy.Backlog{}, "erlda": policy.ERLDA{}, "seda": policy.SEDA{}, "stealing": policy.Stealing{Workers: 9},
		"seda:cruz": policy.SEDA{Preset: policy.Cruz}, "seda:welsh": policy.SEDA{Preset: policy.Welsh},
		"stealing:cruz": policy.Stealing{Workers: 9, Preset: policy.Cruz},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := stage.Func("slow", func(context.Context, int) behaviour.Outcome {
					time.Sleep(10 * time.Millisecond)
					return behaviour.OK(nil)
				}, stage.Workers(1, 1))
				first := stage.Func("first", func(_ context.Context, n int) behaviour.Outcome {
					time.Sleep(time.Millisecond)
					return behaviour.Forward(slow, n)
				}, stage.Workers(1, 8))
				idle := stage.Func("idle", echo[int], stage.Workers(1, 7)) // for policies that steal workers
				p, err := pipeline.New("p", first, slow, idle, quiet, pipeline.Control(law),
					pipeline.System(actor.NewSystem(slog.New(slog.DiscardHandler))))
				require.NoError(t, err)
				require.NoError(t, p.Start(t.Context()))
				ctx, cancel := context.WithCancel(t.Context())
				fill(ctx, first)
				time.Sleep(10 * time.Second) // until slow is full, too
				had := len(p.Journal())
				workers := first.Snapshot().Workers.Live
				time.Sleep(3 * time.Minute)
				require.LessOrEqual(t, first.Snapshot().Workers.Live, workers)
				says := 0
				for i, c := range p.Journal() {
					if c.StageName != "first" {
						continue
					}
					if i >= had {
						require.LessOrEqual(t, c.After, c.Before, "%v", c)
					}
					if c.Before == c.After && strings.Contains(c.String(), "workers stay ") && strings.Contains(c.Why, "bound by a stage ahead") {
						says++
					}
				}
				require.Positive(t, says, "the journal gives the reason: %v", p.Journal())
				require.LessOrEqual(t, says, 2, "once")
				cancel()
				require.ErrorAs(t, p.Stop(ended(t)), new(*pipeline.StopError))
			})
		})
	}
}

func ended(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// Any code that has a stage has its core. But the method that sets the number of workers has a parameter that only this module can
// make.
func TestCodeOutsideTheModuleCannotScaleAStage(t *testing.T) {
	for _, name := range []string{"Scale", "StartWith"} {
		m, ok := reflect.TypeFor[*engine.Core]().MethodByName(name)
		require.True(t, ok)
		require.Contains(t, m.Type.In(1).PkgPath(), "/internal/", name)
	}
}
