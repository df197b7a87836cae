package handling_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/handling"
)

// suspender is the context of a handler that suspends: it runs something else until it is woken.
type suspender struct {
	context.Context
	suspended int
}

func (s *suspender) Suspend(start func(wake func())) error {
	s.suspended++
	woken := make(chan struct{})
	start(func() { close(woken) })
	<-woken
	return nil
}

func TestACallerWaitsUntilTheChannelIsClosedOrItsContextEnds(t *testing.T) {
	for name, suspends := range map[string]bool{"a caller": false, "a handler that suspends": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base, cancel := context.WithCancel(t.Context())
				s := &suspender{Context: base}
				ctx := base
				if suspends {
					ctx = s
				}
				require.Equal(t, suspends, handling.Suspends(ctx))
				closed := make(chan struct{})
				result := make(chan error, 1)
				go func() { result <- handling.Until(ctx, closed) }()
				synctest.Wait()
				require.Empty(t, result)
				close(closed)
				require.NoError(t, <-result)
				go func() { result <- handling.Until(ctx, make(chan struct{})) }()
				synctest.Wait()
				require.Empty(t, result)
				cancel()
				require.ErrorIs(t, <-result, context.Canceled)
				require.Equal(t, map[bool]int{false: 0, true: 2}[suspends], s.suspended)
			})
		})
	}
}

func TestAContextThatNeverEndsWaitsForTheChannelAlone(t *testing.T) {
	closed := make(chan struct{})
	close(closed)
	require.NoError(t, handling.Until(context.Background(), closed))
}
