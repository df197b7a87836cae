package pipeline_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/supervisor"
)

// The text names the stage once, says each thing once, and has no names of actors.
func TestTheErrorOfAPipelineThatGaveUpSaysEachThingOnce(t *testing.T) {
	const tries = "18 crashes in a row without a completed command, the last 17 of workers that could not start; last: "
	const left = "\n" + `pipeline "orders": stopped hard: not drained: the pipeline gave up: 2 commands in flight: s (2 queued, 0 in hand, 0 waiting for a retry)`
	for name, c := range map[string]struct {
		build    string
		restarts int
		why      string
	}{
		"Start":               {"Start", 0, `stage "s": gave up after ` + tries + `start: no`},
		"the factory":         {"the factory", 0, `stage "s": gave up after ` + tries + `crash: no`},
		"a restart in vain":   {"Start", 1, `gave up after 1 restarts within 1m0s: stage "s": `},
		"restarted in a pool": {"the factory", 1, `gave up after 1 restarts within 1m0s: stage "s": `},
	} {
		t.Run(name, func(t *testing.T) {
			eachWay(t, func(t *testing.T, way pipeline.Part) {
				var log bytes.Buffer
				s := stage.Each("s", firstOf(startOnce[c.build]), stage.Workers(1, 1), stage.Restart(stage.RestartPolicy{Limit: 16}))
				parts := []pipeline.Part{s, way, pipeline.Feed("f", s, source.Slice([]int{-1, 1, 2})), pipeline.Logger(slog.New(slog.NewTextHandler(&log, nil)))}
				if c.restarts > 0 {
					parts = append(parts, pipeline.Intensity(c.restarts, time.Minute))
				}
				p, err := pipeline.New("orders", unscaled(parts)...)
				require.NoError(t, err)
				err = p.Run(t.Context())
				require.ErrorIs(t, err, errNo)
				var escalation *supervisor.EscalationError
				require.ErrorAs(t, err, &escalation)
				var broken *stage.BrokenError
				require.ErrorAs(t, err, &broken)
				var stopped *pipeline.StopError
				require.ErrorAs(t, err, &stopped)
				require.ErrorIs(t, stopped, errNo)

				text := `pipeline "orders": ` + c.why
				require.True(t, strings.HasPrefix(err.Error(), text), err)
				require.True(t, strings.HasSuffix(err.Error(), left), err)
				require.Equal(t, 1, strings.Count(err.Error(), "no\n"), err)
				require.NotContains(t, err.Error(), "golda/")
				require.Contains(t, p.Stop(t.Context()).Error(), `pipeline "orders": stopped hard: not drained: `+c.why)
				require.Equal(t, 1, strings.Count(p.Stop(t.Context()).Error(), "pipeline"))
				require.Contains(t, strings.ReplaceAll(log.String(), `\"`, `"`), `msg="pipeline gave up" pipeline=orders reason="`+c.why)
				if c.restarts == 0 {
					require.Equal(t, text+left, err.Error())
				}
			})
		})
	}
}
