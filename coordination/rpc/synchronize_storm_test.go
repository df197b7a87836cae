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

// storm is processes whose synchronizers come and go. It knows which of those are asked about which process, and what runs.
type storm struct {
	node    *rpc.Node
	tree    *supervisor.Tree // of synchronizers that are children
	members []rpc.Address
	calm    atomic.Bool // no rule panics or hangs any more

	mu      sync.Mutex
	runs    int // of inits
	hung    int // rules
	books   []*stormBook
	running map[rpc.Address]int // functions, also while they clean up
	let     chan none           // is closed when the rules that hang return
}

// stormBook is one synchronizer. Each run of its init names other members.
type stormBook struct {
	name    string
	members map[rpc.Address]bool
	run     int // the number of its init's last run: those of one name do not overlap
	works   bool
	panics  bool     // it has a rule that panics once
	hung    bool     // a rule hangs or has hung
	givenUp bool     // by its supervisor, while a rule was slow or hung
	short   []string // counters that were below the number of functions that ran
	asked   map[rpc.Address]bool
}

// serve is the init of a process of a storm. Its function takes a moment, and when it is stopped another one to clean up.
func (s *storm) serve(a rpc.Address) func(p *rpc.Process) error {
	book := func(by int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running[a] += by
	}
	return func(p *rpc.Process) error {
		rpc.Func(p, "m", func(c coroutine.Context, _ none) (none, error) {
			book(1)
			defer book(-1)
			err := coroutine.Sleep(c, time.Duration(rand.IntN(500))*time.Microsecond)
			if err != nil {
				time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
			}
			return none{}, err
		})
		rpc.Func(p, "crash", func(coroutine.Context, none) (none, error) { return none{}, nil })
		p.Guard("crash", func(func(string) guard.Counters) bool { panic("a fault in a guard") })
		return nil
	}
}

// rules returns a new synchronizer of some members, and its init. One of its rules may panic once.
func (s *storm) rules(t testing.TB, rnd *rand.Rand, name string, hangs bool) (*stormBook, func(rules *synchronizer.Synchronizer)) {
	t.Helper()
	b := &stormBook{name: name, asked: map[rpc.Address]bool{}, panics: !hangs && rnd.IntN(3) == 0}
	mayPanic, draw := b.panics, rand.New(rand.NewPCG(rnd.Uint64(), 0))
	s.mu.Lock()
	s.books = append(s.books, b)
	s.mu.Unlock()
	return b, func(rules *synchronizer.Synchronizer) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.runs++
		members := map[rpc.Address]bool{}
		b.run, b.members = s.runs, members
		for _, i := range draw.Perm(len(s.members))[draw.IntN(len(s.members)):] {
			a := s.members[i]
			members[a] = true
			rules.Constrain(a, "m", func(guard.Request) bool {
				if rand.IntN(50) == 0 {
					time.Sleep(2 * time.Millisecond) // longer than a supervisor's patience: it gives the synchronizer up
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				if b.hung {
					return true // it was given up
				}
				b.asked[a] = true
				for m := range members {
					counted := rules.Count(m, "m").Current
					if counted < s.running[m] {
						b.short = append(b.short, fmt.Sprintf("%v counts %d functions of %v, %d run", name, counted, m, s.running[m]))
					}
				}
				if mayPanic && !s.calm.Load() {
					mayPanic = false
					panic("a fault in a rule")
				}
				if hangs && !s.calm.Load() {
					s.hung++
					b.hung = true
					let := s.let
					s.mu.Unlock()
					<-let
					s.mu.Lock()
				}
				return true
			})
		}
	}
}

// synchronize starts a synchronizer of some members.
func (s *storm) synchronize(ctx context.Context, t testing.TB, rnd *rand.Rand, name string) {
	t.Helper()
	b, init := s.rules(t, rnd, name, false)
	_, err := s.node.Synchronize(ctx, name, init)
	s.mu.Lock()
	b.works = err == nil
	s.mu.Unlock()
}

// abandon has a supervisor start a synchronizer, and stop it or give it up because a rule hangs. Another then follows it.
func (s *storm) abandon(t testing.TB, rnd *rand.Rand, name string) {
	t.Helper()
	b, init := s.rules(t, rnd, name, rnd.IntN(3) > 0)
	child := s.node.SynchronizerChild(name, init)
	child.Name = fmt.Sprint(name, rnd.Uint64()) // which no other child has
	child.Patience = time.Millisecond
	child.Restart = supervisor.Temporary // the name of the synchronizer may be taken then
	if _, err := s.tree.Add(t.Context(), child); err != nil {
		return // its name is taken
	}
	time.Sleep(time.Duration(rnd.IntN(5000)) * time.Microsecond)
	if err := s.tree.Remove(child.Name); err != nil && !errors.Is(err, supervisor.ErrNotFound) { // it has crashed
		var left *supervisor.LeftError
		assert.ErrorAs(t, err, &left)
		s.mu.Lock()
		b.givenUp = true
		s.mu.Unlock()
	}
	s.synchronize(t.Context(), t, rnd, name)
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
			crashed = crashed || last.panics
			assert.True(t, last.works, "a synchronizer is there whose start has failed, or that was given up")
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

// countsAll fails the test if a synchronizer has counted less than ran. The counters of one that was given up stay as they were.
func (s *storm) countsAll(t testing.TB, seed uint64) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.books {
		if !b.givenUp {
			assert.Empty(t, b.short, "seed %d", seed)
		}
	}
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
				switch rnd.IntN(12) {
				case 0, 1:
					_ = s.node.Stop(name)
				case 2, 7, 8:
					_ = rpc.At[none, none](s.members[rnd.IntN(len(s.members))], "crash").Send(none{})
				case 3:
					time.Sleep(time.Duration(rnd.IntN(1000)) * time.Microsecond)
				case 4, 5:
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rnd.IntN(2000))*time.Microsecond)
					s.synchronize(ctx, t, rnd, name)
					cancel()
				case 6, 9:
					s.abandon(t, rnd, name)
				default:
					s.synchronize(t.Context(), t, rnd, name)
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
// each name the last one, if it is there to be stopped, about each of its members and nothing else. Whenever a synchronizer is asked, in the
// storm too, it counts at least the functions that run or clean up.
func TestTheRulesInForceAreThoseOfTheLastSynchronizer(t *testing.T) {
	for where, nodes := range everyPairOfNodes {
		t.Run(where, func(t *testing.T) {
			n, m := nodes(t)
			s := &storm{node: n, running: map[rpc.Address]int{}, tree: supervised(t, supervisor.OneForOne)}
			for i := range 4 {
				at, name := []*rpc.Node{n, m}[i%2], fmt.Sprint("P", i)
				a := n.Remote(at.Name(), name)
				supervised(t, supervisor.OneForOne, at.Child(name, s.serve(a)))
				s.members = append(s.members, a)
			}
			names := []string{"S", "T"}
			left := 0
			for range 10 {
				seed := rand.Uint64()
				s.calm.Store(false)
				s.let = make(chan none)
				s.rage(t, seed, names, 12)
				s.calm.Store(true)
				close(s.let)
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
				s.countsAll(t, seed)
				s.books = nil
			}
			t.Logf("%d inits, %d rules hung, %d of 20 names had a synchronizer at the end of their storm", s.runs, s.hung, left)
		})
	}
}
