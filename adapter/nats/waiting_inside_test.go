package nats

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// One partition that receives does not hide that another one waits.
func TestAnInletWaitsWhileOneOfItsPartitionsDoes(t *testing.T) {
	var told error
	w := &waiting{of: map[int]error{}, tell: func(err error) { told = err }}
	gone, away := jetstream.ErrConsumerNotFound, errors.New("away")
	w.set(1, gone)
	w.set(2, nil)
	require.ErrorIs(t, told, gone)
	w.set(2, away)
	w.set(3, away)
	w.set(3, nil)
	require.ErrorIs(t, told, gone)
	require.ErrorIs(t, told, away)
	require.Equal(t, "away\n"+gone.Error(), told.Error(), "a text is there once")
	w.set(1, nil)
	require.NotErrorIs(t, told, gone)
	require.ErrorIs(t, told, away)
	w.set(2, nil)
	require.NoError(t, told)
}
