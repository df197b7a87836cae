package feed

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestASourceSubmitsSeveralCommandsAtOnceOnlyIfItsFunctionIsTheFeedsOwn(t *testing.T) {
	one := func(int) error { return nil }
	all := func(cmds []int, _ func(int) int64) int { return len(cmds) }
	with := func(c *Cursor) context.Context { return WithSome(With(t.Context(), c), one, all) }
	checkpoint := new(Cursor)
	checkpoint.Begin(0, func(context.Context, int64) error { return nil })
	for name, of := range map[string]struct {
		ctx    context.Context //nolint:containedctx // a row of a table
		submit func(int) error
		want   bool
	}{
		"the feed's own":              {with(new(Cursor)), one, true},
		"a function of a user around": {with(new(Cursor)), func(cmd int) error { return one(cmd) }, false},
		"a checkpoint hears the ends": {with(checkpoint), one, false},
		"there is no feed":            {t.Context(), one, false},
	} {
		t.Run(name, func(t *testing.T) {
			some := Some(of.ctx, of.submit)
			require.Equal(t, of.want, some != nil)
			if some != nil {
				require.Equal(t, 3, some([]int{1, 2, 3}, nil))
			}
		})
	}
}

func TestSeveralCommandsMoveThePositionBehindTheLastThatWasAccepted(t *testing.T) {
	c := new(Cursor)
	c.Start(10)
	next := func(i int) int64 { return 11 + int64(i) }
	require.Equal(t, 3, c.SubmitFree(t.Context(), next, func() int { return 3 }))
	require.EqualValues(t, 13, c.Position())
	require.Zero(t, c.SubmitFree(t.Context(), next, func() int { return 0 }))
	require.EqualValues(t, 13, c.Position())
	refused := func() int { panic("the command has terms") }
	require.NoError(t, c.Hear(func(error) {}, func() error {
		require.Zero(t, c.SubmitFree(t.Context(), next, refused))
		return nil
	}))
	require.NoError(t, c.At(20, func() error {
		require.Zero(t, c.SubmitFree(t.Context(), next, refused))
		return nil
	}))
	for name, span := range map[string]Span{
		"since": {Since: time.Now()}, "until": {Until: time.Now()}, "ends": {Ends: t.Context()},
		"derive": {Derive: func(values context.Context) context.Context { return values }},
	} {
		require.NoError(t, c.Within(span, func() error {
			require.Zero(t, c.SubmitFree(t.Context(), next, refused), name)
			return nil
		}))
	}
	ended, cancel := context.WithCancel(t.Context())
	release := c.Hold()
	cancel()
	require.Zero(t, c.SubmitFree(ended, next, refused))
	release()
}
