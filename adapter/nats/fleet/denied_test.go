package fleet_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/adapter/nats/fleet"
)

func TestASnapshotWithoutThePermissionOfTheFleetIsAnError(t *testing.T) {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		Users: []*server.User{{Username: "a", Password: "b", Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Deny: []string{"golda.fleet.>"}},
			Subscribe: &server.SubjectPermission{Deny: []string{"golda.fleet.>"}},
		}}},
	})
	require.NoError(t, err)
	go s.Start()
	t.Cleanup(func() { halt(s) })
	require.True(t, s.ReadyForConnections(time.Minute))
	conn, err := nats.Connect(t.Context(), s.ClientURL(), natsgo.UserInfo("a", "b"))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	f, err := fleet.Observe(t.Context(), conn, "scans", fleet.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Leave(t.Context())) }()
	seen, err := f.Snapshot(t.Context())
	require.ErrorIs(t, err, natsgo.ErrPermissionViolation)
	require.ErrorContains(t, err, `"golda.fleet.scans.`)
	require.Empty(t, seen.Processes)
}
