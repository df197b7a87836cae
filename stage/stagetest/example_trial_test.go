package stagetest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stagetest"
)

func store(_ context.Context, order int) behaviour.Outcome { return behaviour.OK(order) }

func TestTheShopKeepsItsPromises(t *testing.T) {
	faults := stagetest.Inject(t, 42, stagetest.Faults{Panic: 0.02, Error: 0.05, Delay: 0.1})
	save := stage.Func("save", store)
	price := stage.Func("price", func(_ context.Context, order int) behaviour.Outcome {
		return behaviour.Forward(save, order)
	}, stage.Middleware(faults.Middleware), stage.Retry(stage.RetryPolicy{Attempts: 5}))

	trial := stagetest.Run(t, price, save)
	trial.Disturb(42, stagetest.Disturbances{KillWorker: 10 * time.Millisecond, KillSupervisor: 20 * time.Millisecond, KillControlLoop: 20 * time.Millisecond})
	for order := range 1000 {
		ticket, err := price.Ask(t.Context(), order)
		require.NoError(t, err)
		trial.Await(ticket)
	}
}
