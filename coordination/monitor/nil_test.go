package monitor_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/monitor"
	"github.com/golda-dev/golda/coordination/scheduler"
)

func TestWhatIsNilIsRefusedByName(t *testing.T) {
	b := coroutine.Blocking(t.Context())
	var nothing func(context.Context) (int, error)
	_, err := coroutine.Await(b, nothing)
	require.ErrorContains(t, err, "coroutine: the function is nil")
	_, err = coroutine.Gather(b, nothing)
	require.ErrorContains(t, err, "coroutine: the function is nil")
	for text, f := range map[string]func(){
		"monitor: New: the Node is nil":                                     func() { _, _ = monitor.New(t.Context(), nil, "m") },
		"coroutine: Yield: the Context is nil":                              func() { _ = coroutine.Yield(nil) },
		"coroutine: Await: the Context is nil":                              func() { _, _ = coroutine.Await(nil, nothing) },
		"scheduler: Chan: the channel is nil, and would never have a value": func() { scheduler.Chan[int](nil) },
	} {
		require.PanicsWithValue(t, text, f)
	}
}
