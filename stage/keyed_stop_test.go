package stage_test

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// ender is an instance whose Stop crashes, for some keys.
type ender struct {
	key   int
	stops *[40]int
}

func (e *ender) HandleCommand(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) }

func (e *ender) Stop() {
	e.stops[e.key]++
	switch {
	case e.key%5 == 1:
		panic("stop")
	case e.key%5 == 3:
		runtime.Goexit()
	}
}

func TestAStopThatCrashesKeepsNoOtherInstanceFromStopping(t *testing.T) {
	tests := map[string]struct {
		opts []stage.Option
		rest func(s *stage.Stage[int])
	}{
		"when the stage stops":        {nil, func(*stage.Stage[int]) {}},
		"when the instances are idle": {[]stage.Option{stage.Passivate(time.Second, 0)}, func(*stage.Stage[int]) { time.Sleep(time.Minute) }},
		"when there are too many":     {[]stage.Option{stage.Passivate(0, 3)}, func(*stage.Stage[int]) {}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stops [40]int
				var log safeBuffer
				s := stage.Keyed("keys", func(n int) int { return n }, func(n int) *ender { return &ender{n, &stops} },
					append(test.opts, stage.Workers(1, 1))...)
				p, err := pipeline.New("line", s, pipeline.Logger(slog.New(slog.NewTextHandler(&log, nil))))
				require.NoError(t, err)
				require.NoError(t, p.Start(t.Context()))
				for n := range stops {
					_, err := stage.Call[any](t.Context(), s, n)
					require.NoError(t, err)
				}
				test.rest(s)
				require.NoError(t, p.Stop(context.Background()))
				for n, times := range stops {
					require.Equal(t, 1, times, "key %d", n)
				}
				require.Equal(t, 16, strings.Count(log.String(), "stop of a key's instance crashed"), log.String())
			})
		})
	}
}
