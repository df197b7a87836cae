package window_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/route"
	"github.com/golda-dev/golda/window"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// word is a command with a key.
type word struct {
	key  string
	text string
}

func (w word) of() string { return w.key }

// led has the results of a flow answer the callers, by a last stage.
func led[In, Out any](of *stage.Flow[In, Out]) *stage.Flow[In, Out] {
	return stage.Chain(of, stage.Map("end", func(_ context.Context, out Out) (Out, error) { return out, nil }))
}

// words makes commands of texts such as "a1": the key is the first letter.
func words(texts ...string) (all []word) {
	for _, t := range texts {
		all = append(all, word{t[:1], t})
	}
	return all
}

// out records results with the times at which they came.
type out[T any] struct {
	mu    sync.Mutex
	begin time.Time
	all   []string
	raw   []T
}

func (o *out[T]) add(v T, text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, fmt.Sprintf("%v %s", time.Since(o.begin), text))
	o.raw = append(o.raw, v)
}

func (o *out[T]) take() (all []string) {
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	all, o.all = o.all, nil
	return all
}

// texts returns what take has, without the times.
func (o *out[T]) texts() (all []string) {
	for _, text := range o.take() {
		_, after, _ := strings.Cut(text, " ")
		all = append(all, after)
	}
	return all
}

type group = window.Window[string, []word]

func textOf(g group) string {
	var text strings.Builder
	fmt.Fprint(&text, g.Why)
	for _, w := range g.Value {
		text.WriteString(" " + w.text)
	}
	return text.String()
}

// bench is a running pipeline of a stage with windows and a sink that records.
type bench[T any] struct {
	*out[T]
	t     *testing.T
	p     *pipeline.Pipeline
	stage *stage.Flow[word, T]
}

func start[T any](t *testing.T, of *stage.Flow[word, T], text func(T) string, parts ...pipeline.Part) *bench[T] {
	t.Helper()
	b := &bench[T]{out: &out[T]{begin: time.Now()}, t: t, stage: of}
	sink := stage.Sink("sink", func(_ context.Context, v T) error { b.add(v, text(v)); return nil }, stage.Workers(1, 1))
	var err error
	b.p, err = pipeline.New("test", append(parts, of.To(sink), pipeline.Logger(slog.New(slog.DiscardHandler)))...)
	require.NoError(t, err)
	require.NoError(t, b.p.Start(t.Context()))
	return b
}

func (b *bench[T]) submit(texts ...string) {
	b.t.Helper()
	for _, w := range words(texts...) {
		require.NoError(b.t, b.stage.Submit(b.t.Context(), w))
	}
	synctest.Wait()
}

func (b *bench[T]) ask(text string) *stage.Ticket {
	b.t.Helper()
	ticket, err := b.stage.Ask(b.t.Context(), words(text)[0])
	require.NoError(b.t, err)
	synctest.Wait()
	return ticket
}

// stop stops the pipeline in no time, and checks that no command is left.
func (b *bench[T]) stop() []string {
	b.t.Helper()
	begin := time.Now()
	require.NoError(b.t, b.p.Stop(b.t.Context()))
	assert.Zero(b.t, time.Since(begin), "a stop waits for no window")
	s := b.p.Snapshot()
	assert.Zero(b.t, s.InFlight)
	return b.take()
}

func hasEnded(t *stage.Ticket) bool {
	synctest.Wait()
	select {
	case <-t.Done():
		return true
	default:
		return false
	}
}

// virtual runs a test in virtual time.
func virtual(t *testing.T, test func(t *testing.T)) { t.Helper(); synctest.Test(t, test) }

func by(b window.Bounds[word], opts ...stage.Option) *stage.Flow[word, group] {
	return window.By("words", word.of, b, opts...)
}

func TestAWindowIsClosedByItsCount(t *testing.T) {
	virtual(t, func(t *testing.T) {
		b := start(t, by(window.Bounds[word]{Count: 2}), textOf)
		b.submit("a1", "b1", "a2", "a3", "b2")
		assert.Equal(t, []string{"0s full a1 a2", "0s full b1 b2"}, b.take())
		assert.Equal(t, []string{"0s early a3"}, b.stop())
	})
}

func TestAWindowIsClosedByItsTimeFromItsFirstCommandOn(t *testing.T) {
	virtual(t, func(t *testing.T) {
		b := start(t, by(window.Bounds[word]{Time: time.Minute}), textOf)
		time.Sleep(10 * time.Second)
		b.submit("a1")
		time.Sleep(30 * time.Second)
		b.submit("b1", "a2")
		time.Sleep(30*time.Second + 1)
		assert.Equal(t, []string{"1m10s due a1 a2"}, b.take())
		b.submit("a3")
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"1m40s due b1", "2m10.000000001s due a3"}, b.take())
		assert.Empty(t, b.stop())
	})
}

func TestAWindowIsClosedAtAFullPeriodOfTheClock(t *testing.T) {
	virtual(t, func(t *testing.T) {
		b := start(t, by(window.Bounds[word]{Every: time.Minute}), textOf)
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + 50*time.Second)))
		b.begin = time.Now()
		b.submit("a1")
		time.Sleep(5 * time.Second)
		b.submit("a2")
		time.Sleep(5 * time.Second)
		assert.Equal(t, []string{"10s due a1 a2"}, b.take())
		b.submit("a3")
		time.Sleep(time.Hour)
		assert.Equal(t, []string{"1m10s due a3"}, b.take(), "no window without commands")
		assert.Empty(t, b.stop())
	})
}

func TestAWindowIsClosedWhenNoCommandComesForAWhile(t *testing.T) {
	virtual(t, func(t *testing.T) {
		b := start(t, by(window.Bounds[word]{Idle: 10 * time.Second, Time: time.Minute}), textOf)
		for range 3 {
			b.submit("a1")
			time.Sleep(9 * time.Second)
		}
		time.Sleep(time.Minute)
		assert.Equal(t, []string{"28s due a1 a1 a1"}, b.take())
		for range 7 {
			b.submit("a2")
			time.Sleep(9 * time.Second)
		}
		assert.Equal(t, []string{"2m27s due a2 a2 a2 a2 a2 a2 a2"}, b.take(), "the time is a bound, too")
		assert.Empty(t, b.stop())
	})
}

func TestAWindowIsClosedBeforeItExceedsItsBytes(t *testing.T) {
	virtual(t, func(t *testing.T) {
		b := start(t, by(window.Bounds[word]{Bytes: 10, Size: func(w word) int { return len(w.text) }}), textOf)
		b.submit("a234", "a234", "a23", "a234567", "a", "a2345678901234", "a2")
		assert.Equal(t, []string{"0s full a234 a234", "0s full a23 a234567", "0s full a", "0s full a2345678901234"}, b.take())
		assert.Equal(t, []string{"0s early a2"}, b.stop())
	})
}

func TestAWindowOfAllCommandsHasNoKey(t *testing.T) {
	virtual(t, func(t *testing.T) {
		b := start(t, window.All("all", window.Bounds[word]{Count: 3}), func(w window.Window[struct{}, []word]) string {
			return fmt.Sprint(w.Why, len(w.Value), w.Count)
		})
		b.submit("a1", "b1", "a2", "a3", "b2")
		assert.Equal(t, []string{"0s full3 3"}, b.take())
		assert.Equal(t, []string{"0s early2 2"}, b.stop())
	})
}

func TestATicketWaitsUntilItsWindowHasBeenPassedOn(t *testing.T) {
	virtual(t, func(t *testing.T) {
		b := start(t, by(window.Bounds[word]{Count: 3}), textOf)
		first, second := b.ask("a1"), b.ask("a2")
		time.Sleep(time.Hour)
		assert.False(t, hasEnded(first))
		assert.False(t, hasEnded(second))
		third := b.ask("a3")
		for _, ticket := range []*stage.Ticket{first, second, third} {
			assert.True(t, hasEnded(ticket))
			assert.NoError(t, ticket.Err())
		}
		assert.Empty(t, b.stop()[1:])
	})
}

func TestACommandWhoseCallerLeavesIsTakenOutOfItsWindow(t *testing.T) {
	virtual(t, func(t *testing.T) {
		for _, leaves := range []int{0, 1, 2} {
			b := start(t, by(window.Bounds[word]{Time: time.Minute}), textOf)
			var cancel context.CancelFunc
			var left *stage.Ticket
			for i := range 3 {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				ticket, err := b.stage.Ask(ctx, words(fmt.Sprint("a", i))[0])
				require.NoError(t, err)
				synctest.Wait()
				if i == leaves {
					cancel, left = stop, ticket
				}
			}
			cancel()
			assert.True(t, hasEnded(left))
			require.ErrorIs(t, left.Err(), context.Canceled)
			time.Sleep(time.Minute)
			assert.Equal(t, []string{[]string{"1m0s due a1 a2", "1m0s due a0 a2", "1m0s due a0 a1"}[leaves]}, b.take())
			assert.Empty(t, b.stop())
		}
	})
}

// The caller of the first command has left when the next stage has the window. The other commands are not lost with it.
func TestAResultDoesNotEndWithTheCallerOfItsFirstCommand(t *testing.T) {
	virtual(t, func(t *testing.T) {
		words1 := by(window.Bounds[word]{Count: 2})
		var handled []string
		busy := make(chan struct{})
		slow := stage.Sink("slow", func(ctx context.Context, g group) error {
			<-busy
			handled = append(handled, textOf(g))
			return ctx.Err()
		}, stage.Workers(1, 1))
		p, err := pipeline.New("test", words1.To(slow), pipeline.Logger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		all := words("a1", "a2", "a3", "a4")
		var tickets []*stage.Ticket
		for _, w := range all {
			ticket, err := words1.Ask(ctx, w)
			require.NoError(t, err)
			tickets = append(tickets, ticket)
		}
		synctest.Wait()
		cancel()
		close(busy)
		require.NoError(t, p.Stop(t.Context()))
		assert.Equal(t, []string{"full a1 a2", "full a3 a4"}, handled)
		for _, ticket := range tickets {
			assert.True(t, hasEnded(ticket))
			assert.NoError(t, ticket.Err())
		}
	})
}

func TestTheOldestWindowIsClosedWhenTooManyCommandsAreHeld(t *testing.T) {
	virtual(t, func(t *testing.T) {
		b := start(t, by(window.Bounds[word]{Count: 4, Held: 4}), textOf)
		b.submit("a1", "b1", "a2", "b2")
		assert.Empty(t, b.take())
		b.submit("b3")
		assert.Equal(t, []string{"0s early a1 a2"}, b.take())
		b.submit("c1", "d1")
		assert.Equal(t, []string{"0s early b1 b2 b3"}, b.take())
		assert.Equal(t, []string{"0s early c1", "0s early d1"}, b.stop())
	})
}

func TestMoreKeysThanMayBeHeldDoNotStopTheStage(t *testing.T) {
	virtual(t, func(t *testing.T) {
		b := start(t, by(window.Bounds[word]{Time: time.Hour, Held: 1}, stage.Defaults(stage.Instances(1), stage.Workers(4, 8))), textOf)
		for i := range 1000 {
			b.submit(fmt.Sprintf("%c%d", 'a'+i%20, i))
		}
		assert.Len(t, b.take(), 999)
		assert.Len(t, b.stop(), 1)
	})
}

func TestAFunctionThatPanicsCostsItsCommandOnly(t *testing.T) {
	for name, bounds := range map[string]window.Bounds[word]{
		"size":          {Count: 3, Bytes: 100, Size: func(w word) int { return map[string]int{"a2": -1}[w.text] }},
		"size, panics":  {Count: 3, Bytes: 100, Size: func(w word) int { must(w.text != "a2"); return 1 }},
		"key":           {Count: 3},
		"first and key": {Count: 3},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				key := func(w word) string {
					must(bounds.Size != nil || w.text != "a2")
					must(name != "first and key" || w.text != "a0")
					return w.key
				}
				b := start(t, window.By("words", key, bounds, stage.Retry(stage.RetryPolicy{Attempts: 3})), textOf)
				b.submit("a0", "a1", "a2", "a3", "a4")
				time.Sleep(time.Minute) // of pauses after crashes
				b.take()
				want := "full a0 a1 a3"
				if name == "first and key" {
					want = "full a1 a3 a4"
				}
				require.Len(t, b.raw, 1)
				assert.Equal(t, want, textOf(b.raw[0]))
				b.stop()
				list := b.p.Quarantine().Len() + b.p.Failures().Len()
				assert.Equal(t, map[bool]int{true: 2, false: 1}[name == "first and key"], list)
			})
		})
	}
}

func must(ok bool) {
	if !ok {
		panic("no")
	}
}

func TestAggregatesAreEmittedEveryPeriod(t *testing.T) {
	virtual(t, func(t *testing.T) {
		type sum = window.Window[string, int]
		of := window.Aggregate("sum", word.of, func(n int, w word) int { must(w.text != "a!"); return n + len(w.text) },
			window.Bounds[word]{Time: time.Minute}, stage.Defaults(stage.Retry(stage.RetryPolicy{Attempts: 5})))
		b := start(t, of, func(w sum) string { return fmt.Sprint(w.Key, w.Value, " ", w.Count, " ", w.Why) })
		first, second := b.ask("a1"), b.ask("a23")
		assert.False(t, hasEnded(first))
		assert.False(t, hasEnded(second), "its ticket waits for the sum, though only the first command is held")
		b.submit("a!", "b1", "a!", "a4")
		assert.Equal(t, 2, b.p.Snapshot().Stages[0].Queue.Suspended)
		time.Sleep(time.Minute)
		assert.ElementsMatch(t, []string{"1m0s a7 3 due", "1m0s b2 1 due"}, b.take())
		assert.True(t, hasEnded(first))
		assert.True(t, hasEnded(second))
		b.submit("a!", "a1")
		assert.Equal(t, []string{"1m0s a2 1 early"}, b.stop())
		assert.Equal(t, 3, b.p.Quarantine().Len())
	})
}

func TestAnAggregateIsPassedOnWhenTheCallerOfItsFirstCommandLeaves(t *testing.T) {
	virtual(t, func(t *testing.T) {
		of := window.Aggregate("sum", word.of, func(n int, _ word) int { return n + 1 }, window.Bounds[word]{Time: time.Minute})
		b := start(t, of, func(w window.Window[string, int]) string { return fmt.Sprint(w.Key, w.Value, " ", w.Why) })
		ctx, cancel := context.WithCancel(t.Context())
		_, err := b.stage.Ask(ctx, words("a1")[0])
		require.NoError(t, err)
		b.submit("a2", "a3")
		cancel()
		assert.Equal(t, []string{"0s a3 early"}, b.take())
		b.submit("a4")
		assert.Equal(t, []string{"0s a1 early"}, b.stop())
	})
}

func join(p window.Parts[word], opts ...stage.Option) *stage.Flow[word, group] {
	return window.Join("join", word.of, p, opts...)
}

func TestPartsAreJoinedWhenTheyHaveAllCome(t *testing.T) {
	for name, parts := range map[string]window.Parts[word]{
		"count": {Count: 3, Limit: time.Minute},
		"whole": {Whole: func(all []word) bool { return len(all) == 3 }, Limit: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				b := start(t, join(parts), textOf)
				b.submit("a1", "b1", "a2", "b2")
				time.Sleep(30 * time.Second)
				b.submit("a3")
				assert.Equal(t, []string{"30s full a1 a2 a3"}, b.take())
				time.Sleep(30 * time.Second)
				assert.Equal(t, []string{"1m0s due b1 b2"}, b.take(), "incomplete")
				b.submit("b3")
				assert.Equal(t, []string{"1m0s early b3"}, b.stop())
			})
		})
	}
}

func TestPartsOfAnIncompleteGroupFailIfTheUserSaysSo(t *testing.T) {
	virtual(t, func(t *testing.T) {
		b := start(t, join(window.Parts[word]{Count: 3, Limit: time.Minute, Fail: true}), textOf)
		first := b.ask("a1")
		b.submit("a2", "b1")
		time.Sleep(time.Minute)
		assert.True(t, hasEnded(first))
		require.ErrorIs(t, first.Err(), window.ErrIncomplete)
		b.submit("b2", "b3", "b4", "c1")
		assert.Equal(t, []string{"1m0s full b2 b3 b4"}, b.take())
		assert.Empty(t, b.stop())
		assert.Equal(t, 3, b.p.Failures().Len(), "a2, b1 and c1; the caller has the error of a1")
	})
}

func TestPartsOfAnIncompleteGroupAreTriedAgain(t *testing.T) {
	virtual(t, func(t *testing.T) {
		b := start(t, join(window.Parts[word]{Count: 3, Limit: time.Minute, Fail: true},
			stage.Retry(stage.RetryPolicy{Attempts: 2, Backoff: time.Second})), textOf)
		b.submit("a1", "a2")
		time.Sleep(90 * time.Second)
		b.submit("a3")
		assert.Equal(t, []string{"1m30s full a1 a2 a3"}, b.take())
		assert.Empty(t, b.stop())
	})
}

// As after a redelivery. The documentation of Debounce says so.
func TestOfCommandsInTheWrongOrderADebouncePassesOnTheLastAndAnAggregateTheNewest(t *testing.T) {
	virtual(t, func(t *testing.T) {
		b := start(t, window.Debounce("quiet", word.of, time.Second, 0), func(w word) string { return w.text })
		newest := b.ask("a2")
		b.submit("a1")
		time.Sleep(time.Second)
		assert.Equal(t, []string{"1s a1"}, b.take())
		assert.True(t, hasEnded(newest), "it ends with the older one")
		assert.Empty(t, b.stop())

		newer := func(has, w word) word {
			if w.text > has.text {
				return w
			}
			return has
		}
		n := start(t, window.Aggregate("newest", word.of, newer, window.Bounds[word]{Idle: time.Second}),
			func(w window.Window[string, word]) string { return w.Value.text })
		n.submit("a2", "a1")
		time.Sleep(time.Second)
		assert.Equal(t, []string{"1s a2"}, n.take())
		assert.Empty(t, n.stop())
	})
}

func TestDebouncePassesOnTheLastCommandWhenItIsQuiet(t *testing.T) {
	virtual(t, func(t *testing.T) {
		of := window.Debounce("quiet", word.of, time.Second, 3*time.Second)
		b := start(t, of, func(w word) string { return w.text })
		first := b.ask("a1")
		b.submit("b1")
		assert.False(t, hasEnded(first))
		time.Sleep(900 * time.Millisecond)
		b.submit("a2")
		assert.False(t, hasEnded(first), "a later one has come, and has not been passed on")
		time.Sleep(2 * time.Second)
		assert.Equal(t, []string{"1s b1", "1.9s a2"}, b.take())
		assert.True(t, hasEnded(first))
		for i := range 10 {
			b.submit(fmt.Sprint("a", i))
			time.Sleep(700 * time.Millisecond)
		}
		assert.Equal(t, []string{"5.9s a4", "9.4s a9"}, b.take(), "the limit")
		assert.Empty(t, b.stop())
	})
}

func TestThrottlePassesOnTheFirstAndThenTheLatest(t *testing.T) {
	virtual(t, func(t *testing.T) {
		b := start(t, window.Throttle("throttle", word.of, time.Second), func(w word) string { return w.text })
		b.submit("a1", "b1", "a2", "a3")
		assert.Equal(t, []string{"0s a1", "0s b1"}, b.take())
		time.Sleep(time.Second)
		assert.Equal(t, []string{"1s a3"}, b.take())
		time.Sleep(500 * time.Millisecond)
		b.submit("a4", "b2")
		assert.Equal(t, []string{"1.5s b2"}, b.take())
		time.Sleep(500 * time.Millisecond)
		assert.Equal(t, []string{"2s a4"}, b.take())
		time.Sleep(time.Hour)
		b.submit("a5", "a6")
		assert.Equal(t, []string{"1h0m2s a5"}, b.take())
		assert.Equal(t, []string{"1h0m2s a6"}, b.stop())
	})
}

// A stop flushes the windows of two stages, one behind the other, and parts that are still queued come into their groups first.
func TestAStopFlushesWindowsAndLosesNothing(t *testing.T) {
	virtual(t, func(t *testing.T) {
		first := by(window.Bounds[word]{Count: 1000, Time: time.Hour})
		one := stage.FlatMap("one", func(_ context.Context, g group, emit func(word) error) error {
			for _, w := range g.Value {
				time.Sleep(time.Millisecond)
				if err := emit(w); err != nil {
					return err
				}
			}
			return nil
		})
		pairs := window.Join("pairs", func(w word) string { return w.text }, window.Parts[word]{Count: 2, Limit: time.Hour, Fail: true})
		var got []string
		sink := stage.Sink("sink", func(_ context.Context, g group) error { got = append(got, textOf(g)); return nil }, stage.Workers(1, 1))
		p, err := pipeline.New("test", stage.Chain(stage.Chain(first, one), pairs).To(sink), pipeline.Logger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		for i := range 100 {
			require.NoError(t, first.Submit(t.Context(), words(fmt.Sprintf("%c%d", 'a'+i%2, i/4))[0]))
		}
		synctest.Wait()
		require.NoError(t, p.Stop(t.Context()))
		require.Len(t, got, 50)
		require.Zero(t, p.Failures().Len())
		require.Zero(t, p.Snapshot().InFlight)
	})
}

func TestADrainedStageWithWindowsWorksAgainWhenItIsReopened(t *testing.T) {
	virtual(t, func(t *testing.T) {
		b := start(t, by(window.Bounds[word]{Count: 2}), textOf)
		b.submit("a1")
		require.NoError(t, b.p.Drain(t.Context(), b.stage.Stage))
		assert.Equal(t, []string{"0s early a1"}, b.take())
		require.NoError(t, b.p.Reopen(b.stage.Stage))
		b.submit("a2", "a3", "a4")
		assert.Equal(t, []string{"0s full a2 a3"}, b.take())
		assert.Equal(t, []string{"0s early a4"}, b.stop())
	})
}

func TestAHardStopLeavesALetterOfEachCommand(t *testing.T) {
	for name, test := range map[string]struct {
		part    pipeline.Part
		submit  func(context.Context, word) error
		before  *stage.Stage[word]
		letters int
	}{
		"by":        hard(by(window.Bounds[word]{Count: 100}), 5),
		"aggregate": hard(window.Aggregate("sum", word.of, func(n int, _ word) int { return n + 1 }, window.Bounds[word]{Count: 100}), 2),
		"debounce":  hard(window.Debounce("quiet", word.of, time.Hour, 0), 2),
		"throttle":  hard(window.Throttle("throttle", word.of, time.Hour), 2),
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				p, err := pipeline.New("test", test.part, pipeline.Logger(slog.New(slog.DiscardHandler)))
				require.NoError(t, err)
				require.NoError(t, p.Start(t.Context()))
				require.NoError(t, test.before.Submit(t.Context(), word{})) // so no window is closed in the drain
				for _, w := range words("a1", "b1", "a2", "a3", "b2") {
					require.NoError(t, test.submit(t.Context(), w))
				}
				synctest.Wait()
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				var stopped *pipeline.StopError
				err = p.Stop(ctx)
				require.ErrorAs(t, err, &stopped)
				snap := p.Snapshot()
				assert.True(t, snap.Balanced(), snap.Law())
				assert.Zero(t, snap.InFlight)
				assert.Zero(t, snap.Failed, "a command in an open window was not handled")
				assert.EqualValues(t, test.letters, snap.DeadLettered)
				list := p.DeadLetters().List(letters.Filter{})
				assert.Len(t, list, test.letters)
				for _, l := range list {
					assert.ErrorIs(t, l.Err, stage.ErrStopped)
				}
			})
		})
	}
}

func TestAllCommandsOfAWindowFailIfItCannotBePassedOn(t *testing.T) {
	for name, pick := range map[string]func(group, int) int{
		"a number that is no target": func(group, int) int { return 7 },
		"a panic":                    func(group, int) int { panic("no target") },
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				of := by(window.Bounds[word]{Count: 3})
				sink := stage.Sink("sink", func(context.Context, group) error { return nil })
				p, err := pipeline.New("test", of.Route(pick, sink), pipeline.Logger(slog.New(slog.DiscardHandler)))
				require.NoError(t, err)
				require.NoError(t, p.Start(t.Context()))
				for _, w := range words("a1", "a2", "a3") {
					require.NoError(t, of.Submit(t.Context(), w))
				}
				synctest.Wait()
				assert.Equal(t, 3, p.Failures().Len()+p.Quarantine().Len())
				require.NoError(t, p.Stop(t.Context()))
			})
		})
	}
}

func TestAnAggregateThatCannotBePassedOnIsInItsLetter(t *testing.T) {
	for name, pick := range map[string]func(window.Window[string, int], int) int{
		"a number that is no target": func(window.Window[string, int], int) int { return 7 },
		"a panic":                    func(window.Window[string, int], int) int { panic("no target") },
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				of := window.Aggregate("sum", word.of, func(n int, _ word) int { return n + 1 }, window.Bounds[word]{Count: 3})
				sink := stage.Sink("sink", func(context.Context, window.Window[string, int]) error { return nil })
				p, err := pipeline.New("test", of.Route(pick, sink), pipeline.Logger(slog.New(slog.DiscardHandler)))
				require.NoError(t, err)
				require.NoError(t, p.Start(t.Context()))
				ticket, err := of.Ask(t.Context(), words("a1")[0])
				require.NoError(t, err)
				for _, w := range words("a2", "a3") {
					require.NoError(t, of.Submit(t.Context(), w))
				}
				synctest.Wait()
				var lost *window.LostError
				require.ErrorAs(t, ticket.Err(), &lost)
				assert.Equal(t, 3, lost.Window.(window.Window[string, int]).Value)
				require.NoError(t, p.Stop(t.Context()))
			})
		})
	}
}

// The result of a window is all that it does, and only the caller of its first command would get it.
func TestAWindowThatLeadsNowhereIsRefused(t *testing.T) {
	key, b, parts := word.of, window.Bounds[word]{Count: 2}, window.Parts[word]{Count: 2, Limit: time.Second}
	record := func(_ context.Context, w word) (word, error) { return w, nil }
	for name, of := range map[string]pipeline.Part{
		"All":           window.All("w", b),
		"By":            window.By("w", key, b),
		"Aggregate":     window.Aggregate("w", key, func(n int, _ word) int { return n + 1 }, b),
		"Join":          window.Join("w", key, parts),
		"JoinTicket":    window.JoinTicket("w", parts),
		"Debounce":      window.Debounce("w", key, time.Second, 0),
		"Throttle":      window.Throttle("w", key, time.Second),
		"end of a flow": stage.Chain(stage.Map("record", record), window.By("w", key, b)),
	} {
		_, err := pipeline.New("test", of)
		require.EqualError(t, err, `stage "w": window: leads nowhere: name the stages for its results with To`, name)
	}
	of := window.By("w", key, b)
	_, err := pipeline.New("test", of, of.Route(route.RoundRobin[window.Window[string, []word]](), stage.Sink("s", func(context.Context, window.Window[string, []word]) error { return nil })))
	require.NoError(t, err)
	_, err = pipeline.New("test", window.By("w", key, b).To(nil))
	require.EqualError(t, err, `stage "w": To: target 1 is nil`, "that is what to mend")
}

func TestWhatIsWrongWithAWindowIsFoundWhenThePipelineIsMade(t *testing.T) {
	key := word.of
	add := func(n int, _ word) int { return n }
	size := func(word) int { return 1 }
	whole := func([]word) bool { return true }
	type b = window.Bounds[word]
	type p = window.Parts[word]
	for want, part := range map[string]pipeline.Part{
		"Bounds: a window needs a bound: Count, Bytes, Time, Every or Idle":                   led(window.By("w", key, b{})),
		"Bounds: a window needs a bound: Count, Bytes, Time, Every or Idle ":                  led(window.All("w", b{Held: 3})),
		"window: the function for the key is nil":                                             led(window.By[string]("w", nil, b{Count: 1})),
		"Bounds.Count(-1): must not be negative":                                              led(window.By("w", key, b{Count: -1})),
		"Bounds.Time(-1ns): must not be negative":                                             led(window.By("w", key, b{Time: -1})),
		"Bounds.Every(-1ns): must not be negative":                                            led(window.By("w", key, b{Every: -1})),
		"Bounds.Idle(-1ns): must not be negative":                                             led(window.By("w", key, b{Idle: -1})),
		"Bounds.Bytes(-1): must not be negative":                                              led(window.By("w", key, b{Bytes: -1, Count: 1})),
		"Bounds.Bytes(5): Bytes and Size are given together":                                  led(window.By("w", key, b{Bytes: 5})),
		"Bounds.Bytes(0): Bytes and Size are given together":                                  led(window.By("w", key, b{Count: 5, Size: size})),
		"Bounds.Held(-1): must not be negative":                                               led(window.By("w", key, b{Count: 1, Held: -1})),
		"Bounds.Held(100000000): must be at most 16777216":                                    led(window.By("w", key, b{Count: 1, Held: 1e8})),
		"window.Aggregate: the function that adds is nil":                                     led(window.Aggregate[string, int]("w", key, nil, b{Count: 1})),
		"Bounds.Idle(-2ns): must not be negative":                                             led(window.Aggregate("w", key, add, b{Idle: -2})),
		"window.Join: the function for the key is nil":                                        led(window.Join[string]("w", nil, p{Count: 2, Limit: 1})),
		"Parts.Count(1): say when a group is complete: by a Count of at least 2, or by Whole": led(window.Join("w", key, p{Count: 1, Limit: 1})),
		"Parts.Count(-2): must not be negative":                                               led(window.Join("w", key, p{Count: -2, Limit: 1})),
		"Parts.Limit(0s): must be above 0: a part may never come":                             led(window.Join("w", key, p{Whole: whole})),
		"Parts.Held(-1): must not be negative":                                                led(window.Join("w", key, p{Count: 2, Limit: 1, Held: -1})),
		"window.Debounce: the function for the key is nil":                                    led(window.Debounce[string, word]("w", nil, 1, 0)),
		"window.Debounce(0s, 0s): the quiet time must be above 0":                             led(window.Debounce("w", key, 0, 0)),
		"window.Debounce(2ns, 1ns): the limit must be 0 or at least the quiet time":           led(window.Debounce("w", key, 2, 1)),
		"window.Throttle(0s): the period must be above 0":                                     led(window.Throttle("w", key, 0)),
		"Ordered: a stage with windows has an order of its own":                               led(window.By("w", key, b{Count: 1}, stage.Ordered())),
		"window.Throttle: the function for the key is nil":                                    led(window.Throttle[string, word]("w", nil, 1)),
	} {
		_, err := pipeline.New("test", part, stage.Sink("s", func(context.Context, int) error { return nil }))
		var fault *stage.OptionError
		require.ErrorAs(t, err, &fault, want)
		assert.Equal(t, "w", fault.Stage)
		assert.Equal(t, trimmed(`stage "w": `+want), fault.Error())
	}
}

func trimmed(s string) string {
	for s[len(s)-1] == ' ' {
		s = s[:len(s)-1]
	}
	return s
}

func TestACommandWhoseKeyIsNotEqualToItselfFails(t *testing.T) {
	virtual(t, func(t *testing.T) {
		nan := func(word) float64 { zero := 0.0; return zero / zero }
		of := led(window.By("words", nan, window.Bounds[word]{Count: 2}))
		p, err := pipeline.New("test", of, pipeline.Logger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		_, err = of.Call(t.Context(), word{})
		require.ErrorContains(t, err, "not equal to itself")
		require.NoError(t, p.Stop(t.Context()))
	})
}
