package nats_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/adapter/nats"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// publishing starts a pipeline whose only stage publishes to an inlet.
func publishing[C any](t testing.TB, to *nats.Inlet[C], id func(C) string, opts ...stage.Option) *stage.Flow[C, C] {
	t.Helper()
	f := to.Publisher("publish", id, opts...)
	p, err := pipeline.New("test", f, quiet)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	t.Cleanup(func() { _ = p.Stop(context.Background()) })
	return f
}

func TestAPublisherPublishesInOrderAndEachIDOnce(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	numbers := inlet(t, conn, "numbers", nats.Options[int]{UntilEmpty: true})
	f := publishing(t, numbers, strconv.Itoa)
	const n = 3000
	var ends sync.WaitGroup
	for k := range n {
		for range 1 + k%2 {
			ticket, err := f.Ask(t.Context(), k)
			require.NoError(t, err)
			ends.Go(func() {
				outcome, err := ticket.Wait(t.Context())
				assert.NoError(t, err)
				assert.Equal(t, k, outcome)
			})
		}
	}
	ends.Wait()
	require.Equal(t, nats.Status{Published: n, Pending: n}, status(t, numbers))
	require.EqualValues(t, n/2, numbers.Counts().Duplicates)
	var got []int
	run(t, numbers, stage.Sink("take", func(_ context.Context, k int) error { got = append(got, k); return nil }, stage.Workers(1, 1)))
	require.Len(t, got, n)
	for k, at := range got {
		require.Equal(t, k, at)
	}
}

func TestACommandOfAPublisherFailsAloneIfItsMessageIsRefused(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{MaxPayload: 10_000})
	texts := inlet(t, conn, "texts", nats.Options[string]{})
	f := publishing(t, texts, nil, stage.Linger(20*time.Millisecond))
	var ends sync.WaitGroup
	for k := range 300 {
		ends.Go(func() {
			text := "small"
			if k%100 == 50 {
				text = strings.Repeat("large", 10_000)
			}
			_, err := f.Call(t.Context(), text)
			if k%100 == 50 {
				assert.ErrorIs(t, err, nats.ErrTooLarge)
			} else {
				assert.NoError(t, err)
			}
		})
	}
	ends.Wait()
	require.EqualValues(t, 297, status(t, texts).Published)
	c := texts.Counts()
	require.EqualValues(t, 297, c.Published)
	require.EqualValues(t, 3, c.Refused)
}

func TestAPublisherWhoseStreamIsFullFailsWithOverload(t *testing.T) {
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{MaxMessages: 2})
	f := publishing(t, numbers, nil)
	for k := range 3 {
		_, err := f.Call(t.Context(), k)
		if k < 2 {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, nats.ErrFull)
		o, overloaded := stage.Overloaded(err)
		require.True(t, overloaded)
		require.Equal(t, nats.InletFull, o.Reason)
	}
}

func TestAnIDThatPanicsCrashesItsCommandAndPublishesNothing(t *testing.T) {
	numbers := inlet(t, embed(t, t.TempDir(), nats.Store{}), "numbers", nats.Options[int]{})
	f := publishing(t, numbers, func(k int) string {
		if k == 7 {
			panic("no ID")
		}
		return ""
	}, stage.Linger(20*time.Millisecond))
	var ends sync.WaitGroup
	for k := range 20 {
		ends.Go(func() {
			_, err := f.Call(t.Context(), k)
			assert.Equal(t, k == 7, stage.Crashed(err), "%v", err)
		})
	}
	ends.Wait()
	require.EqualValues(t, 19, status(t, numbers).Published)
}

func TestAPublisherWithoutAServerFailsWithOverload(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	numbers := inlet(t, conn, "numbers", nats.Options[int]{})
	f := publishing(t, numbers, nil)
	require.NoError(t, conn.JetStream().DeleteStream(t.Context(), "GOLDA_numbers")) // now no server answers
	_, err := f.Call(t.Context(), 1)
	require.ErrorIs(t, err, nats.ErrAway)
	_, overloaded := stage.Overloaded(err)
	require.True(t, overloaded)
}

func TestAPublisherWithoutAnInletIsAFaultOfThePipeline(t *testing.T) {
	var none *nats.Inlet[int]
	_, err := pipeline.New("test", none.Publisher("publish", nil), quiet)
	require.ErrorContains(t, err, `stage "publish"`)
	require.ErrorContains(t, err, "the inlet is nil")
}

var errOdd = errors.New("odd")

func TestAPublisherSendsOnWhatTheServerHas(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	numbers := inlet(t, conn, "numbers", nats.Options[int]{MaxMessages: 10})
	var mu sync.Mutex
	var got []int
	f := numbers.Publisher("publish", nil)
	seen := stage.Sink("seen", func(_ context.Context, k int) error {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, k)
		if k%2 == 1 {
			return fmt.Errorf("%d: %w", k, errOdd)
		}
		return nil
	})
	p, err := pipeline.New("test", f.To(seen), quiet)
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	defer func() { _ = p.Stop(context.Background()) }()
	for k := range 12 {
		_, err := f.Call(t.Context(), k)
		switch {
		case k >= 10:
			require.ErrorIs(t, err, nats.ErrFull)
		case k%2 == 1:
			require.ErrorIs(t, err, errOdd)
		default:
			require.NoError(t, err)
		}
	}
	require.Len(t, got, 10)
}
