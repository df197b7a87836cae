package nats_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
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

// failsFor returns a stage that counts the commands that are short, and fails for others.
func failsFor(long int, done *atomic.Int64) *stage.Flow[string, struct{}] {
	return stage.Sink("read", func(_ context.Context, text string) error {
		if len(text) >= long {
			return errors.New("too long")
		}
		done.Add(1)
		return nil
	})
}

// lettersOf returns the dead letters.
func lettersOf[C any](t testing.TB, i *nats.Inlet[C]) (all []nats.Letter) {
	t.Helper()
	for l, err := range i.Letters(t.Context()) {
		require.NoError(t, err)
		all = append(all, l)
	}
	return all
}

// once is a policy without another delivery.
var onceOnly = stage.RetryPolicy{Attempts: 1}

func TestAMessageAsLargeAsTheServerTakesBecomesALetterWithoutItsEnd(t *testing.T) {
	var log buffer
	conn := embed(t, t.TempDir(), nats.Store{})
	texts := inlet(t, conn, "texts", nats.Options[string]{Retry: onceOnly, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	large := &natsgo.Msg{Subject: "golda.inlet.texts", Header: natsgo.Header{"Golda-Type": {"string"}, "Golda-Version": {"1"}}}
	large.Data = []byte(`"` + strings.Repeat("x", 1<<20-large.Size()-2) + `"`)
	_, err := conn.JetStream().PublishMsg(t.Context(), large)
	require.NoError(t, err)
	require.NoError(t, texts.Publish(t.Context(), "", strings.Repeat("y", 100)))
	var done atomic.Int64
	newPipeline(t, failsFor(100, &done), texts.Feed)
	eventually(t, "both are dead letters", func() bool { return texts.Counts().DeadLettered == 2 })
	for _, l := range lettersOf(t, texts) {
		if l.Cut == 0 {
			require.Len(t, l.Data, 102)
			continue
		}
		require.Len(t, large.Data, len(l.Data)+l.Cut)
		require.True(t, strings.HasPrefix(string(large.Data), string(l.Data)), "it is the beginning")
		require.Equal(t, "string", l.Type)
		require.EqualValues(t, 1, l.Sequence)
		require.ErrorContains(t, texts.Retry(t.Context(), l), "bytes of it are missing")
		require.NoError(t, texts.Drop(t.Context(), l))
	}
	require.Len(t, lettersOf(t, texts), 1)
	require.Contains(t, log.String(), "MaxPayload")
}

// Another program can set headers of any size. A letter has further headers, and a server takes 64 KiB of them.
func TestAMessageWithAHeaderAsLargeAsTheServerTakesBecomesALetter(t *testing.T) {
	for _, name := range []string{"Golda-Type", "Golda-Version"} {
		conn := embed(t, t.TempDir(), nats.Store{})
		texts := inlet(t, conn, "texts", nats.Options[string]{Retry: onceOnly})
		m := &natsgo.Msg{Subject: "golda.inlet.texts", Data: []byte(`"x"`), Header: natsgo.Header{"Golda-Type": {"string"}, "Golda-Version": {"1"}}}
		m.Header.Set(name, strings.Repeat("t", 1<<16-200))
		_, err := conn.JetStream().PublishMsg(t.Context(), m)
		require.NoError(t, err)
		require.NoError(t, texts.Publish(t.Context(), "", strings.Repeat("y", 100)))
		var done atomic.Int64
		newPipeline(t, failsFor(1, &done), texts.Feed)
		eventually(t, "both are dead letters", func() bool { return texts.Counts().DeadLettered == 2 })
		letters := lettersOf(t, texts)
		require.Len(t, letters, 2)
		for _, l := range letters {
			if l.Sequence == 1 {
				require.Positive(t, l.Cut, name)
				require.ErrorContains(t, texts.Retry(t.Context(), l), "bytes of it are missing")
			}
		}
	}
}

func TestTheRetryOfALetterThatIsDeniedFailsAtOnce(t *testing.T) {
	s := serve(t, &server.Options{Users: []*server.User{{Username: "all", Password: "p"}, {Username: "some", Password: "p", Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{">"}, Deny: []string{"golda.inlet.>"}},
	}}}})
	all, some := connect(t, s.ClientURL(), natsgo.UserInfo("all", "p")), connect(t, s.ClientURL(), natsgo.UserInfo("some", "p"))
	texts := inlet(t, all, "texts", nats.Options[string]{Retry: onceOnly})
	require.NoError(t, texts.Publish(t.Context(), "", "x"))
	var done atomic.Int64
	newPipeline(t, failsFor(1, &done), texts.Feed)
	eventually(t, "there is a letter", func() bool { return texts.Counts().DeadLettered == 1 })
	reader := inlet(t, some, "texts", nats.Options[string]{Retry: onceOnly})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	require.ErrorContains(t, reader.Retry(ctx, lettersOf(t, reader)[0]), `the server does not permit "golda.inlet.texts"`)
	require.NoError(t, ctx.Err())
}

func TestLettersThatMayNotBeReadOrDroppedAreAnErrorAtOnce(t *testing.T) {
	deny := func(subjects ...string) *server.Permissions {
		return &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{">"}, Deny: subjects}}
	}
	s := serve(t, &server.Options{Users: []*server.User{
		{Username: "all", Password: "p"},
		{Username: "blind", Password: "p", Permissions: deny("$JS.API.STREAM.MSG.GET.>", "$JS.API.DIRECT.GET.>")},
		{Username: "reader", Password: "p", Permissions: deny("$JS.API.STREAM.MSG.DELETE.>")},
	}})
	of := func(user string) *nats.Inlet[string] {
		return inlet(t, connect(t, s.ClientURL(), natsgo.UserInfo(user, "p")), "texts", nats.Options[string]{Retry: onceOnly})
	}
	texts := of("all")
	require.NoError(t, texts.Publish(t.Context(), "", "x"))
	var done atomic.Int64
	newPipeline(t, failsFor(1, &done), texts.Feed)
	eventually(t, "there is a letter", func() bool { return texts.Counts().DeadLettered == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	for _, err := range of("blind").Letters(ctx) {
		require.ErrorContains(t, err, `nats: inlet "texts": dead letters: the server does not permit "$JS.API.`)
	}
	require.ErrorContains(t, of("reader").Drop(ctx, lettersOf(t, texts)[0]), `the server does not permit "$JS.API.STREAM.MSG.DELETE.GOLDA_texts_DEAD"`)
	require.NoError(t, ctx.Err())
}

func TestALetterIsCutIfTheServerTakesLessThanBefore(t *testing.T) {
	dir := t.TempDir()
	conn, err := nats.Embed(dir, nats.Store{})
	require.NoError(t, err)
	o := nats.Options[string]{Retry: onceOnly}
	texts := inlet(t, conn, "texts", o)
	require.NoError(t, texts.Publish(t.Context(), "", strings.Repeat("x", 100_000)))
	require.NoError(t, texts.Publish(t.Context(), "", "short"))
	shut(t, conn)
	texts = inlet(t, embed(t, dir, nats.Store{MaxPayload: 16 << 10}), "texts", o)
	var done atomic.Int64
	newPipeline(t, failsFor(100, &done), texts.Feed)
	eventually(t, "the long one is a dead letter", func() bool { return texts.Counts().DeadLettered == 1 && done.Load() == 1 })
	l := lettersOf(t, texts)[0]
	require.Equal(t, 100_002, len(l.Data)+l.Cut)
	require.Contains(t, l.Err, "too long")
}

func TestAStreamOfLettersThatIsGoneIsMadeAnew(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	texts := inlet(t, conn, "texts", nats.Options[string]{Retry: onceOnly})
	require.NoError(t, conn.JetStream().DeleteStream(t.Context(), "GOLDA_texts_DEAD"))
	require.NoError(t, texts.Publish(t.Context(), "", strings.Repeat("x", 100)))
	var done atomic.Int64
	newPipeline(t, failsFor(100, &done), texts.Feed)
	eventually(t, "it is a dead letter", func() bool { return texts.Counts().DeadLettered == 1 })
	require.Len(t, lettersOf(t, texts), 1)
}

// There are more letters than messages in flight, and none can be stored.
func TestLettersThatAreForbiddenHoldUpNoOtherMessage(t *testing.T) {
	s := serve(t, &server.Options{Users: []*server.User{{Username: "a", Password: "b", Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{">"}, Deny: []string{"golda.dead.>"}},
	}}}})
	conn, err := nats.Connect(t.Context(), s.ClientURL(), natsgo.UserInfo("a", "b"))
	require.NoError(t, err)
	var log buffer
	texts := inlet(t, conn, "texts", nats.Options[string]{
		Retry: onceOnly, MaxInFlight: 8, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	const bad, good = 8, 100
	for n := range bad + good {
		text := "good " + strconv.Itoa(n)
		if n < bad {
			text = strings.Repeat("x", 100)
		}
		require.NoError(t, texts.Publish(t.Context(), "", text))
	}
	var done atomic.Int64
	p := newPipeline(t, failsFor(100, &done), texts.Feed)
	eventually(t, "the others are done", func() bool { return texts.Counts().Acknowledged == good })
	require.EqualValues(t, bad, texts.Counts().InFlight)
	eventually(t, "the log names the subject", func() bool { return strings.Contains(log.String(), "golda.dead.texts") })
	require.NoError(t, p.Stop(t.Context()))
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorContains(t, conn.Close(short), "8 messages are in flight")
}
