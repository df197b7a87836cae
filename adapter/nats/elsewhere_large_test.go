package nats_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
)

// Many large commands are called at once, or calls with large results. They do not fail because too much waits to be sent, also not after
// many callers have given up.
func TestManyLargeCommandsAndResultsAreOnTheirWayAtOnce(t *testing.T) {
	t.Parallel()
	lasts(t)
	const size, n = 700 << 10, 110 // more than the queue of a session
	large := strings.Repeat("x", size)
	for name, row := range map[string]struct{ command, result string }{
		"commands": {large, "x"},
		"results":  {"x", large},
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, &server.Options{}).ClientURL()
			makeStage := func() *stage.Stage[string] {
				return stage.Func("far", func(_ context.Context, s string) behaviour.Outcome {
					if s == "?" {
						return behaviour.OK("")
					}
					return behaviour.OK(row.result)
				})
			}
			half(t, connect(t, url), "b", makeStage)
			far, _ := half(t, connect(t, url), "a", makeStage)
			_, err := call[string](t, far, "?")
			require.NoError(t, err)
			var calls sync.WaitGroup
			var gaveUp atomic.Int32
			const many = 30
			for range many {
				calls.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(100))*time.Millisecond)
					defer cancel()
					if _, err := stage.Call[string](ctx, far, row.command); err != nil {
						assert.ErrorIs(t, err, context.DeadlineExceeded)
						gaveUp.Add(1)
					}
				})
			}
			calls.Wait()
			t.Logf("%d of %d gave up", gaveUp.Load(), many)
			for range n {
				calls.Go(func() {
					got, err := stage.Call[string](t.Context(), far, row.command)
					assert.NoError(t, err)
					assert.Len(t, got, len(row.result))
				})
			}
			calls.Wait()
		})
	}
}
