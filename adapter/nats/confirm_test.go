package nats_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/stage"
)

// denying starts a server that denies a user to publish to subjects, and connects as that user.
func denying(t *testing.T, subjects ...string) *nats.Conn {
	t.Helper()
	s := serve(t, &server.Options{Users: []*server.User{{Username: "a", Password: "b", Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{">"}, Deny: subjects},
	}}}})
	conn, err := nats.Connect(t.Context(), s.ClientURL(), natsgo.UserInfo("a", "b"))
	require.NoError(t, err)
	t.Cleanup(func() { shut(t, conn) })
	return conn
}

func TestAnAcknowledgementThatIsForbiddenDoesNotCount(t *testing.T) {
	conn := denying(t, "$JS.ACK.>")
	var log buffer
	numbers := inlet(t, conn, "numbers", nats.Options[int]{AckWait: 100 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, conn.Healthy())
	const n = 5
	publish(t, numbers, n)
	var done tally
	p := start(t, numbers, stage.Sink("do", func(_ context.Context, k int) error { done.add(k); return nil }))
	eventually(t, "all are delivered again", func() bool { return numbers.Counts().Repeated >= 3*n })
	for k := range n {
		require.Equal(t, 1, done.of[k], "it is handled once")
	}
	require.Zero(t, numbers.Counts().Acknowledged)
	require.EqualValues(t, n, status(t, numbers).Pending)
	const subject = "$JS.ACK.GOLDA_numbers.golda.>"
	require.ErrorContains(t, conn.Healthy(), subject)
	require.ErrorIs(t, conn.Healthy(), natsgo.ErrPermissionViolation)
	require.Contains(t, log.String(), subject)
	require.NoError(t, p.Stop(t.Context()))
	shut(t, conn)
	require.EqualValues(t, n, numbers.Counts().GivenBack)
	lawful(t, numbers.Counts())
}

// A message that has ended takes no place of MaxInFlight while the server has not
// confirmed that, unless there are too many.
func TestAcknowledgementsWithoutConfirmationHoldUpNoDelivery(t *testing.T) {
	conn := denying(t, "$JS.ACK.>")
	const most = 5
	numbers := inlet(t, conn, "numbers", nats.Options[int]{MaxInFlight: most, Logger: slog.New(slog.DiscardHandler)})
	publish(t, numbers, 3*most)
	var done tally
	start(t, numbers, stage.Sink("do", func(_ context.Context, k int) error { done.add(k); return nil }))
	eventually(t, "others are delivered", func() bool { return done.len() == 2*most })
	eventually(t, "the inlet is full", func() bool { return conn.Healthy() != nil })
	time.Sleep(50 * time.Millisecond) // a further request would have been sent by now
	require.Equal(t, 2*most, done.len())
	require.EqualValues(t, 2*most, numbers.Counts().InFlight)
	require.Zero(t, numbers.Counts().Acknowledged)
}

// A confirmation costs a message. The server is asked for one with at most each
// 64th acknowledgement, or after a millisecond without one.
func TestOneConfirmationStandsForManyAcknowledgements(t *testing.T) {
	s := serve(t, &server.Options{})
	conn := connect(t, s.ClientURL())
	spy, err := natsgo.Connect(s.ClientURL())
	require.NoError(t, err)
	defer spy.Close()
	var asked atomic.Int64
	_, err = spy.Subscribe("$JS.ACK.>", func(m *natsgo.Msg) {
		if m.Reply != "" {
			asked.Add(1)
		}
	})
	require.NoError(t, err)
	numbers := inlet(t, conn, "numbers", nats.Options[int]{})
	const n = 1000
	publish(t, numbers, n)
	begin := time.Now()
	start(t, numbers, stage.Sink("do", func(context.Context, int) error { return nil }))
	eventually(t, "all are acknowledged", func() bool { return numbers.Counts().Acknowledged == n })
	took := time.Since(begin)
	require.NoError(t, spy.Drain())
	eventually(t, "the spy has heard all", spy.IsClosed)
	require.Positive(t, asked.Load())
	require.LessOrEqual(t, asked.Load(), 1+n/64+took.Milliseconds())
}

// The message is handled by a process that may not acknowledge it, and delivered again and again. The next process has handled nothing.
func TestTheLetterOfAMessageThatMayNotBeAcknowledgedSaysSo(t *testing.T) {
	s := serve(t, &server.Options{Users: []*server.User{
		{Username: "a", Password: "b", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$JS.ACK.>"}}}},
		{Username: "admin", Password: "b"},
	}})
	o := nats.Options[int]{AckWait: 100 * time.Millisecond, Retry: stage.RetryPolicy{Attempts: 2}}
	first := connect(t, s.ClientURL(), natsgo.UserInfo("a", "b"))
	numbers := inlet(t, first, "numbers", o)
	publish(t, numbers, 1)
	var done tally
	p := start(t, numbers, stage.Sink("do", func(_ context.Context, k int) error { done.add(k); return nil }))
	eventually(t, "it is delivered again", func() bool { return numbers.Counts().Repeated >= 3 })
	require.NoError(t, p.Stop(t.Context()))
	shut(t, first)

	var log buffer
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	numbers = inlet(t, connect(t, s.ClientURL(), natsgo.UserInfo("a", "b")), "numbers", o)
	start(t, numbers, stage.Sink("do", func(_ context.Context, k int) error { done.add(k); return nil }))
	eventually(t, "there is a letter", func() bool { return status(t, numbers).Buried == 1 })
	for l, err := range numbers.Letters(t.Context()) {
		require.NoError(t, err)
		require.Equal(t, nats.Deliveries, l.Reason)
		require.Contains(t, l.Err, "at most 2 are allowed; it may have been handled each time")
		require.Contains(t, l.Err, `the server does not permit "$JS.ACK.GOLDA_numbers.golda.>"`)
	}
	eventually(t, "the log says so, too", func() bool { return strings.Contains(log.String(), "it may have been handled each time") })
	require.Equal(t, 1, done.of[0])
}

func TestAnInletThatIsForbiddenNamesTheSubjectAtOnce(t *testing.T) {
	for denied, part := range map[string]string{
		"$JS.API.STREAM.CREATE.GOLDA_numbers":         "its stream",
		"$JS.API.STREAM.CREATE.GOLDA_numbers_DEAD":    "its stream of dead letters",
		"$JS.API.CONSUMER.CREATE.GOLDA_numbers.golda": "its consumer",
	} {
		conn := denying(t, denied)
		_, err := nats.NewInlet(t.Context(), conn, "numbers", nats.Options[int]{})
		require.ErrorIs(t, err, natsgo.ErrPermissionViolation, part)
		require.ErrorContains(t, err, denied)
	}
}

func TestAcknowledgementsThatAreLostWithTheConnectionAreSentAgain(t *testing.T) {
	t.Parallel()
	s := serve(t, &server.Options{})
	link := newProxy(t, s.Addr().(*net.TCPAddr).String())
	conn, err := nats.Connect(t.Context(), "nats://"+link.address(), natsgo.ReconnectWait(10*time.Millisecond))
	require.NoError(t, err)
	defer shut(t, conn)
	numbers := inlet(t, conn, "numbers", nats.Options[int]{})
	const n = 50
	publish(t, numbers, n)
	var done tally
	end := make(chan struct{})
	start(t, numbers, stage.Sink("do", func(_ context.Context, k int) error { done.add(k); <-end; return nil }, stage.Workers(n, n)))
	eventually(t, "all have begun", func() bool { return done.len() == n })
	close(end)
	link.cut()
	require.Less(t, numbers.Counts().Acknowledged, uint64(n)+1)
	link.heal()
	eventually(t, "all are acknowledged", func() bool { return numbers.Counts().Acknowledged == n })
	require.Zero(t, status(t, numbers).Pending, "the server knows it")
	lawful(t, numbers.Counts())
}

func TestAConsumerThatIsRemovedIsMadeAnew(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	var log buffer
	numbers := inlet(t, conn, "numbers", nats.Options[int]{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	var done tally
	start(t, numbers, stage.Sink("do", func(_ context.Context, k int) error { done.add(k); return nil }))
	publish(t, numbers, 5)
	eventually(t, "all are done", func() bool { return numbers.Counts().Acknowledged == 5 })
	require.NoError(t, conn.JetStream().DeleteConsumer(t.Context(), "GOLDA_numbers", "golda"))
	for k := range 5 {
		require.NoError(t, numbers.Publish(t.Context(), "", 5+k))
	}
	eventually(t, "the others are done", func() bool { return done.len() == 10 })
	require.Contains(t, log.String(), "the consumer of the inlet was removed")
}

func TestAStoreThatLeavesNoRoomForMessagesIsRefused(t *testing.T) {
	for _, most := range []int{1, 500, 4096, 8191} {
		_, err := nats.Embed(t.TempDir(), nats.Store{MaxPayload: most})
		require.ErrorContains(t, err, "must be at least 8192")
	}
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{MaxPayload: 8192}), "numbers", nats.Options[int]{})
	require.NoError(t, numbers.Publish(t.Context(), "", 1))
}

func TestAMessageThatAnotherProgramSendsToTheInboxIsIgnored(t *testing.T) {
	s := serve(t, &server.Options{})
	conn, err := nats.Connect(t.Context(), s.ClientURL())
	require.NoError(t, err)
	defer shut(t, conn)
	spy, err := natsgo.Connect(s.ClientURL())
	require.NoError(t, err)
	defer spy.Close()
	requests, err := spy.SubscribeSync("$JS.API.CONSUMER.MSG.NEXT.>")
	require.NoError(t, err)
	require.NoError(t, spy.Flush())
	var log buffer
	numbers := inlet(t, conn, "numbers", nats.Options[int]{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	var done tally
	p := start(t, numbers, stage.Sink("do", func(_ context.Context, k int) error { done.add(k); return nil }))
	request, err := requests.NextMsg(time.Minute)
	require.NoError(t, err)
	require.NoError(t, spy.PublishRequest(request.Reply, "a.subject", []byte("1")))
	require.NoError(t, spy.Flush())
	publish(t, numbers, 5)
	eventually(t, "all are done", func() bool { return numbers.Counts().Acknowledged == 5 })
	require.EqualValues(t, 5, numbers.Counts().Delivered)
	require.NotContains(t, log.String(), "away")
	require.NoError(t, p.Stop(t.Context()))
	require.False(t, strings.Contains(log.String(), "dead letter"))
}
