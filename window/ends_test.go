package window_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/source"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/window"
)

var errDown = errors.New("the database is down")

// broker is a source that delivers each message until its command has ended well.
type broker struct {
	mu      sync.Mutex // guards all below
	waiting []word     // to be delivered
	out     int        // delivered, and not ended
	gone    []string   // acknowledged, in order
	errs    map[string][]error
	more    chan struct{}
}

func newBroker(messages ...word) *broker {
	return &broker{waiting: messages, errs: map[string][]error{}, more: make(chan struct{}, 1)}
}

// feed delivers messages until all of them are acknowledged.
func (b *broker) feed() source.Source[word] {
	return source.Ends(func(ctx context.Context, submit func(word, func(error)) error) error {
		for {
			w, ok, done := b.next()
			switch {
			case done:
				return nil
			case !ok:
				select {
				case <-b.more:
				case <-ctx.Done():
					return ctx.Err()
				}
				continue
			}
			if err := submit(w, func(err error) { b.end(w, err) }); err != nil {
				b.end(w, err)
				return err
			}
		}
	})
}

func (b *broker) next() (w word, ok, done bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		return w, false, b.out == 0
	}
	w, b.waiting = b.waiting[0], b.waiting[1:]
	b.out++
	return w, true, false
}

func (b *broker) end(w word, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out--
	if err == nil {
		b.gone = append(b.gone, w.text)
	} else {
		b.errs[w.text] = append(b.errs[w.text], err)
		b.waiting = append(b.waiting, w)
	}
	select {
	case b.more <- struct{}{}:
	default:
	}
}

// acknowledged returns the messages that are gone, sorted.
func (b *broker) acknowledged() []string {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(slices.Values(b.gone))
}

// ledger is a sink that fails as long as it is told to, and notes what it has handled.
type ledger[T any] struct {
	mu    sync.Mutex // guards the rest
	fails int
	open  func(T) []string
	texts map[string]int
}

func (l *ledger[T]) handle(_ context.Context, v T) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fails > 0 {
		l.fails--
		return errDown
	}
	for _, text := range l.open(v) {
		l.texts[text]++
	}
	return nil
}

func (l *ledger[T]) handled() (all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for text := range l.texts {
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

// form is one kind of stage with windows, and how its results are made of commands.
type form interface {
	run(t *testing.T, b *broker, fails int, parts ...pipeline.Part) (handled []string)
	halt(t *testing.T, b *broker)
}

type formOf[T any] struct {
	of   func() *stage.Flow[word, T]
	open func(T) []string
}

func (f formOf[T]) run(t *testing.T, b *broker, fails int, parts ...pipeline.Part) []string {
	t.Helper()
	l := &ledger[T]{fails: fails, open: f.open, texts: map[string]int{}}
	of := f.of()
	sink := stage.Sink("sink", l.handle, stage.Workers(1, 1))
	p, err := pipeline.New("test", append(parts, of.To(sink), pipeline.Feed("broker", of, b.feed()),
		pipeline.Logger(slog.New(slog.DiscardHandler)))...)
	require.NoError(t, err)
	require.NoError(t, p.Run(t.Context()))
	s := p.Snapshot()
	require.True(t, s.Balanced())
	require.Zero(t, s.InFlight)
	require.Zero(t, p.Failures().Len(), "the source hears of the failure: it leaves no letter")
	return l.handled()
}

func textsOf(ws []word) (all []string) {
	for _, w := range ws {
		all = append(all, w.text)
	}
	return all
}

// forms are all forms in which a result has all of the commands.
func forms(n int) map[string]form {
	b := window.Bounds[word]{Count: n, Time: time.Minute}
	return map[string]form{
		"By": formOf[group]{func() *stage.Flow[word, group] { return by(b) }, func(g group) []string { return textsOf(g.Value) }},
		"All": formOf[window.Window[struct{}, []word]]{
			func() *stage.Flow[word, window.Window[struct{}, []word]] { return window.All("all", b) },
			func(g window.Window[struct{}, []word]) []string { return textsOf(g.Value) },
		},
		"Aggregate": formOf[window.Window[string, []string]]{
			func() *stage.Flow[word, window.Window[string, []string]] {
				return window.Aggregate("sum", word.of, func(sum []string, w word) []string { return append(sum, w.text) }, b)
			},
			func(g window.Window[string, []string]) []string { return g.Value },
		},
		"Join": formOf[group]{
			func() *stage.Flow[word, group] { return join(window.Parts[word]{Count: n, Limit: time.Minute}) },
			func(g group) []string { return textsOf(g.Value) },
		},
	}
}

func messages(n int) (all []word) {
	for i := range n {
		all = append(all, word{"a", fmt.Sprint("a", i)})
	}
	return all
}

func TestAWindowBehindASourceThatHearsEndsLosesNoMessage(t *testing.T) {
	for name, f := range forms(10) {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				b, all := newBroker(messages(10)...), textsOf(messages(10))
				assert.Equal(t, all, f.run(t, b, 1), "all are handled in the end")
				assert.Equal(t, all, b.acknowledged())
				for _, text := range all {
					require.Len(t, b.errs[text], 1, text)
					require.ErrorIs(t, b.errs[text][0], errDown, text)
				}
			})
		})
	}
}

// The command that is passed on stands for those before it.
func TestACommandThatALaterOneSupersedesEndsWithThatOne(t *testing.T) {
	latest := func(w word) []string { return []string{w.text} }
	for name, f := range map[string]form{
		"Debounce": formOf[word]{func() *stage.Flow[word, word] { return window.Debounce("quiet", word.of, time.Second, 0) }, latest},
		"Throttle": formOf[word]{func() *stage.Flow[word, word] { return window.Throttle("seldom", word.of, time.Second) }, latest},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				b, all := newBroker(messages(5)...), textsOf(messages(5))
				handled := f.run(t, b, 100)
				require.Equal(t, all, b.acknowledged())
				require.NotEmpty(t, handled)
				require.Contains(t, handled, b.gone[0], "a message is acknowledged when what superseded it was handled")
				for _, text := range all {
					require.NotEmpty(t, b.errs[text], "%s hears that what it was superseded by has failed", text)
				}
			})
		})
	}
}

func TestAFailureOfAResultIsThatOfAllItsCallers(t *testing.T) {
	virtual(t, func(t *testing.T) {
		of := window.Aggregate("sum", word.of, func(n int, _ word) int { return n + 1 }, window.Bounds[word]{Count: 4})
		fail := stage.Map("fail", func(_ context.Context, w window.Window[string, int]) (int, error) { return w.Value, errDown })
		p, err := pipeline.New("test", of.To(fail), pipeline.Logger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		var tickets []*stage.Ticket
		for _, w := range words("a1", "a2", "a3") {
			ticket, err := of.Ask(t.Context(), w)
			require.NoError(t, err)
			tickets = append(tickets, ticket)
		}
		require.NoError(t, of.Submit(t.Context(), words("a4")[0]))
		synctest.Wait()
		for i, ticket := range tickets {
			require.True(t, hasEnded(ticket), i)
			require.ErrorIs(t, ticket.Err(), errDown, i)
		}
		assert.Equal(t, 1, p.Failures().Len(), "one letter for the sum, since the last command has no caller")
		require.NoError(t, p.Stop(t.Context()))
		require.True(t, p.Snapshot().Balanced())
	})
}

func TestTheFirstCallerGetsTheAnswerToTheResultAndAllHearOfIt(t *testing.T) {
	virtual(t, func(t *testing.T) {
		of := led(window.Aggregate("sum", word.of, func(n int, _ word) int { return n + 1 }, window.Bounds[word]{Count: 2}))
		p, err := pipeline.New("test", of, pipeline.Logger(slog.New(slog.DiscardHandler)))
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		first, err := of.Ask(t.Context(), words("a1")[0])
		require.NoError(t, err)
		second, err := of.Ask(t.Context(), words("a2")[0])
		require.NoError(t, err)
		require.True(t, hasEnded(first) && hasEnded(second))
		assert.Equal(t, 2, first.Result().(window.Window[string, int]).Value)
		assert.Nil(t, second.Result())
		require.NoError(t, p.Stop(t.Context()))
	})
}

// A hard stop ends what is in open windows, in a closed one, and what was summed up.
func TestAHardStopGivesAllMessagesBack(t *testing.T) {
	for name, f := range forms(3) {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T) {
				b := newBroker(messages(5)...) // one window is closed, and one is open
				f.halt(t, b)
				require.Empty(t, b.acknowledged())
				for _, w := range messages(5) {
					require.NotEmpty(t, b.errs[w.text], w.text)
				}
			})
		})
	}
}

// halt stops a pipeline hard while its sink has the first result.
func (f formOf[T]) halt(t *testing.T, b *broker) {
	t.Helper()
	of := f.of()
	sink := stage.Sink("sink", func(ctx context.Context, _ T) error { <-ctx.Done(); return context.Cause(ctx) }, stage.Workers(1, 1))
	p, err := pipeline.New("test", of.To(sink), pipeline.Feed("broker", of, b.feed()), pipeline.Logger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	synctest.Wait()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, p.Stop(ended))
	synctest.Wait()
}
