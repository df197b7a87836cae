package nats_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/adapter/nats"
)

// table is Outcomes as a user may have them, with errors at will.
type table struct {
	mu       sync.Mutex
	rows     map[string][]byte
	get, add error
	forget   bool // Get finds nothing
}

func (o *table) Get(_ context.Context, key string) ([]byte, bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	row, ok := o.rows[key]
	return row, ok && !o.forget, o.get
}

func (o *table) Add(_ context.Context, key string, outcome []byte) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.add != nil {
		return false, o.add
	}
	if _, ok := o.rows[key]; ok {
		return false, nil
	}
	if o.rows == nil {
		o.rows = map[string][]byte{}
	}
	o.rows[key] = outcome
	return true, nil
}

func TestAKeyHasOneOutcome(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	kept, err := conn.Outcomes(t.Context(), "outcomes", 0)
	require.NoError(t, err)
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		model := map[string]int{}
		for i := range rapid.IntRange(1, 20).Draw(rt, "calls") {
			key := rapid.SampledFrom([]string{"a", "A", "a b", "a.b", "a=20b", "=", "ü", ".", "*", ">", "a/b\n"}).Draw(rt, "key") + string(rune(0x100+round))
			fails := rapid.Bool().Draw(rt, "fails")
			called := false
			got, err := nats.Once(t.Context(), kept, key, func(context.Context) (int, error) {
				called = true
				if fails {
					return 0, errors.New("no")
				}
				return i, nil
			})
			want, had := model[key]
			require.Equal(rt, !had, called)
			switch {
			case had:
				require.NoError(rt, err)
				require.Equal(rt, want, got)
			case fails:
				require.EqualError(rt, err, "no")
			default:
				require.NoError(rt, err)
				require.Equal(rt, i, got)
				model[key] = i
			}
		}
	})
}

// The server closes the connection of a client for good whose subject is too long.
func TestALongKeyHasAnOutcome(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	kept, err := conn.Outcomes(t.Context(), "outcomes", 0)
	require.NoError(t, err)
	long := strings.Repeat("x", 5000)
	keys := []string{
		long, long + "y", "y" + long, strings.Repeat("ä", 2000), strings.Repeat("x", 1024), strings.Repeat("x", 1025), strings.Repeat("x", 1<<20),
	}
	for range 2 {
		for want, key := range keys {
			got, err := nats.Once(t.Context(), kept, key, func(context.Context) (int, error) { return want, nil })
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
	require.NoError(t, conn.Healthy())
}

func TestCallsAtTheSameTimeReturnTheSameOutcome(t *testing.T) {
	conn := embed(t, t.TempDir(), nats.Store{})
	kept, err := conn.Outcomes(t.Context(), "outcomes", time.Hour)
	require.NoError(t, err)
	for name, outcomes := range map[string]nats.Outcomes{"bucket": kept, "table": &table{}} {
		t.Run(name, func(t *testing.T) {
			var all sync.WaitGroup
			var calls atomic.Int64
			results := make([]int64, 8)
			for i := range results {
				all.Go(func() {
					got, err := nats.Once(t.Context(), outcomes, "key", func(context.Context) (int64, error) {
						n := calls.Add(1)
						time.Sleep(10 * time.Millisecond) // most of the others are called meanwhile
						return n, nil
					})
					assert.NoError(t, err)
					results[i] = got
				})
			}
			all.Wait()
			for _, got := range results {
				require.Equal(t, results[0], got)
			}
		})
	}
}

func TestOnceRefusesATypeOfWhichLaterCallsWouldGetLess(t *testing.T) {
	type entry struct{ amount int }
	refused(t, func(context.Context) (entry, error) { panic("called") }, "nats_test.entry")
	refused(t, func(context.Context) (any, error) { panic("called") }, "interface {}")
	refused(t, func(context.Context) (chan int, error) { panic("called") }, "chan int")
}

func refused[R any](t *testing.T, f func(context.Context) (R, error), name string) {
	t.Helper()
	_, err := nats.Once(t.Context(), &table{}, "k", f)
	require.ErrorContains(t, err, `once "k": JSON does not keep `+name)
}

func TestOnceReturnsTheErrorsOfItsOutcomes(t *testing.T) {
	no := errors.New("no")
	one := func(context.Context) (int, error) { return 1, nil }
	_, err := nats.Once(t.Context(), &table{get: no}, "k", one)
	require.ErrorIs(t, err, no)
	_, err = nats.Once(t.Context(), &table{add: no}, "k", one)
	require.ErrorIs(t, err, no)
	_, err = nats.Once(t.Context(), &table{rows: map[string][]byte{"k": []byte("{")}}, "k", one)
	require.ErrorContains(t, err, "the outcome that is kept")
	_, err = nats.Once(t.Context(), &table{}, "k", func(context.Context) (string, error) { return "\xff", nil })
	require.ErrorContains(t, err, `once "k": the outcome: JSON does not keep string: the string is not UTF-8`)
	got, err := nats.Once(t.Context(), &table{rows: map[string][]byte{"k": []byte("2")}, forget: true}, "k", one)
	require.NoError(t, err)
	require.Equal(t, 1, got, "the outcome was forgotten between the calls")

	conn := embed(t, t.TempDir(), nats.Store{})
	kept, err := conn.Outcomes(t.Context(), "outcomes", 0)
	require.NoError(t, err)
	_, err = nats.Once(t.Context(), kept, "", one)
	require.ErrorContains(t, err, "empty")
	_, err = conn.Outcomes(t.Context(), "a name", -1)
	require.ErrorContains(t, err, "must be")
}

func TestOnceRefusesWhatIsNil(t *testing.T) {
	f := func(context.Context) (int, error) { return 1, nil }
	require.PanicsWithValue(t, "nats: Once: the Outcomes or the function is nil", func() { _, _ = nats.Once(t.Context(), nil, "k", f) })
}
