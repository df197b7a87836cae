package stage

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
)

// soloist is an instance that is used by one handler at a time, and stopped once.
type soloist struct {
	key     int
	used    atomic.Bool
	stopped atomic.Int32
}

func (s *soloist) HandleCommand(context.Context, int) behaviour.Outcome { return behaviour.OK(nil) }
func (s *soloist) Stop()                                                { s.stopped.Add(1) }

// newKeyedTable returns the table of a keyed stage whose commands are their
// keys, started.
func newKeyedTable(t *testing.T, factory func(int) *soloist) *keyed[int, int, *soloist] {
	s := &keyed[int, int, *soloist]{
		name: "keys", key: func(k int) int { return k }, factory: factory, seed: maphash.MakeSeed(), every: 1,
		report: func(message string, err error) { t.Errorf("%s: %v", message, err) },
	}
	require.NoError(t, s.Start(t.Context()))
	return s
}

func TestAnInstanceIsFoundAgainWithoutItsShard(t *testing.T) {
	s := newKeyedTable(t, func(k int) *soloist { return &soloist{key: k} })
	const keys = 5000 // the slots grow several times
	found := 0
	for round := range 3 {
		for k := range keys {
			hash := hashOf(s.seed, k)
			if e := s.acquireRecent(t.Context(), hash, k); e != nil {
				require.Equal(t, k, e.instance.key)
				require.Nil(t, s.acquireRecent(t.Context(), hash, k), "it is used")
				s.release(t.Context(), e, true)
				if round == 2 {
					found++
				}
			}
			require.NoError(t, s.HandleCommand(t.Context(), k).Err())
		}
	}
	require.Greater(t, found, keys/2)
	require.EqualValues(t, keys, s.instances.Load())
	s.Stop()
	for k := range keys {
		require.Nil(t, s.acquireRecent(t.Context(), hashOf(s.seed, k), k))
		require.ErrorIs(t, s.HandleCommand(t.Context(), k).Err(), ErrStopped)
	}
}

func TestAnInstanceWhoseHandlerCrashedIsNotFoundAgain(t *testing.T) {
	made := 0
	s := newKeyedTable(t, func(k int) *soloist { made++; return &soloist{key: k} })
	crash := errors.New("crash")
	for n := range 4 {
		require.NoError(t, s.HandleCommand(t.Context(), 7).Err())
		require.Equal(t, n+1, made)
		e := s.acquire(t.Context(), 7)
		require.NotNil(t, e)
		func() {
			defer func() { require.Equal(t, crash, recover()) }()
			defer s.release(t.Context(), e, false)
			panic(crash)
		}()
		require.EqualValues(t, 1, e.instance.stopped.Load())
	}
}

func TestNothingIsRememberedWhereInstancesArePassivated(t *testing.T) {
	s := newKeyedTable(t, func(k int) *soloist { return &soloist{key: k} })
	s.most = 10
	for k := range 100 {
		require.NoError(t, s.HandleCommand(t.Context(), k).Err())
	}
	require.Nil(t, s.recent.slots.Load())
}

// The line of a stage gives the commands of one key to one worker at a time. So
// do the mutexes here, except that the stage is stopped meanwhile, as by the
// handlers of workers that were given up.
func TestEachInstanceIsStoppedOnceWhateverHandlersDo(t *testing.T) {
	const keys, rounds = 50, 200
	var mu sync.Mutex
	var made []*soloist
	s := newKeyedTable(t, func(k int) *soloist {
		mu.Lock()
		defer mu.Unlock()
		one := &soloist{key: k}
		made = append(made, one)
		return one
	})
	for range rounds {
		var turns [keys]sync.Mutex
		var handlers sync.WaitGroup
		var stopping atomic.Bool
		for g := range 4 {
			handlers.Go(func() {
				for n := 0; !stopping.Load() || n < 2*keys; n++ {
					k := (n*7 + g*13) % keys
					turns[k].Lock()
					if e := s.acquire(t.Context(), k); e != nil {
						if !e.made {
							s.make(e)
						}
						assert.True(t, e.instance.used.CompareAndSwap(false, true), "two handlers use an instance")
						e.instance.used.Store(false)
						s.release(t.Context(), e, n%17 != 0)
					}
					turns[k].Unlock()
				}
			})
		}
		s.Stop()
		stopping.Store(true)
		handlers.Wait()
		for _, one := range made {
			require.EqualValues(t, 1, one.stopped.Load(), "key %d", one.key)
		}
		made = nil
		require.NoError(t, s.Start(t.Context()))
	}
	s.Stop()
}

// BenchmarkKeys finds the instance of a key, and handles a command with it.
func BenchmarkKeys(b *testing.B) {
	for _, keys := range []int{1, 100, 2000, 100_000} {
		for _, most := range []int{0, 1 << 30} { // with a bound, nothing is remembered
			b.Run(fmt.Sprintf("keys=%d/recent=%v", keys, most == 0), func(b *testing.B) {
				s := &keyed[string, string, *soloistOfStrings]{
					key: func(k string) string { return k }, factory: func(string) *soloistOfStrings { return new(soloistOfStrings) },
					seed: maphash.MakeSeed(), every: 1, most: most,
				}
				if err := s.Start(b.Context()); err != nil {
					b.Fatal(err)
				}
				defer s.Stop()
				cmds := make([]string, keys)
				for i := range cmds {
					cmds[i] = "host " + strconv.Itoa(i)
				}
				ctx, i := b.Context(), 0
				b.ReportAllocs()
				for b.Loop() {
					if i++; i >= keys {
						i = 0
					}
					s.HandleCommand(ctx, cmds[i])
				}
			})
		}
	}
}

type soloistOfStrings struct{}

func (*soloistOfStrings) HandleCommand(context.Context, string) behaviour.Outcome {
	return behaviour.OK(nil)
}
