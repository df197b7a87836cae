package fleet

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/pipeline"
)

// A process that joins when the question has been sent is heard of, and does
// not know that it is asked.
func TestAProcessThatJoinsDuringALookIsAskedAgain(t *testing.T) {
	conn, err := nats.Embed(t.TempDir(), nats.Store{})
	require.NoError(t, err)
	f, err := Observe(t.Context(), conn, "shop", Options{Name: "observer", Wait: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, f.Leave(context.Background()))
		assert.NoError(t, conn.Close(context.Background()))
	})
	snapshot, err := encodeState(pipeline.Snapshot{At: time.Now(), Accepted: 7})
	require.NoError(t, err)
	newcomer := report{announcement: announcement{Format: format, ID: "newcomer", Name: "late", Every: time.Hour}, Snapshot: snapshot}
	asked := 0
	sub, err := f.nc.Subscribe(f.subjects.ask, func(m *natsgo.Msg) {
		var q question
		assert.NoError(t, json.Unmarshal(m.Data, &q))
		switch {
		case q.Gone:
		case asked == 0:
			asked++
			assert.Empty(t, q.To, "all are asked first")
			assert.NoError(t, f.send(f.subjects.news, newcomer.announcement))
		default:
			assert.Equal(t, []string{"newcomer"}, q.To)
			assert.NoError(t, f.send(m.Reply, newcomer))
		}
	})
	require.NoError(t, err)
	defer func() { _ = sub.Unsubscribe() }()
	s, err := f.Snapshot(t.Context())
	require.NoError(t, err)
	require.Len(t, s.Processes, 1)
	require.Equal(t, Alive, s.Processes[0].State)
	require.EqualValues(t, 7, s.Processes[0].Snapshot.Accepted)
}
