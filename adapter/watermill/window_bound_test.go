package watermill_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/watermill"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

func TestAWindowThatATopicNeverFillsIsRefused(t *testing.T) {
	s := newSource(t, newBroker(1, "a"), watermill.Options[string]{MaxInFlight: 8})
	of := func(count int, most time.Duration) *stage.Flow[string, window.Window[struct{}, []string]] {
		return window.All("collect", window.Bounds[string]{Count: count, Time: most})
	}
	_, err := pipeline.New("test", pipeline.Feed("orders", of(9, 0), s.Feed))
	require.ErrorContains(t, err,
		`Feed "orders": source "orders" has at most 8 messages in the pipeline at once, and only 9 commands close a window of stage "collect"`)
	_, err = pipeline.New("test", pipeline.Feed("orders", of(8, 0), s.Feed))
	require.NoError(t, err)
	_, err = pipeline.New("test", pipeline.Feed("orders", of(9, time.Minute), s.Feed))
	require.NoError(t, err)
}
