package command

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// handler is the context of the handler of a command with an origin.
type handler struct {
	context.Context
	from *Origin
}

func (h handler) Value(key any) any {
	if key == (OriginKey{}) {
		return h.from
	}
	return h.from.Context().Value(key)
}

// A pipeline that feeds itself for ever does not hold the contexts of all commands there ever were, with a deadline either.
func TestNestedContextsWithADeadlineAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := WithDeadline(t.Context(), time.Now().Add(time.Hour))
		defer cancel()
		from := Submitted(ctx, nil)
		deepest := 0
		for i := range 3 * Nested {
			from = Submitted(context.WithValue(handler{t.Context(), from}, OriginKey{}, from), nil)
			if n, ok := timeless(from.ctx).(*nested); ok {
				deepest = max(deepest, n.depth)
			}
			require.NoError(t, from.Ended(), i)
		}
		require.Equal(t, Nested, deepest)
		time.Sleep(time.Hour)
		require.ErrorIs(t, from.Ended(), context.DeadlineExceeded)
		require.NoError(t, from.Detached().Ended())
		require.False(t, from.Detached().Ends())
	})
}

// The deadline passes at any moment. A command without a caller expires then, which leaves a letter; an error that only
// a caller would hear is lost.
func TestACommandWithADeadlineExpiresAtWhateverMomentItIsAsked(t *testing.T) {
	for i := range 20_000 {
		ctx, cancel := WithDeadline(t.Context(), time.Now().Add(time.Duration(i%2000)))
		from := Submitted(ctx, nil)
		cancel()
		for late := false; !late; {
			expired, err := from.Lapsed()
			late = err != nil
			require.Equal(t, late, expired, "after %d: %v", i, err)
		}
	}
}
