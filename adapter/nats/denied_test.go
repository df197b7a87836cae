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
	"github.com/golda-dev/golda/pipeline"
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

// The server denies the message at once, and never answers it.
func TestAPublishThatIsDeniedFailsBeforeItsTimeLimit(t *testing.T) {
	conn := denying(t, "golda.inlet.>")
	numbers := inlet(t, conn, "numbers", nats.Options[int]{})
	f := publishing(t, numbers, nil)
	for name, publish := range map[string]func(ctx context.Context) error{
		"Publish":     func(ctx context.Context) error { return numbers.Publish(ctx, "1", 1) },
		"PublishOnce": func(ctx context.Context) error { _, err := numbers.PublishOnce(ctx, "1", 1); return err },
		"Publisher":   func(ctx context.Context) error { _, err := f.Call(ctx, 1); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		begin := time.Now()
		err := publish(ctx)
		cancel()
		require.ErrorContains(t, err, `nats: inlet "numbers": the server does not permit "golda.inlet.numbers"`, name)
		require.ErrorIs(t, err, natsgo.ErrPermissionViolation, name)
		require.Less(t, time.Since(begin), time.Minute, "%s waited for its time limit", name)
		_, overloaded := stage.Overloaded(err)
		require.False(t, overloaded, name)
	}
}

// What a stage of another process is sent waits until it is permitted, as for a server that is away.
func TestACarrierWaitsForThePermissionToPublishAndNamesTheSubject(t *testing.T) {
	conn := denying(t, "golda.inlet.calls_far")
	var log buffer
	far := stage.Sink("far", func(context.Context, int) error { return nil })
	near := stage.Map("near", func(_ context.Context, n int) (int, error) { return n, nil })
	carrier := nats.NewCarrier(conn, "calls", nats.Options[any]{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	p, err := pipeline.New("calls", near.To(far), quiet, pipeline.Assign("a", "near"), pipeline.Assign("b", "far"), pipeline.RunsHere(carrier, "a"))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	require.NoError(t, near.Submit(t.Context(), 1))
	eventually(t, "the log names the subject", func() bool {
		return strings.Contains(log.String(), "the carrier waits") && strings.Contains(log.String(), `does not permit \"golda.inlet.calls_far\"`)
	})
	require.EqualValues(t, 1, p.Snapshot().InFlight)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, p.Stop(ended))
}
