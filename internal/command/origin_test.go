package command

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type someKey struct{}

// If this fails after a change of package context, contexts that only end cost as much as contexts with values.
func TestAContextWithoutValuesHasNoOrigin(t *testing.T) {
	canceled, cancel := context.WithCancel(context.Background())
	defer cancel()
	timed, cancel := context.WithTimeoutCause(canceled, time.Hour, errors.New("late"))
	defer cancel()
	caused, stop := context.WithCancelCause(timed)
	defer stop(nil)
	for _, ctx := range []context.Context{context.Background(), context.TODO(), canceled, timed, caused, t.Context()} {
		require.Nil(t, Submitted(ctx, nil), "%v", ctx)
	}
	require.NotNil(t, Submitted(context.WithValue(caused, someKey{}, 1), nil))
	require.NotNil(t, Submitted(mine{caused}, nil), "its type is unknown, so it may have values")
}

// mine embeds a context of package context and is a type of its own.
type mine struct{ context.Context }

func TestAnOriginHasTheValuesOfItsContextAndNotItsEnd(t *testing.T) {
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.WithValue(context.Background(), someKey{}, 7))
	o := Submitted(ctx, nil)
	cancel(cause)
	require.Equal(t, 7, o.Value(someKey{}))
	require.NoError(t, o.Ended())
	require.False(t, o.Ends())
	// A context that is derived from the origin's values does not end with the one that has ended.
	derived, stop := context.WithCancel(values{context.Background(), o})
	defer stop()
	require.NoError(t, derived.Err())
	require.NoError(t, context.Cause(values{context.Background(), o}))
}

// values is a context with the values of an origin.
type values struct {
	context.Context
	o *Origin
}

func (v values) Value(key any) any { return v.o.Value(key) }

func TestATicketEndsWithItsContextAndReportsBothErrors(t *testing.T) {
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	var ticket Ticket
	o := ticket.Asked(ctx, nil)
	require.Same(t, &ticket, o.Ticket())
	require.NoError(t, o.Ended())
	cancel(cause)
	require.ErrorIs(t, o.Ended(), cause)
	require.ErrorIs(t, o.Ended(), context.Canceled)

	var other Ticket
	require.NoError(t, other.Asked(context.WithoutCancel(ctx), nil).Ended())
	var none *Origin
	require.NoError(t, none.Ended())
	require.Nil(t, none.Value(someKey{}))
	require.Nil(t, none.Ticket())
}
