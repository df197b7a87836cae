package nats_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/adapter/nats"
)

// A stream whose caller does not wait for it is still made when the connection is closed.
func TestCloseWaitsForTheStreamsThatTheServerMakes(t *testing.T) {
	before, left := goleak.IgnoreCurrent(), 0
	for range 20 {
		conn, err := nats.Embed(t.TempDir(), nats.Store{})
		require.NoError(t, err)
		ended, end := context.WithTimeout(t.Context(), time.Microsecond)
		for k := range 20 {
			_, err := conn.JetStream().CreateStream(ended, jetstream.StreamConfig{Name: strconv.Itoa(k), Subjects: []string{strconv.Itoa(k)}})
			if err != nil { // on a busy machine the server may answer before the timer
				require.ErrorIs(t, err, context.DeadlineExceeded)
				left++
			}
		}
		end()
		shut(t, conn)
	}
	require.Positive(t, left)
	require.NoError(t, goleak.Find(before))
}
