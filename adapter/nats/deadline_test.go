package nats_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

// within returns a context whose commands have a deadline that far away.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := stage.WithDeadline(t.Context(), time.Now().Add(d))
	t.Cleanup(cancel)
	return ctx
}

// deadlines notes the deadline of each command that is handled, the zero time of one without.
type deadlines struct {
	mu sync.Mutex
	of map[int][]time.Time
}

func (d *deadlines) handle(ctx context.Context, n int) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == nil {
		d.of = map[int][]time.Time{}
	}
	at, _ := ctx.Deadline()
	d.of[n] = append(d.of[n], at)
	return nil
}

// far is a time that no test takes, and exact is how exact a deadline must be: the machine may stand still between the
// two instants at which the clocks are read.
const (
	far   = 24 * time.Hour
	exact = time.Hour
)

// soon is a deadline that a busy machine meets. The time of a message begins when the server has it, after its publisher's. It has passed after
// the time past, from when the server has the message, if the process has asked the server for its time within twice the difference.
const (
	soon = 5 * time.Second
	past = soon + 2*time.Second
)

func TestADeadlineTravelsWithAMessage(t *testing.T) {
	t.Parallel()
	conn := embed(t, t.TempDir(), nats.Store{})
	numbers := inlet(t, conn, "numbers", nats.Options[int]{UntilEmpty: true})
	require.NoError(t, numbers.Publish(within(t, far), "", 1))
	require.NoError(t, numbers.Publish(t.Context(), "", 2))
	plain, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	require.NoError(t, numbers.Publish(plain, "", 3))
	var seen deadlines
	run(t, numbers, stage.Sink("sink", seen.handle))
	require.Len(t, seen.of, 3)
	assert.WithinDuration(t, time.Now().Add(far), seen.of[1][0], exact)
	assert.Zero(t, seen.of[2][0])
	assert.Zero(t, seen.of[3][0], "a plain deadline bounds the wait for the server")
}

func TestAMessageWhoseDeadlinePassesInTheServerIsADeadLetter(t *testing.T) {
	t.Parallel()
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{})
	for i := range 100 {
		require.NoError(t, numbers.Publish(within(t, soon), "", i))
	}
	time.Sleep(past)
	p := newPipeline(t, stage.Sink("sink", func(_ context.Context, n int) error {
		t.Errorf("%d is handled", n)
		return nil
	}), numbers.Feed)
	expired(t, numbers, 100)
	require.NoError(t, p.Stop(context.Background()))
	require.EqualValues(t, 100, p.Snapshot().Shed)
	require.True(t, p.Snapshot().Balanced(), p.Snapshot().Law())
}

// A message waits for a busy worker when its deadline passes.
func TestAMessageWhoseDeadlinePassesInTheStageIsADeadLetter(t *testing.T) {
	t.Parallel()
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{})
	release := make(chan struct{})
	newPipeline(t, stage.Sink("sink", func(_ context.Context, n int) error {
		<-release
		assert.Zero(t, n, "the others are late")
		return nil
	}, stage.Workers(1, 1)), numbers.Feed)
	require.NoError(t, numbers.Publish(t.Context(), "", 0))
	eventually(t, "it is handled", func() bool { return numbers.Counts().InFlight == 1 })
	ctx := within(t, 10*time.Second)
	for i := range 10 {
		require.NoError(t, numbers.Publish(ctx, "", i+1))
	}
	<-ctx.Done()
	defer close(release)
	eventually(t, "they are letters", func() bool { return numbers.Counts().DeadLettered == 10 })
}

// The handler of a message fails at the deadline. When the message is delivered again, it has expired.
func TestADeadlineHoldsForAllDeliveriesOfAMessage(t *testing.T) {
	t.Parallel()
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers",
		nats.Options[int]{Retry: stage.RetryPolicy{Attempts: 100, Backoff: time.Millisecond}})
	handled := make(chan time.Time, 100)
	newPipeline(t, stage.Sink("sink", func(ctx context.Context, _ int) error {
		at, _ := ctx.Deadline()
		handled <- at
		<-ctx.Done()
		return ctx.Err()
	}), numbers.Feed)
	require.NoError(t, numbers.Publish(within(t, soon), "", 1))
	expired(t, numbers, 1)
	require.Len(t, handled, 1)
}

func TestAMessageThatIsDeliveredAgainHasTheSameDeadline(t *testing.T) {
	t.Parallel()
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers",
		nats.Options[int]{UntilEmpty: true, Retry: stage.RetryPolicy{Attempts: 3, Backoff: time.Millisecond}})
	require.NoError(t, numbers.Publish(within(t, far), "", 1))
	var seen deadlines
	run(t, numbers, stage.Sink("sink", func(ctx context.Context, n int) error {
		_ = seen.handle(ctx, n)
		if len(seen.of[n]) < 3 {
			return errors.New("no")
		}
		return nil
	}))
	require.Len(t, seen.of[1], 3)
	for _, at := range seen.of[1] {
		assert.WithinDuration(t, time.Now().Add(far), at, exact)
	}
}

// Each command of a batch has its own deadline, and so has its message.
func TestAPublisherGivesMessagesTheDeadlinesOfTheirCommands(t *testing.T) {
	t.Parallel()
	const n = 60
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{})
	var seen deadlines
	sink := stage.Sink("sink", seen.handle)
	publisher := numbers.Publisher("publisher", nil)
	p, err := pipeline.New("test", publisher, pipeline.Feed("feed", sink, numbers.Feed), quiet)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	for k := range n {
		ctx := t.Context()
		if k%3 > 0 {
			ctx = within(t, time.Duration(k%3)*far)
		}
		require.NoError(t, publisher.Submit(ctx, k))
	}
	eventually(t, "all are done", func() bool { return numbers.Counts().Acknowledged == n })
	require.NoError(t, p.Stop(context.Background()))
	for k := range n {
		require.Len(t, seen.of[k], 1, k)
		if k%3 == 0 {
			require.Zero(t, seen.of[k][0], k)
		} else {
			require.WithinDuration(t, time.Now().Add(time.Duration(k%3)*far), seen.of[k][0], exact, k)
		}
	}
}

// elsewhere starts process a, which has a stage that leads to one in process b. It returns that stage, and a function that starts b.
func elsewhere(t *testing.T, handle func(context.Context, int) error, opts ...stage.Option) (conn *nats.Conn, near *stage.Flow[int, int], startFar func()) {
	t.Helper()
	conn = embed(t, t.TempDir(), nats.Store{})
	start := func(process string) *stage.Flow[int, int] {
		near := stage.Map("near", func(_ context.Context, n int) (int, error) { return n, nil })
		far := stage.Sink("far", handle, opts...)
		p, err := pipeline.New("test", quiet, near.To(far), pipeline.Assign("a", "near"), pipeline.Assign("b", "far"),
			pipeline.RunsHere(nats.NewCarrier(conn, "test", nats.Options[any]{}), process))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		t.Cleanup(func() { assert.NoError(t, p.Stop(context.Background())) })
		return near
	}
	return conn, start("a"), func() { start("b") }
}

func TestADeadlineTravelsToAStageThatRunsElsewhere(t *testing.T) {
	t.Parallel()
	const n = 60
	handled := make(chan int, n)
	var seen deadlines
	_, near, startFar := elsewhere(t, func(ctx context.Context, k int) error {
		defer func() { handled <- k }()
		return seen.handle(ctx, k)
	})
	for k := range n {
		ctx := t.Context()
		if k%3 > 0 {
			ctx = within(t, time.Duration(k%3)*far)
		}
		require.NoError(t, near.Submit(ctx, k))
	}
	startFar()
	for range n {
		<-handled
	}
	for k := range n {
		if k%3 == 0 {
			require.Zero(t, seen.of[k][0], k)
		} else {
			require.WithinDuration(t, time.Now().Add(time.Duration(k%3)*far), seen.of[k][0], exact, k)
		}
	}
}

func TestACommandForAStageElsewhereWhoseDeadlinePassesIsADeadLetterThere(t *testing.T) {
	t.Parallel()
	conn, near, startFar := elsewhere(t, func(_ context.Context, n int) error {
		t.Errorf("%d is handled", n)
		return nil
	})
	ctx := within(t, soon)
	for k := range 10 {
		require.NoError(t, near.Submit(ctx, k))
	}
	far := inlet(t, conn, "test_far", nats.Options[int]{})
	eventualStatus(t, far, func(s nats.Status) bool { return s.Pending == 10 })
	time.Sleep(past)
	startFar()
	expired(t, far, 10)
}

// A caller gives the handler elsewhere its deadline, also if that is a plain one.
func TestACallOfAStageElsewhereHasTheDeadlineOfItsCaller(t *testing.T) {
	t.Parallel()
	var seen deadlines
	_, near, startFar := elsewhere(t, seen.handle)
	startFar()
	ctx, cancel := context.WithTimeout(t.Context(), far)
	defer cancel()
	_, err := near.Call(ctx, 1)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(far), seen.of[1][0], exact)
}

func TestALetterThatIsTriedAgainHasNoDeadline(t *testing.T) {
	t.Parallel()
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{})
	require.NoError(t, numbers.Publish(within(t, soon), "", 1))
	time.Sleep(past)
	handled := make(chan bool, 10)
	newPipeline(t, stage.Sink("sink", func(ctx context.Context, _ int) error {
		_, limited := ctx.Deadline()
		handled <- limited
		return nil
	}), numbers.Feed)
	expired(t, numbers, 1)
	for l, err := range numbers.Letters(t.Context()) {
		require.NoError(t, err)
		require.NoError(t, numbers.Retry(t.Context(), l))
	}
	require.False(t, <-handled)
}

func TestAMessageWhoseTimeLeftIsNoDurationIsUndecodable(t *testing.T) {
	t.Parallel()
	conn := embed(t, t.TempDir(), nats.Store{})
	numbers := inlet(t, conn, "numbers", nats.Options[int]{})
	for _, left := range []string{"soon", "10", "1h -", "99999999999h"} {
		_, err := conn.JetStream().PublishMsg(t.Context(), &natsgo.Msg{Subject: "golda.inlet.numbers", Data: []byte("1"), Header: natsgo.Header{
			"Golda-Type": {"int"}, "Golda-Version": {"1"}, "Golda-Time-Left": {left},
		}})
		require.NoError(t, err)
	}
	newPipeline(t, stage.Sink("sink", func(context.Context, int) error { t.Error("it is handled"); return nil }), numbers.Feed)
	eventually(t, "they are letters", func() bool { return numbers.Counts().DeadLettered == 4 })
	for l, err := range numbers.Letters(t.Context()) {
		require.NoError(t, err)
		require.Equal(t, nats.Undecodable, l.Reason)
	}
}

// The publisher's clock is never looked at, and the server's may be wrong.
func TestADeadlineDoesNotDependOnWhatTheClocksSay(t *testing.T) {
	here := time.Now()
	for name, ahead := range map[string]time.Duration{"the server's is fast": time.Hour, "the server's is slow": -time.Hour, "they agree": 0} {
		there := here.Add(ahead).Round(0) // without what only this process knows
		published := there.Add(-time.Minute)
		for left, after := range map[string]time.Duration{"1m30s": 30 * time.Second, "10s": -50 * time.Second, "0s": -time.Minute, "-1s": -61 * time.Second} {
			until, err := nats.Until(there, here, published, left)
			require.NoError(t, err)
			assert.WithinDuration(t, here.Add(after), until, 0, "%s, %s left", name, left)
		}
	}
}

// three starts two processes with three stages. Process a calls stage far, which runs in process b and submits its commands to stage last,
// there. The function returns the stage far of process a, and the pipeline of process b.
func three(
	t *testing.T, handle, last func(context.Context, int) error, opts ...stage.Option,
) (far *stage.Stage[int], there *pipeline.Pipeline) {
	t.Helper()
	conn := embed(t, t.TempDir(), nats.Store{})
	for _, process := range []string{"b", "a"} {
		near := stage.Sink("near", func(context.Context, int) error { return nil })
		end := stage.Sink("last", last, stage.Workers(1, 1))
		far = stage.Func("far", func(ctx context.Context, n int) behaviour.Outcome {
			if err := handle(ctx, n); err != nil {
				return behaviour.Error(err)
			}
			if err := end.Submit(ctx, n); err != nil {
				return behaviour.Error(err)
			}
			return behaviour.OK(nil)
		}, opts...)
		p, err := pipeline.New("test", quiet, near, far, end, pipeline.Assign("a", "near"), pipeline.Assign("b", "far", "last"),
			pipeline.RunsHere(nats.NewCarrier(conn, "test", nats.Options[any]{}), process))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		t.Cleanup(func() {
			assert.NoError(t, p.Stop(context.Background()))
			assert.True(t, p.Snapshot().Balanced(), p.Snapshot().Law())
		})
		if process == "b" {
			there = p
		}
	}
	return far, there
}

// What a handler submits that was called from another process has the deadline of the caller's commands, and no plain one.
func TestACallCarriesTheDeadlineOfCommandsToAllThatComesOfIt(t *testing.T) {
	t.Parallel()
	var called, submitted deadlines
	ended := make(chan int, 10)
	s, _ := three(t, called.handle, func(ctx context.Context, n int) error {
		defer func() { ended <- n }()
		return submitted.handle(ctx, n)
	})
	_, err := call[any](t, s, 0)
	require.NoError(t, err)
	plain, cancel := context.WithTimeout(t.Context(), far)
	defer cancel()
	_, err = stage.Call[any](plain, s, 1)
	require.NoError(t, err)
	_, err = stage.Call[any](within(t, far), s, 2)
	require.NoError(t, err)
	shorter, cancel := context.WithTimeout(within(t, 2*far), far)
	defer cancel()
	_, err = stage.Call[any](shorter, s, 3)
	require.NoError(t, err)
	for range 4 {
		<-ended
	}
	assert.Zero(t, called.of[0][0])
	for n := 1; n < 4; n++ {
		assert.WithinDuration(t, time.Now().Add(far), called.of[n][0], exact, n)
	}
	assert.Zero(t, submitted.of[0][0])
	assert.Zero(t, submitted.of[1][0])
	assert.WithinDuration(t, time.Now().Add(far), submitted.of[2][0], exact)
	assert.WithinDuration(t, time.Now().Add(2*far), submitted.of[3][0], exact)
}

// A called command waits for a busy worker there when its deadline passes.
func TestACalledCommandWhoseDeadlinePassesEndsWhereItWaits(t *testing.T) {
	t.Parallel()
	busy, release := make(chan int, 1), make(chan struct{})
	s, there := three(t, func(_ context.Context, n int) error {
		assert.Zero(t, n, "the other one is late")
		busy <- n
		<-release
		return nil
	}, func(context.Context, int) error { return nil }, stage.Workers(1, 1))
	var first sync.WaitGroup
	first.Go(func() {
		_, err := call[any](t, s, 0)
		assert.NoError(t, err)
	})
	defer first.Wait()
	defer close(release)
	<-busy
	_, err := stage.Call[any](within(t, soon), s, 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	eventually(t, "it has ended there", func() bool { return there.Snapshot().Stages[1].Counts.Errors == 1 })
}

// A command that a called handler has submitted waits for a busy worker when its deadline passes.
func TestWhatACalledHandlerSubmitsExpiresWithTheDeadlineOfItsCaller(t *testing.T) {
	t.Parallel()
	busy, release := make(chan int, 1), make(chan struct{})
	s, there := three(t, func(context.Context, int) error { return nil }, func(_ context.Context, n int) error {
		assert.Zero(t, n, "the other one is late")
		busy <- n
		<-release
		return nil
	})
	defer close(release)
	_, err := call[any](t, s, 0)
	require.NoError(t, err)
	<-busy
	_, err = stage.Call[any](within(t, soon), s, 1)
	require.NoError(t, err)
	eventually(t, "it has expired", func() bool { return there.Snapshot().Stages[2].Counts.Shed == 1 })
	eventually(t, "its letter is there", func() bool { return len(there.DeadLetters().List(letters.Filter{Reason: reason.Expired})) == 1 })
}
