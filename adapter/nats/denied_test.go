package nats_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
)

func TestADenialOfAnotherSubjectDoesNotHideThatTheServerIsAway(t *testing.T) {
	s := launch(t, &server.Options{Users: []*server.User{{Username: "scans", Password: "b", Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{">"}, Deny: []string{"_INBOX_scans.other.>", "golda.fleet.>"}},
	}}}})
	var log buffer
	conn := connect(t, s.ClientURL(), natsgo.UserInfo("scans", "b"))
	numbers := inlet(t, conn, "numbers", nats.Options[int]{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	nc := conn.JetStream().Conn()
	require.NoError(t, nc.Publish("_INBOX_scans.other.6", nil))
	require.NoError(t, nc.Publish("golda.fleet.x.news", nil))
	eventually(t, "both are denied", func() bool { return strings.Count(log.String(), "does not permit") == 2 })
	require.NotContains(t, log.String(), "inlet=numbers")
	halt(s)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := numbers.Publish(ctx, "1", 1)
	require.ErrorIs(t, err, nats.ErrAway)
	_, overloaded := stage.Overloaded(err)
	require.True(t, overloaded)
}

func TestACallToAProcessToWhichTheUserMayNotPublishNamesStageProcessAndSubject(t *testing.T) {
	s := serve(t, &server.Options{Users: []*server.User{
		{Username: "all", Password: "p"},
		{Username: "some", Password: "p", Permissions: &server.Permissions{Publish: &server.SubjectPermission{
			Allow: []string{"$JS.>", "golda.inlet.>", "golda.dead.>", "golda.back.>", "golda.calls.>", "_INBOX_some.>"},
		}}},
	}})
	makeStage := func() *stage.Stage[int] {
		return stage.Func("far", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n) })
	}
	half(t, connect(t, s.ClientURL(), natsgo.UserInfo("all", "p")), "b", makeStage)
	far, _ := half(t, connect(t, s.ClientURL(), natsgo.UserInfo("some", "p")), "a", makeStage)
	_, err := call[int](t, far, 1)
	for _, part := range []string{`stage "far"`, `process "b"`, `"golda.node.`} {
		require.ErrorContains(t, err, part)
	}
}
