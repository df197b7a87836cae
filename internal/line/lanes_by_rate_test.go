package line

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/rate"
)

// The model gives each key a bucket of its own for ever, and looks at all keys
// each time.
func TestLanesWithARateAgreeWithAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const keys = 5
		limit := rate.Limit{N: rapid.IntRange(1, 3).Draw(t, "n"), Per: time.Duration(rapid.IntRange(1, 20).Draw(t, "per")), Burst: rapid.IntRange(1, 3).Draw(t, "burst")}
		l, now, next := Keyed(Keys{Rate: limit}).(*lanes), int64(0), 0
		var waiting [keys][]int
		var buckets [keys]*rate.Bucket
		for k := range buckets {
			buckets[k] = rate.New(limit)
		}
		allowed := func(k int) int { return min(len(waiting[k]), buckets[k].Permits(now)) }
		key := func(cmd any) int { return cmd.(int) % keys }
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				es := make([]command.Envelope, rapid.IntRange(1, 4).Draw(t, "n"))
				ks := make([]Rank, len(es))
				for i := range es {
					k := rapid.IntRange(0, keys-1).Draw(t, "key")
					es[i].Load, ks[i] = keys*next+k, Rank{Key: uint64(k + 1)}
					waiting[k] = append(waiting[k], keys*next+k)
					next++
				}
				l.PushAll(es, ks)
			},
			"pass": func(t *rapid.T) { now += rapid.Int64Range(0, 30).Draw(t, "time") },
			"take": func(t *rapid.T) {
				l.advance(now)
				sum := 0
				for k := range keys {
					sum += allowed(k)
				}
				require.GreaterOrEqual(t, sum, l.Takeable())
				require.Equal(t, sum > 0, l.Takeable() > 0, "there is something to do exactly if a rate allows it")
				batch := make([]command.Envelope, rapid.IntRange(1, 4).Draw(t, "n"))
				n := l.PopInto(batch)
				require.Equal(t, min(len(batch), sum), n)
				for _, e := range batch[:n] {
					k := key(e.Load)
					require.Positive(t, allowed(k), "more than the rate")
					require.Equal(t, waiting[k][0], e.Load, "in order")
					waiting[k] = waiting[k][1:]
					buckets[k].Take(1)
					if rapid.IntRange(0, 3).Draw(t, "expired") == 0 {
						buckets[k].GiveBack(1)
						l.Refund(Rank{Key: uint64(k + 1)})
					}
				}
			},
			"due": func(t *rapid.T) {
				l.advance(now)
				if l.Takeable() > 0 || len(l.dry) == 0 {
					return
				}
				due := int64(math.MaxInt64)
				for k := range keys {
					if len(waiting[k]) > 0 {
						buckets[k].Fill(now)
						due = min(due, buckets[k].DueAt(1))
					}
				}
				require.Equal(t, due, l.dry[0].due)
			},
			"drop": func(t *rapid.T) {
				if l.Len() > 0 {
					e := l.Drop()
					k := key(e.Load)
					require.Equal(t, waiting[k][0], e.Load)
					waiting[k] = waiting[k][1:]
				}
			},
			"drain": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "one in ten") == 0 {
					var got [keys][]int
					for _, e := range l.Drain() {
						got[key(e.Load)] = append(got[key(e.Load)], e.Load.(int))
					}
					for k := range keys {
						require.True(t, slices.Equal(waiting[k], got[k]))
						waiting[k] = nil
					}
					require.Empty(t, l.dry)
				}
			},
			"": func(t *rapid.T) {
				n := 0
				for k := range keys {
					n += len(waiting[k])
				}
				require.Equal(t, n, l.Len())
				require.Equal(t, n, l.Count(func(*command.Envelope) bool { return true }))
				require.GreaterOrEqual(t, l.Takeable(), 0)
				for i, ln := range l.dry {
					require.Equal(t, i+1, ln.dryAt)
					require.Positive(t, ln.ring.Len())
				}
			},
		})
	})
}

// Each key comes once, so none has all its permits soon.
func TestKeysThatHaveUsedUpTheirRateAreRememberedUpToABound(t *testing.T) {
	l := Keyed(Keys{Rate: rate.Limit{N: 1, Per: time.Hour, Burst: 1}}).(*lanes)
	batch := make([]command.Envelope, 1)
	come := func(k int) bool {
		l.Push(command.Envelope{Load: k}, Rank{Key: uint64(k + 1)})
		return l.PopInto(batch) == 1
	}
	for k := range 2 * mostSpent {
		require.True(t, come(k))
		require.LessOrEqual(t, l.byKey.n, mostSpent)
	}
	require.False(t, come(2*mostSpent-1), "it is remembered")
	require.True(t, come(0), "the one that was forgotten has all its permits")
	l.advance(int64(2 * time.Hour))
	for k := range 4 * mostEmpty {
		require.Equal(t, 1, func() int { come(3*mostSpent + k); return 1 }())
	}
	require.Less(t, l.byKey.n, mostSpent-mostEmpty, "those that have all their permits are forgotten")
}
