package pipeline_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
)

// A stage that is added may have handled commands between the moment when a snapshot reads the list of stages and the moment when it reads
// their accounts.
func TestASnapshotIsBalancedWhileStagesAreAdded(t *testing.T) {
	s := stage.Func("s", echo[int])
	p := run(t, s)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 300 {
			guest := stage.Func(fmt.Sprintf("guest%d", i), func(_ context.Context, n int) behaviour.Outcome {
				return behaviour.Forward(s, n)
			})
			if err := p.Add(t.Context(), guest); err != nil {
				t.Error(err)
				return
			}
			if _, err := stage.Call[int](t.Context(), guest, i); err != nil {
				t.Error(err)
			}
		}
	})
	balancedInMotion(t, p, &wg)
	require.EqualValues(t, 300, p.Snapshot().Accepted)
}
