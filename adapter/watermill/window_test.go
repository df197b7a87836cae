package watermill_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/watermill"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

func TestAWindowOfMessagesIsAcknowledgedWhenItsResultHasEnded(t *testing.T) {
	const n = 10
	b := newBroker(n, numbers(n)...)
	s := newSource(t, b, watermill.Options[string]{Retry: quick})
	got, fails := newTally(), true
	of := window.All("all", window.Bounds[string]{Count: n, Time: time.Minute})
	sink := stage.Sink("sink", func(_ context.Context, w window.Window[struct{}, []string]) error {
		if fails {
			fails = false
			return errors.New("the database is down")
		}
		for _, cmd := range w.Value {
			got.add(cmd)
		}
		return nil
	}, stage.Workers(1, 1))
	start(t, of.Stage, s.Feed, of.To(sink))
	eventually(t, func() bool { return b.total(b.acked) == n })
	require.ElementsMatch(t, numbers(n), slices.Compact(slices.Sorted(slices.Values(got.list()))))
}
