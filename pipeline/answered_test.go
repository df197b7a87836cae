package pipeline_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// lineCount is a log handler that counts the lines.
type lineCount struct{ lines atomic.Int64 }

func (*lineCount) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (c *lineCount) Handle(context.Context, slog.Record) error  { c.lines.Add(1); return nil }
func (c *lineCount) WithAttrs([]slog.Attr) slog.Handler         { return c }
func (c *lineCount) WithGroup(string) slog.Handler              { return c }

// Callers that overload a stage get its errors: the log and the stores are for commands that nothing else reports.
func TestCallsThatExpireUnderOverloadLeaveCountsOnly(t *testing.T) {
	const calls = 10_000
	log := &lineCount{}
	var heard atomic.Int64
	s := stage.Func("s", func(_ context.Context, n int) behaviour.Outcome {
		time.Sleep(time.Millisecond)
		return behaviour.OK(n)
	}, stage.Workers(1, 1), stage.TTL(2*time.Millisecond), stage.Capacity(calls))
	first := stage.Func("first", func(_ context.Context, n int) behaviour.Outcome { return behaviour.Forward(s, n) })
	p := run(t, s, first, pipeline.Logger(slog.New(log)), pipeline.DeadLetters(func(stage.DeadLetter) { heard.Add(1) }))
	var expired atomic.Int64
	var callers sync.WaitGroup
	for i := range 100 {
		callers.Go(func() {
			for n := range calls / 100 {
				into := s
				if i%2 == 0 {
					into = first // the command is forwarded on the way
				}
				_, err := stage.Call[int](context.Background(), into, n)
				if errors.Is(err, stage.ErrExpired) {
					expired.Add(1)
				}
			}
		})
	}
	callers.Wait()
	require.NoError(t, p.Drain(soon(t)))
	require.Positive(t, expired.Load())
	snapshot := p.Snapshot()
	require.EqualValues(t, expired.Load(), snapshot.Stages[0].Reasons.Shed[reason.Expired])
	require.EqualValues(t, calls, snapshot.Replied+snapshot.Shed)
	require.Equal(t, snapshot.Shed, snapshot.Answered)
	require.Zero(t, p.DeadLetters().Len())
	require.Zero(t, heard.Load())
	require.NoError(t, p.Stop(soon(t)))
	require.Zero(t, log.lines.Load())
}
