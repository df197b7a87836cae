package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/coordination/synchronizer"
	"github.com/golda-dev/golda/supervisor"
)

// storm is processes whose synchronizers come and go. It knows which of those are asked about which process.
type storm struct {
	node    *rpc.Node
	members []rpc.Address
	calm    atomic.Bool // no rule panics any more

	mu    sync.Mutex
	runs  int // of inits
	books []*stormBook
}

// stormBook is one call of Synchronize. Each run of its init names other members.
type stormBook struct {
	name    string
	members map[rpc.Address]bool
	run     int // the number of its init's last run: those of one name do not overlap
	works   bool
	faulty  bool // it has a rule that panics once
	asked   map[rpc.Address]bool
}

// synchronize starts a synchronizer of some members. It may have a rule that panics once.
func (s *storm) synchronize(ctx context.Context, rnd *rand.Rand, name string) {
	b := &stormBook{name: name, asked: map[rpc.Address]bool{}, faulty: rnd.IntN(3) == 0}
	mayPanic, draw := b.faulty, rand.New(rand.NewPCG(rnd.Uint64(), 0))
	s.mu.Lock()
	s.books = append(s.books, b)
	s.mu.Unlock()
	_, err := s.node.Synchronize(ctx, name, func(rules *synchronizer.Synchronizer) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.runs++
		b.run, b.members = s.runs, map[rpc.Address]bool{}
		for _, i := range draw.Perm(len(s.members))[draw.IntN(len(s.members)):] {
			a := s.members[i]
			b.members[a] = true
			rules.Constrain(a, "m", func(guard.Request) bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				b.asked[a] = true
				if mayPanic && !s.calm.Load() {
					mayPanic = false
					panic("a fault in a rule")
				}
				return true
			})
		}
	})
	s.mu.Lock()
	b.works = err == nil
	s.mu.Unlock()
}

// call calls a process until it answers.
func (s *storm) call(t testing.TB, a rpc.Address) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		_, err := rpc.At[none, none](a, "m").Call(coroutine.Blocking(ctx), none{})
		if err == nil || ctx.Err() != nil || !errors.Is(err, rpc.ErrUnreachable) {
			assert.NoError(t, err, "%v", a)
			return
		}
	}
}

// asked calls all processes, and returns the synchronizers that were asked, and about which of them.
func (s *storm) asked(t testing.TB) map[*stormBook]map[rpc.Address]bool {
	t.Helper()
	s.mu.Lock()
	for _, b := range s.books {
		b.asked = map[rpc.Address]bool{}
	}
	s.mu.Unlock()
	for _, a := range s.members {
		s.call(t, a)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[*stormBook]map[rpc.Address]bool{}
	for _, b := range s.books {
		if len(b.asked) > 0 {
			all[b] = maps.Clone(b.asked)
		}
	}
	return all
}

// isRuled reports whether only the last synchronizers of their names were asked, those that are there, about each of their members and
// nothing else. What is there keeps its name. One that has crashed may name other members a little later.
func (s *storm) isRuled(t testing.TB, names []string, asked map[*stormBook]map[rpc.Address]bool) (ruled, crashed bool) {
	t.Helper()
	want := map[*stormBook]map[rpc.Address]bool{}
	for _, name := range names {
		_, err := s.node.Synchronize(t.Context(), name, nil)
		s.mu.Lock()
		if last := s.last(name); errors.Is(err, supervisor.ErrAlreadyStarted) {
			want[last] = maps.Clone(last.members)
			crashed = crashed || last.faulty
			assert.True(t, last.works, "a synchronizer is there whose start has failed")
		}
		s.mu.Unlock()
	}
	return maps.EqualFunc(want, asked, maps.Equal[map[rpc.Address]bool]), crashed
}

// last returns the last synchronizer of a name that has started, or nil. The caller has the lock.
func (s *storm) last(name string) (last *stormBook) {
	for _, b := range s.books {
		if b.name == name && b.run > 0 && (last == nil || b.run > last.run) {
			last = b
		}
	}
	return last
}

// rage has synchronizers start, end, be given up and crash, and processes crash, all at once, while they are called.
func (s *storm) rage(t testing.TB, seed uint64, names []string, steps int) {
	t.Helper()
	var users, clients sync.WaitGroup
	done := make(chan none)
	for i := range 6 {
		name, rnd := names[i%len(names)], rand.New(rand.NewPCG(seed, uint64(i)))
		users.Go(func() {
			for range steps {
				switch rnd.IntN(8) {
				case 0, 1:
					_ = s.node.Stop(name)
				case 2:
					_ = rpc.At[none, none](s.members[rnd.IntN(len(s.members))], "crash").Send(none{})
				case 3:
					time.Sleep(time.Duration(rnd.IntN(1000)) * time.Microsecond)
				case 4, 5:
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rnd.IntN(2000))*time.Microsecond)
					s.synchronize(ctx, rnd, name)
					cancel()
				default:
					s.synchronize(t.Context(), rnd, name)
				}
			}
		})
	}
	for _, a := range s.members {
		clients.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					s.call(t, a)
				}
			}
		})
	}
	users.Wait()
	close(done)
	clients.Wait()
}

// TestTheRulesInForceAreThoseOfTheLastSynchronizer compares, after each storm, which synchronizers the processes ask with what must be: for
// each name the last one, if it is there to be stopped, about each of its members and nothing else.
func TestTheRulesInForceAreThoseOfTheLastSynchronizer(t *testing.T) {
	for where, nodes := range everyPairOfNodes {
		t.Run(where, func(t *testing.T) {
			n, m := nodes(t)
			s := &storm{node: n}
			for i := range 4 {
				at, name := []*rpc.Node{n, m}[i%2], fmt.Sprint("P", i)
				var ran atomic.Int32
				supervised(t, supervisor.OneForOne, at.Child(name, crashing(&ran)))
				s.members = append(s.members, n.Remote(at.Name(), name))
			}
			names := []string{"S", "T"}
			left := 0
			for range 10 {
				seed := rand.Uint64()
				s.calm.Store(false)
				s.rage(t, seed, names, 12)
				s.calm.Store(true)
				require.Eventually(t, func() bool {
					ruled, crashed := s.isRuled(t, names, s.asked(t))
					return ruled || !crashed && !assert.True(t, ruled, "seed %d", seed)
				}, time.Minute, time.Millisecond, "seed %d", seed)
				for _, name := range names {
					switch err := n.Stop(name); {
					case err == nil:
						left++
					default:
						require.ErrorIs(t, err, supervisor.ErrNotFound)
					}
				}
				assert.Empty(t, s.asked(t), "seed %d", seed)
				if t.Failed() {
					return
				}
				s.books = nil
			}
			t.Logf("%d inits, %d of 20 names had a synchronizer at the end of their storm", s.runs, left)
		})
	}
}
