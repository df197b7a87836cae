package nats

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// answered is a stream whose state was asked for.
type answered struct {
	jetstream.Stream

	info *jetstream.StreamInfo
}

func (a answered) CachedInfo() *jetstream.StreamInfo { return a.info }

// The stream was empty when it was asked, and its consumer a moment later has a message that is in flight.
func TestAMessageThatCameBetweenTwoAnswersOfTheServerHasNoAge(t *testing.T) {
	now := time.Now()
	stream := answered{info: &jetstream.StreamInfo{TimeStamp: now, State: jetstream.StreamState{FirstSeq: 8, LastSeq: 7}}}
	published, err := oldest(t.Context(), stream, &jetstream.ConsumerInfo{NumAckPending: 1, AckFloor: jetstream.SequenceInfo{Stream: 7}})
	require.NoError(t, err)
	require.Equal(t, now, published)
}
