package pipeline_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

func TestSmoke(t *testing.T) {
	defer goleak.VerifyNone(t)
	out := behaviour.NewPort[string]("out")
	up := stage.New("up", behaviour.Func[string](func(_ context.Context, s string) behaviour.Outcome {
		if s == "boom" {
			panic("boom")
		}
		return behaviour.Forward(out, strings.ToUpper(s))
	}), stage.Out(out))
	size := stage.New("size", behaviour.Func[string](func(_ context.Context, s string) behaviour.Outcome {
		if s == "" {
			return behaviour.Error(errors.New("empty"))
		}
		return behaviour.OK(len(s))
	}))
	p, err := pipeline.New("smoke", up, size, pipeline.Wire(out, size), pipeline.Logger(slog.New(slog.NewTextHandler(os.Stderr, nil))))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	for range 1000 {
		n, err := stage.Call[int](t.Context(), up, "hello")
		require.NoError(t, err)
		require.Equal(t, 5, n)
	}
	_, err = stage.Call[int](t.Context(), up, "boom")
	require.ErrorContains(t, err, "boom")
	_, err = stage.Call[int](t.Context(), up, "")
	require.ErrorContains(t, err, "empty")
	for range 100000 {
		require.NoError(t, up.Submit(t.Context(), "x"))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	require.NoError(t, p.Stop(ctx))
	s := p.Snapshot()
	t.Log(s.Law())
	t.Logf("%+v", s)
	require.True(t, s.Balanced())
}
