package window_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
)

// mixture is a form of which a window gets commands of a source, of a caller that waits, and of one that does not.
type mixture interface {
	mix(t *testing.T, fault string, fedFirst bool, left int)
	mixOpen(t *testing.T, left int)
}

// stopped ends the context of a stop, which is hard then.
func stopped(t *testing.T) context.Context {
	t.Helper()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	return ended
}

// mix lets a window of four commands fail, and requires that each of the four ends as if it had failed alone: the source hears of its
// two, and delivers them again; the caller gets the error; the command without a caller leaves a letter.
func (f formOf[T]) mix(t *testing.T, fault string, fedFirst bool, left int) {
	t.Helper()
	f.mixBehind(t, nil, fault, fedFirst, left)
}

// mixOpen does the same with a hard stop while the window is open: a handler of a stage before it keeps the drain from closing it.
func (f formOf[T]) mixOpen(t *testing.T, left int) {
	t.Helper()
	blocked := stage.Filter("blocked", func(ctx context.Context, _ word) (bool, error) { <-ctx.Done(); return false, nil })
	f.mixBehind(t, blocked, "a stop", true, left)
}

func (f formOf[T]) mixBehind(t *testing.T, blocked *stage.Flow[word, word], fault string, fedFirst bool, left int) {
	t.Helper()
	l := &ledger[T]{open: f.open, texts: map[string]int{}}
	of, open, failed := f.of(), make(chan struct{}), false
	b := newBroker(messages(2)...)
	fed := func(ctx context.Context, submit func(word) error) error {
		<-open
		return b.feed()(ctx, submit)
	}
	sink := stage.Sink("sink", func(ctx context.Context, v T) error {
		if !failed {
			failed = true
			switch fault {
			case "an error":
				return errDown
			case "a crash":
				panic(errDown)
			default:
				<-ctx.Done()
				return context.Cause(ctx)
			}
		}
		return l.handle(ctx, v)
	}, stage.Workers(1, 1))
	parts := []pipeline.Part{of.To(sink), pipeline.Feed("broker", of, fed), pipeline.Logger(slog.New(slog.DiscardHandler))}
	if blocked != nil {
		parts = append(parts, blocked.To(of))
	}
	p, err := pipeline.New("test", parts...)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	if blocked != nil {
		require.NoError(t, blocked.Submit(t.Context(), word{}))
	}
	if fedFirst {
		close(open)
		synctest.Wait()
	}
	require.NoError(t, of.Submit(t.Context(), word{"a", "submitted"}))
	ticket, err := of.Ask(t.Context(), word{"a", "asked"})
	require.NoError(t, err)
	if !fedFirst {
		synctest.Wait()
		close(open)
	}
	synctest.Wait()
	if fault == "a stop" {
		require.Error(t, p.Stop(stopped(t)))
		synctest.Wait()
	}
	require.True(t, hasEnded(ticket))
	require.Error(t, ticket.Err())
	for _, w := range messages(2) {
		require.NotEmpty(t, b.errs[w.text], w.text)
	}
	require.Empty(t, b.acknowledged())
	stores := []*letters.Store{p.Failures(), p.Quarantine(), p.DeadLetters()}
	require.Equal(t, left, stores[0].Len()+stores[1].Len()+stores[2].Len())
	if fault != "a stop" {
		time.Sleep(2 * time.Minute)
		require.Equal(t, textsOf(messages(2)), b.acknowledged())
		require.NotContains(t, l.handled(), "submitted")
		for _, s := range stores {
			_, err := s.RetryAll(t.Context(), letters.Filter{})
			require.NoError(t, err)
		}
		synctest.Wait()
		require.Contains(t, l.handled(), "submitted")
		require.NoError(t, p.Stop(t.Context()))
	}
	s := p.Snapshot()
	require.True(t, s.Balanced(), s.Law())
	require.Zero(t, s.InFlight, s.Law())
}

func TestCommandsOfASourceAndOfCallersInOneWindowEndEachInItsWay(t *testing.T) {
	for _, fault := range []string{"an error", "a crash", "a stop"} {
		for _, fedFirst := range []bool{true, false} {
			for name, f := range forms(4) {
				t.Run(fmt.Sprintf("%s/%s/fedFirst=%v", name, fault, fedFirst), func(t *testing.T) {
					virtual(t, func(t *testing.T) { f.(mixture).mix(t, fault, fedFirst, 1) })
				})
			}
		}
	}
	for name, f := range forms(5) { // the window is open when the stop comes, which leaves letters of calls, too
		left := 2
		if name == "Aggregate" {
			left = 1 // of the sum
		}
		t.Run(name+"/a stop of an open window", func(t *testing.T) {
			virtual(t, func(t *testing.T) { f.(mixture).mixOpen(t, left) })
		})
	}
}
