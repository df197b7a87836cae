package stagetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stagetest"
)

func TestAWrappedBehaviourThatSuspendsIsDelayedWithoutItsWorker(t *testing.T) {
	for name, row := range map[string]struct {
		faults stagetest.Faults
		takes  time.Duration
	}{
		"delayed": {stagetest.Faults{Delay: 1, Longest: time.Second}, time.Second},
		"hanging": {stagetest.Faults{Hang: 1}, time.Minute},
		"neither": {stagetest.Faults{}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				t.Cleanup(func() { time.Sleep(time.Second) }) // protoactor's throttle of dead letters has to wake up and end
				in := stagetest.Inject(t, 1, row.faults)
				b := stagetest.Wrap[int](in, behaviour.Coroutine[int](func(_ coroutine.Context, n int) behaviour.Outcome { return behaviour.OK(n) }))
				s := stage.New("s", b, stage.Workers(1, 1), stage.Batch(1), stage.Timeout(time.Minute), stage.Grace(time.Second))
				p, err := pipeline.New("p", s, pipeline.Control(policy.Fixed{}))
				require.NoError(t, err)
				require.NoError(t, p.Start(t.Context()))
				begin := time.Now()
				var tickets []*stage.Ticket
				for n := range 10 {
					ticket, err := s.Ask(t.Context(), n)
					require.NoError(t, err)
					tickets = append(tickets, ticket)
				}
				for n, ticket := range tickets {
					got, err := ticket.Wait(t.Context())
					if name == "hanging" {
						require.ErrorIs(t, err, stage.ErrTimeout)
						continue
					}
					require.NoError(t, err)
					require.Equal(t, n, got)
				}
				require.LessOrEqual(t, time.Since(begin), row.takes, "they wait concurrently")
				if row.takes > 0 {
					require.Greater(t, time.Since(begin), row.takes/2)
				}
				require.NoError(t, p.Stop(t.Context()))
			})
		})
	}
}
