package nats_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
	"github.com/golda-dev/golda/window"
)

// publish publishes the numbers from 0 to before n, with their texts as IDs.
func publish(t testing.TB, i *nats.Inlet[int], n int) {
	t.Helper()
	for k := range n {
		require.NoError(t, i.Publish(t.Context(), strconv.Itoa(k), k))
	}
}

// start starts a pipeline of stages that an inlet feeds. It is stopped at the end of the test, if not before.
func start(t testing.TB, numbers *nats.Inlet[int], to behaviour.Target[int], parts ...pipeline.Part) *pipeline.Pipeline {
	t.Helper()
	p, err := pipeline.New("test", append(parts, pipeline.Feed("numbers", to, numbers.Feed), quiet)...)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() { _ = p.Stop(context.Background()) })
	return p
}

// run runs a pipeline until the inlet, which has UntilEmpty, is empty.
func run(t testing.TB, numbers *nats.Inlet[int], to behaviour.Target[int], parts ...pipeline.Part) {
	t.Helper()
	p, err := pipeline.New("test", append(parts, pipeline.Feed("numbers", to, numbers.Feed), quiet)...)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, p.Run(ctx))
	require.True(t, p.Ending().Exhausted)
	require.True(t, p.Snapshot().Balanced())
}

// status returns what the server has.
func status[C any](t testing.TB, i *nats.Inlet[C]) nats.Status {
	t.Helper()
	s, err := i.Status(t.Context())
	require.NoError(t, err)
	s.Age, s.Fill = 0, 0 // they depend on the time
	return s
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, time.Minute, 2*time.Millisecond, what)
}

// lasts skips a test that takes ten seconds or more, or hundreds of megabytes, when tests are to be short.
func lasts(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes long")
	}
}

// lawful requires that each delivery has one end.
func lawful(t testing.TB, c nats.Counts) {
	t.Helper()
	require.Equal(t, c.Delivered, c.Acknowledged+c.GivenBack+c.DeadLettered+c.Repeated+c.InFlight, "%+v", c)
}

// tally counts how often each number was handled.
type tally struct {
	mu sync.Mutex
	of map[int]int
}

func (c *tally) add(k int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[int]int{}
	}
	c.of[k]++
	return c.of[k]
}

func (c *tally) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.of)
}

func TestEachMessageIsHandledAndAcknowledged(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	numbers := inlet(t, conn, "numbers", nats.Options[int]{UntilEmpty: true})
	const n = 2000
	publish(t, numbers, n)
	var sum atomic.Int64
	run(t, numbers, stage.Sink("add", func(_ context.Context, i int) error { sum.Add(int64(i)); return nil }))
	require.EqualValues(t, n*(n-1)/2, sum.Load())
	require.Equal(t, nats.Counts{Published: n, Delivered: n, Acknowledged: n}, numbers.Counts())
	require.Equal(t, nats.Status{Published: n}, status(t, numbers))
}

func TestAMessageIsStoredOncePerID(t *testing.T) {
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{})
	for range 3 {
		publish(t, numbers, 2)
		require.NoError(t, numbers.Publish(t.Context(), "", 7))
	}
	c := numbers.Counts()
	require.EqualValues(t, 5, c.Published)
	require.EqualValues(t, 4, c.Duplicates)
	require.Equal(t, nats.Status{Published: 5, Pending: 5}, status(t, numbers))
}

func TestACommandThatFailsIsDeliveredAgainAndThenADeadLetter(t *testing.T) {
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{
		UntilEmpty: true, Retry: stage.RetryPolicy{Attempts: 3, Backoff: time.Millisecond},
	})
	publish(t, numbers, 3)
	var tries tally
	run(t, numbers, stage.Sink("try", func(_ context.Context, k int) error {
		if n := tries.add(k); k == 2 || k == 1 && n < 3 {
			return fmt.Errorf("no %d\nnever", k)
		}
		return nil
	}))
	require.Equal(t, map[int]int{0: 1, 1: 3, 2: 3}, tries.of)
	require.Equal(t, nats.Status{Published: 3, Buried: 1, DeadLettered: 1}, status(t, numbers))
	c := numbers.Counts()
	lawful(t, c)
	require.Equal(t, nats.Counts{Published: 3, Delivered: 7, Redelivered: 4, Acknowledged: 2, GivenBack: 4, DeadLettered: 1}, c)
	for l, err := range numbers.Letters(t.Context()) {
		require.NoError(t, err)
		assert.Equal(t, nats.Payload{Type: "int", Version: 1, Data: []byte("2")}, l.Payload)
		assert.Equal(t, reason.Error, l.Reason)
		assert.Equal(t, `stage "try": no 2 never`, l.Err)
		assert.Equal(t, "2", l.ID)
		assert.Equal(t, 3, l.Deliveries)
		assert.EqualValues(t, 3, l.Sequence)
		assert.WithinRange(t, l.Published, time.Now().Add(-time.Minute), l.Buried)
	}
}

func TestADeadLetterIsRetriedOrDropped(t *testing.T) {
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{
		UntilEmpty: true, Retry: stage.RetryPolicy{If: func(error) bool { return false }},
	})
	publish(t, numbers, 4)
	fail := stage.Sink("fail", func(context.Context, int) error { return errors.New("no") })
	run(t, numbers, fail)
	require.EqualValues(t, 4, status(t, numbers).DeadLettered)
	for l, err := range numbers.Letters(t.Context()) { // in the order in which the commands have ended
		require.NoError(t, err)
		if string(l.Data) == "3" {
			require.NoError(t, numbers.Drop(t.Context(), l))
			require.NoError(t, numbers.Drop(t.Context(), l), "it is gone")
			continue
		}
		require.NoError(t, numbers.Retry(t.Context(), l))
		require.NoError(t, numbers.Retry(t.Context(), l), "the message is there already")
	}
	require.Equal(t, nats.Status{Published: 7, Pending: 3, Buried: 4}, status(t, numbers))
	var done tally
	run(t, numbers, stage.Sink("do", func(_ context.Context, k int) error { done.add(k); return nil }))
	require.Equal(t, map[int]int{0: 1, 1: 1, 2: 1}, done.of)
	require.Equal(t, nats.Status{Published: 7, Buried: 4}, status(t, numbers))
}

func TestACommandThatCrashesItsHandlerIsADeadLetter(t *testing.T) {
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{UntilEmpty: true})
	publish(t, numbers, 10)
	run(t, numbers, stage.Sink("crash", func(_ context.Context, k int) error {
		if k == 5 {
			panic("a poison pill")
		}
		return nil
	}))
	require.Equal(t, nats.Status{Published: 10, Buried: 1, DeadLettered: 1}, status(t, numbers))
	for l, err := range numbers.Letters(t.Context()) {
		require.NoError(t, err)
		require.Equal(t, reason.Crash, l.Reason)
		require.Contains(t, l.Err, "a poison pill")
	}
}

func TestAMessageWaitsForAllThatItsHandlerEmitted(t *testing.T) {
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{
		UntilEmpty: true, Retry: stage.RetryPolicy{Backoff: time.Millisecond},
	})
	publish(t, numbers, 10)
	var parents, children tally
	child := stage.Sink("child", func(_ context.Context, k int) error {
		if n := children.add(k); k%3 == 0 && n == 1 {
			return errors.New("not yet")
		}
		assert.Positive(t, numbers.Counts().InFlight, "a message was acknowledged before its child has ended")
		return nil
	}, stage.Workers(1, 1))
	parent := stage.FlatMap("parent", func(_ context.Context, k int, emit func(int) error) error {
		parents.add(k)
		return errors.Join(emit(10*k), emit(10*k+1))
	})
	run(t, numbers, parent, parent.To(child))
	for k := range 10 {
		again := 0
		if 10*k%3 == 0 || (10*k+1)%3 == 0 {
			again = 1
		}
		require.Equal(t, 1+again, parents.of[k], k)
	}
	require.Equal(t, nats.Status{Published: 10}, status(t, numbers))
}

func TestAnInletHasNoMoreInFlightThanItMay(t *testing.T) {
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{MaxInFlight: 10})
	const n = 200
	publish(t, numbers, n)
	gate := make(chan struct{})
	var done atomic.Int64
	p := start(t, numbers, stage.Sink("slow", func(context.Context, int) error { <-gate; done.Add(1); return nil }, stage.Capacity(1000)))
	eventually(t, "ten are in flight", func() bool { return numbers.Counts().InFlight == 10 })
	time.Sleep(50 * time.Millisecond) // a further request would have been sent by now
	require.EqualValues(t, 10, status(t, numbers).InFlight)
	require.EqualValues(t, 10, p.Snapshot().Accepted)
	for range n {
		gate <- struct{}{}
		assert.LessOrEqual(t, p.Snapshot().InFlight, uint64(10))
		assert.LessOrEqual(t, numbers.Counts().InFlight, uint64(2*10), "not ended, and ended without a confirmation")
	}
	eventually(t, "all are done", func() bool { return status(t, numbers).Pending == 0 })
	require.EqualValues(t, n, done.Load())
	require.Zero(t, numbers.Counts().Redelivered)
}

// By default what is in flight has some 64 MiB, and a request of the inlet is answered with some 12 MiB at most. A server ends a connection
// that has more to take than 64 MiB.
func TestLargeMessagesAreFewInFlight(t *testing.T) {
	t.Parallel()
	if race {
		t.Skip("under the race detector 120 MB may take minutes")
	}
	conn := embed(t, t.TempDir(), nats.Store{MaxPayload: 4 << 20})
	texts := inlet(t, conn, "texts", nats.Options[string]{UntilEmpty: true})
	const n, most = 40, 32
	text := strings.Repeat("x", 3<<20)
	for range n {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		require.NoError(t, texts.Publish(ctx, "", text))
		cancel()
	}
	open := make(chan struct{})
	var done atomic.Int64
	newPipeline(t, stage.Sink("wait", func(context.Context, string) error {
		<-open
		done.Add(1)
		return nil
	}), texts.Feed)
	eventually(t, "some are in flight", func() bool { return texts.Counts().InFlight >= 64/3 })
	time.Sleep(200 * time.Millisecond) // no more arrive
	require.LessOrEqual(t, texts.Counts().InFlight, uint64(most))
	close(open)
	eventually(t, "all are done", func() bool { return done.Load() >= n && status(t, texts).Pending == 0 })
	lawful(t, texts.Counts())
}

func TestACommandThatTakesLongIsNotDeliveredAgain(t *testing.T) {
	t.Parallel()
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{AckWait: 2 * time.Second, UntilEmpty: true})
	publish(t, numbers, 3)
	var tries tally
	run(t, numbers, stage.Sink("long", func(_ context.Context, k int) error {
		tries.add(k)
		time.Sleep(2500 * time.Millisecond)
		return nil
	}, stage.Workers(2, 2))) // the third command also waits in the queue
	require.Equal(t, map[int]int{0: 1, 1: 1, 2: 1}, tries.of)
	require.Zero(t, numbers.Counts().Redelivered)
}

func TestADrainedPipelineLeavesNothingInFlight(t *testing.T) {
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{MaxInFlight: 50})
	const n = 500
	publish(t, numbers, n)
	var done tally
	work := func() *stage.Flow[int, struct{}] {
		return stage.Sink("work", func(_ context.Context, k int) error { done.add(k); time.Sleep(time.Millisecond); return nil })
	}
	for done.len() < n {
		p := start(t, numbers, work())
		before := done.len()
		eventually(t, "some are done", func() bool { return done.len() >= min(before+60, n) })
		require.NoError(t, p.Stop(context.Background()))
		eventually(t, "all is acknowledged or given back", func() bool { return numbers.Counts().InFlight == 0 })
	}
	for k, times := range done.of {
		require.Equal(t, 1, times, k)
	}
	eventually(t, "the server knows", func() bool { return status(t, numbers) == nats.Status{Published: n} })
	lawful(t, numbers.Counts())
}

func TestAHardStopGivesItsCommandsBack(t *testing.T) {
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{})
	publish(t, numbers, 20)
	var started atomic.Int64
	p := start(t, numbers, stage.Sink("hang", func(ctx context.Context, _ int) error {
		started.Add(1)
		<-ctx.Done()
		return ctx.Err()
	}, stage.Workers(2, 2)))
	eventually(t, "all are in flight", func() bool { return numbers.Counts().InFlight == 20 && started.Load() == 2 })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = p.Stop(ended)
	eventually(t, "all are given back", func() bool { c := numbers.Counts(); return c.GivenBack >= 20 && c.InFlight == 0 })
	var done tally
	start(t, numbers, stage.Sink("do", func(_ context.Context, k int) error { done.add(k); return nil }))
	eventually(t, "all are done", func() bool { return done.len() == 20 })
	eventually(t, "the server knows", func() bool { return status(t, numbers) == nats.Status{Published: 20} })
}

// The server remembers what was given back: without that, its messages would wait for AckWait, which is an hour here.
func TestWhatAHardStopGaveBackIsDeliveredAtOnceAfterARestart(t *testing.T) {
	dir := t.TempDir()
	const n = 20
	o := nats.Options[int]{AckWait: time.Hour}
	conn, err := nats.Embed(dir, nats.Store{})
	require.NoError(t, err)
	numbers := inlet(t, conn, "numbers", o)
	publish(t, numbers, n)
	var started atomic.Int64
	p := start(t, numbers, stage.Sink("hang", func(ctx context.Context, _ int) error {
		started.Add(1)
		<-ctx.Done()
		return ctx.Err()
	}, stage.Workers(2, 2)))
	eventually(t, "all are in flight", func() bool { return numbers.Counts().InFlight == n && started.Load() == 2 })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = p.Stop(ended)
	shut(t, conn)
	require.GreaterOrEqual(t, numbers.Counts().GivenBack, uint64(n))
	require.Zero(t, numbers.Counts().InFlight)
	again := inlet(t, embed(t, dir, nats.Store{}), "numbers", o)
	var done tally
	start(t, again, stage.Sink("do", func(_ context.Context, k int) error { done.add(k); return nil }))
	eventually(t, "all are done", func() bool { return done.len() == n })
	eventually(t, "the server knows", func() bool { return status(t, again) == nats.Status{Published: n} })
}

// All that can become of a message, at random, in two inlets that share the stream.
func TestTheAccountsOfTwoInletsBalance(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	o := nats.Options[int]{UntilEmpty: true, MaxInFlight: 30, Retry: stage.RetryPolicy{Attempts: 4, Backoff: time.Millisecond}}
	both := []*nats.Inlet[int]{inlet(t, conn, "numbers", o), inlet(t, conn, "numbers", o)}
	const n = 1000
	var publishing, running sync.WaitGroup
	publishing.Go(func() {
		for k := range n {
			assert.NoError(t, both[0].Publish(t.Context(), strconv.Itoa(k), k))
		}
	})
	publishing.Wait() // UntilEmpty must not see an empty stream before
	var done tally
	for _, numbers := range both {
		running.Go(func() {
			child := stage.Sink("child", func(_ context.Context, k int) error {
				if rand.IntN(10) == 0 {
					return errors.New("the child failed")
				}
				done.add(k)
				return nil
			})
			parent := stage.Func("parent", func(ctx context.Context, k int) behaviour.Outcome {
				switch rand.IntN(20) {
				case 0:
					panic("no")
				case 1:
					return behaviour.Error(errors.New("no"))
				case 2, 3:
					if err := behaviour.Emit(ctx, child, n+k); err != nil {
						return behaviour.Error(err)
					}
				}
				return behaviour.Forward(child, k)
			}, stage.Restart(stage.RestartPolicy{Limit: 1 << 20, Backoff: time.Microsecond, Max: time.Microsecond}))
			run(t, numbers, parent, child)
		})
	}
	running.Wait()
	for _, numbers := range both {
		lawful(t, numbers.Counts())
		require.Zero(t, numbers.Counts().InFlight)
	}
	a, b, s := both[0].Counts(), both[1].Counts(), status(t, both[0])
	require.Zero(t, s.Pending)
	require.EqualValues(t, n, s.Published)
	require.Equal(t, s.Published, a.Acknowledged+b.Acknowledged+s.DeadLettered)
	require.Equal(t, s.DeadLettered, a.DeadLettered+b.DeadLettered)
	require.Equal(t, a.GivenBack+b.GivenBack, a.Redelivered+b.Redelivered)
	dead := map[int]bool{}
	for l, err := range both[0].Letters(t.Context()) {
		require.NoError(t, err)
		k, err := strconv.Atoi(l.ID)
		require.NoError(t, err)
		dead[k] = true
	}
	for k := range n {
		require.True(t, dead[k] || done.of[k] > 0, "the command %d is lost", k)
	}
}

func TestAnInletFeedsOneStage(t *testing.T) {
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{})
	work := stage.Sink("work", func(context.Context, int) error { return nil })
	p, err := pipeline.New("test", pipeline.Feed("a", work, numbers.Feed), pipeline.Feed("b", work, numbers.Feed), quiet)
	require.NoError(t, err)
	require.ErrorIs(t, p.Run(t.Context()), nats.ErrFed)
}

func TestCloseReportsWhatIsInFlight(t *testing.T) {
	conn, err := nats.Embed(t.TempDir(), nats.Store{})
	require.NoError(t, err)
	numbers := inlet(t, conn, "numbers", nats.Options[int]{})
	publish(t, numbers, 3)
	p := start(t, numbers, stage.Sink("hang", func(ctx context.Context, _ int) error { <-ctx.Done(); return nil }))
	eventually(t, "all are in flight", func() bool { return numbers.Counts().InFlight == 3 })
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err = conn.Close(soon)
	require.ErrorContains(t, err, "3 messages are in flight")
	require.Equal(t, err, conn.Close(t.Context()), "the same once more")
	require.ErrorIs(t, numbers.Publish(t.Context(), "", 1), nats.ErrAway)
	_, err = nats.NewInlet(t.Context(), conn, "more", nats.Options[int]{})
	require.ErrorIs(t, err, nats.ErrAway)
	ended, stop := context.WithCancel(t.Context())
	stop()
	_ = p.Stop(ended)
}

// deliver has the server deliver the first message so many times to another process, which gives it back.
func deliver(t *testing.T, conn *nats.Conn, times int) {
	t.Helper()
	consumer, err := conn.JetStream().Consumer(t.Context(), "GOLDA_numbers", "golda")
	require.NoError(t, err)
	for range times {
		m, err := consumer.Next()
		require.NoError(t, err)
		require.NoError(t, m.Nak())
	}
}

func TestAMessageThatIsDeliveredTooOftenIsADeadLetter(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	numbers := inlet(t, conn, "numbers", nats.Options[int]{UntilEmpty: true, Retry: stage.RetryPolicy{Attempts: 3}})
	publish(t, numbers, 1)
	deliver(t, conn, 3)
	run(t, numbers, stage.Sink("none", func(context.Context, int) error { t.Error("it was handled"); return nil }))
	require.Equal(t, nats.Status{Published: 1, Buried: 1, DeadLettered: 1}, status(t, numbers))
	for l, err := range numbers.Letters(t.Context()) {
		require.NoError(t, err)
		require.Equal(t, nats.Deliveries, l.Reason)
		require.Equal(t, 4, l.Deliveries)
	}
}

// The process that stored the letter was killed before it could end the message.
func TestAMessageThatHasALetterIsNotHandledAgain(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	numbers := inlet(t, conn, "numbers", nats.Options[int]{UntilEmpty: true})
	publish(t, numbers, 1)
	deliver(t, conn, 1)
	stream, err := conn.JetStream().Stream(t.Context(), "GOLDA_numbers")
	require.NoError(t, err)
	m, err := stream.GetMsg(t.Context(), 1)
	require.NoError(t, err)
	_, err = conn.JetStream().Publish(t.Context(), fmt.Sprintf("golda.dead.numbers.1-%d", m.Time.UnixNano()), []byte("0"))
	require.NoError(t, err)
	run(t, numbers, stage.Sink("none", func(context.Context, int) error { t.Error("it was handled"); return nil }))
	require.Equal(t, nats.Status{Published: 1, Buried: 1, DeadLettered: 1}, status(t, numbers))
	lawful(t, numbers.Counts())
}

// As docs/durable.md says, an operator removes a stream whose partitions are to change, or whose files are damaged. The letters stay, and the new
// stream counts from one again.
func TestALetterOfAStreamThatWasRemovedIsNotThatOfANewMessage(t *testing.T) {
	for name, fails := range map[string]int{"of one that succeeds when it is delivered again": 1, "of one that fails for good": 100} {
		t.Run(name, func(t *testing.T) {
			conn := embed(t, t.TempDir(), nats.Store{})
			o := nats.Options[int]{UntilEmpty: true, Retry: stage.RetryPolicy{Attempts: 2, Backoff: time.Millisecond}}
			numbers := inlet(t, conn, "numbers", o)
			publish(t, numbers, 1)
			run(t, numbers, stage.Sink("fail", func(context.Context, int) error { return errors.New("no") }))
			require.EqualValues(t, 1, status(t, numbers).DeadLettered)
			require.NoError(t, conn.JetStream().DeleteStream(t.Context(), "GOLDA_numbers"))

			numbers = inlet(t, conn, "numbers", o)
			require.NoError(t, numbers.Publish(t.Context(), "", 7))
			var tries tally
			run(t, numbers, stage.Sink("work", func(_ context.Context, k int) error {
				if tries.add(k) <= fails {
					return errors.New("not yet")
				}
				return nil
			}))
			require.Equal(t, map[int]int{7: 2}, tries.of)
			var letters []string
			for l, err := range numbers.Letters(t.Context()) {
				require.NoError(t, err)
				letters = append(letters, string(l.Data))
			}
			if fails == 1 {
				require.Equal(t, []string{"0"}, letters)
			} else {
				require.Equal(t, []string{"0", "7"}, letters)
			}
		})
	}
}

func TestIDsThatDifferAreThoseOfDifferentMessages(t *testing.T) {
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{
		UntilEmpty: true, Retry: stage.RetryPolicy{Attempts: 1},
	})
	ids := []string{
		"a", " a", "a ", "a\n", "\ta", "a b", "a\nb", "a\rb", "a\r\nb", "a  b", "a\x00b", "a\x7f", "ä", "\xff", " ", "\n", `"a`, `"a"`, `"\n"`, `\n`,
		"a\r\nNats-Expected-Last-Sequence: 99", strings.Repeat("x", 10_000),
	}
	for range 2 {
		for k, id := range ids {
			require.NoError(t, numbers.Publish(t.Context(), id, k), "%q", id)
		}
	}
	require.EqualValues(t, len(ids), numbers.Counts().Published)
	require.EqualValues(t, len(ids), numbers.Counts().Duplicates)
	run(t, numbers, stage.Sink("fail", func(context.Context, int) error { return errors.New("no") }))
	var got []string
	for l, err := range numbers.Letters(t.Context()) {
		require.NoError(t, err)
		got = append(got, l.ID)
	}
	require.ElementsMatch(t, ids, got)
}

func TestOnlyALetterThatWasReadIsRetriedOrDropped(t *testing.T) {
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{})
	require.ErrorContains(t, numbers.Retry(t.Context(), nats.Letter{Sequence: 1}), "the letter is none that Letters has returned")
	require.ErrorContains(t, numbers.Drop(t.Context(), nats.Letter{Sequence: 1}), "the letter is none that Letters has returned")
	require.Zero(t, status(t, numbers))
}

func TestAnAcknowledgementMayBeConfirmed(t *testing.T) {
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{UntilEmpty: true})
	publish(t, numbers, 500)
	run(t, numbers, stage.Sink("do", func(context.Context, int) error { return nil }))
	require.Equal(t, nats.Status{Published: 500}, status(t, numbers))
	require.EqualValues(t, 500, numbers.Counts().Acknowledged)
}

func TestAFunctionThatPanicsMakesADeadLetter(t *testing.T) {
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{
		UntilEmpty: true, Retry: stage.RetryPolicy{If: func(error) bool { panic("no") }},
	})
	publish(t, numbers, 2)
	run(t, numbers, stage.Sink("fail", func(context.Context, int) error { return errors.New("no") }))
	require.EqualValues(t, 2, status(t, numbers).DeadLettered)
}

func TestAStreamInMemoryWorksAlike(t *testing.T) {
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{UntilEmpty: true, Memory: true})
	publish(t, numbers, 100)
	var done tally
	run(t, numbers, stage.Sink("do", func(_ context.Context, k int) error { done.add(k); return nil }))
	require.Equal(t, 100, done.len())
}

func TestAnInletSaysWhatItFeedsAndHowOldItsOldestMessageIs(t *testing.T) {
	ctx := t.Context()
	conn := embed(t, t.TempDir(), nats.Store{})
	in := inlet(t, conn, "n", nats.Options[int]{MaxMessages: 4})
	require.Equal(t, []nats.InletInfo{{Name: "n"}}, conn.Inlets())
	for n := range 2 {
		require.NoError(t, in.Publish(ctx, strconv.Itoa(n), n))
	}
	time.Sleep(20 * time.Millisecond)
	s, err := conn.Status(ctx, "n")
	require.NoError(t, err)
	require.GreaterOrEqual(t, s.Age, 20*time.Millisecond)
	require.InDelta(t, 0.5, s.Fill, 1e-9)

	done := make(chan struct{})
	sink := stage.Sink("sink", func(_ context.Context, n int) error {
		if n == 0 {
			<-done
		}
		return nil
	}, stage.Workers(2, 2))
	newPipeline(t, sink, in.Feed)
	require.Eventually(t, func() bool { s, err := in.Status(ctx); return err == nil && s.Pending == 1 }, time.Minute, time.Millisecond)
	before := s.Age
	s, err = in.Status(ctx)
	require.NoError(t, err)
	require.Greater(t, s.Age, before, "the oldest one is still not done")
	of := conn.Inlets()[0]
	require.Equal(t, [2]string{"test", "sink"}, [2]string{of.Pipeline, of.Stage})
	require.EqualValues(t, 2, of.Counts.Delivered)
	close(done)
	require.Eventually(t, func() bool { s, err := in.Status(ctx); return err == nil && s.Pending == 0 && s.Age == 0 }, time.Minute, time.Millisecond)

	_, err = conn.Status(ctx, "other")
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
	require.ErrorContains(t, err, `inlet "other"`)
}

// The window waits for a command that the inlet may not deliver. That ends with the pipeline, and is said before.
func TestAWindowLargerThanItsInletIsWarnedOf(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	var log buffer
	numbers := inlet(t, conn, "numbers", nats.Options[int]{
		MaxInFlight: 4, AckWait: time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	publish(t, numbers, 5)
	of, sum := window.All("of", window.Bounds[int]{Count: 5, Time: time.Hour}), 0 // without the hour New refuses it
	p := start(t, numbers, of, of.To(stage.Sink("sum", func(_ context.Context, w window.Window[none, []int]) error {
		for _, n := range w.Value {
			sum += n
		}
		return nil
	})))
	eventually(t, "it is warned of", func() bool { return strings.Contains(log.String(), "none has ended") })
	require.Contains(t, log.String(), "inlet=numbers")
	require.NoError(t, p.Stop(t.Context()))
	require.Equal(t, 0+1+2+3, sum)
	eventually(t, "one is left", func() bool { return status(t, numbers).Pending == 1 })
}
