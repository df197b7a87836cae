package stage_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/queue"
)

// item is a command: the n-th of its key.
type item struct{ key, n int }

// oneIn reports whether a command is one of about one in n, which are spread at random.
func (i item) oneIn(n uint64) bool {
	return rand.New(rand.NewPCG(uint64(i.key), uint64(i.n))).Uint64()%n == 0
}

func keyOf(i item) int { return i.key }

// ledger is what the instances of all keys have seen, in order.
type ledger struct {
	mu      sync.Mutex
	seen    map[int][]int // by key
	working map[int]bool
	overlap atomic.Int64 // commands of one key that were handled at once
	started atomic.Int64
	stopped atomic.Int64
}

func newLedger() *ledger { return &ledger{seen: map[int][]int{}, working: map[int]bool{}} }

// account is the instance of one key.
type account struct {
	ledger *ledger
	key    int
	handle func(item, int) behaviour.Outcome // what to do with a command at a try; nil: OK
}

func (a *account) Start(context.Context) error { a.ledger.started.Add(1); return nil }

func (a *account) Stop() { a.ledger.stopped.Add(1) }

func (a *account) HandleCommand(ctx context.Context, i item) behaviour.Outcome {
	if i.key != a.key {
		panic("another key's instance")
	}
	l := a.ledger
	l.mu.Lock()
	if l.working[i.key] {
		l.overlap.Add(1)
	}
	l.working[i.key] = true
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.working[i.key] = false
		l.mu.Unlock()
	}()
	o := behaviour.OK(nil)
	if a.handle != nil {
		o = a.handle(i, behaviour.Attempt(ctx))
	}
	if o.Kind() == behaviour.KindOK {
		l.mu.Lock()
		l.seen[i.key] = append(l.seen[i.key], i.n)
		l.mu.Unlock()
	}
	return o
}

func (l *ledger) stage(handle func(item, int) behaviour.Outcome, opts ...stage.Option) *stage.Stage[item] {
	return stage.Keyed("keyed", keyOf, func(k int) *account { return &account{l, k, handle} }, opts...)
}

// feed submits n commands of each of keys keys, in random order of the keys, and waits for all.
func feed(t *testing.T, s *stage.Stage[item], p *pipeline.Pipeline, keys, n int) {
	t.Helper()
	var next []item
	left := make([]int, keys)
	for range keys * n {
		k := rand.IntN(keys)
		for left[k] == n {
			k = (k + 1) % keys
		}
		next = append(next, item{k, left[k]})
		left[k]++
	}
	for _, i := range next {
		require.NoError(t, s.Submit(t.Context(), i))
	}
	require.NoError(t, p.Drain(t.Context()))
}

func (l *ledger) requireOrder(t *testing.T, keys, n int) {
	t.Helper()
	require.Zero(t, l.overlap.Load(), "commands of one key overlapped")
	require.Len(t, l.seen, keys)
	for k, seen := range l.seen {
		require.Len(t, seen, n, "key %d", k)
		for i, got := range seen {
			require.Equal(t, i, got, "key %d: %v", k, seen)
		}
	}
}

func TestAKeyedStageKeepsTheOrderOfEachKey(t *testing.T) {
	crashing := func(i item, try int) behaviour.Outcome {
		if i.oneIn(7) && try < 2 {
			panic("crash")
		}
		return behaviour.OK(nil)
	}
	failing := func(i item, try int) behaviour.Outcome {
		if i.oneIn(5) && try < 3 {
			return behaviour.Error(errors.New("not yet"))
		}
		return behaviour.OK(nil)
	}
	slow := func(item, int) behaviour.Outcome {
		if rand.IntN(50) == 0 {
			time.Sleep(time.Millisecond)
		}
		return behaviour.OK(nil)
	}
	retry := stage.Retry(stage.RetryPolicy{Attempts: 5})
	later := stage.Retry(stage.RetryPolicy{Attempts: 5, Backoff: 100 * time.Microsecond})
	for name, c := range map[string]struct {
		handle func(item, int) behaviour.Outcome
		opts   []stage.Option
		parts  []pipeline.Part
	}{
		"as it is":                  {},
		"with slow handlers":        {handle: slow, opts: []stage.Option{stage.Workers(8, 8)}},
		"when handlers crash":       {handle: crashing, opts: []stage.Option{retry, stage.Workers(4, 4)}},
		"when retries wait":         {handle: crashing, opts: []stage.Option{later, stage.Workers(4, 4)}},
		"when handlers fail":        {handle: failing, opts: []stage.Option{retry, stage.Workers(4, 4)}},
		"when failures wait":        {handle: failing, opts: []stage.Option{later, stage.Workers(4, 4)}},
		"with a time limit":         {handle: failing, opts: []stage.Option{retry, stage.Timeout(time.Minute)}},
		"with a small queue":        {handle: failing, opts: []stage.Option{retry, stage.Capacity(3)}},
		"with batches of one":       {handle: crashing, opts: []stage.Option{retry, stage.Batch(1)}},
		"with lingering batches":    {opts: []stage.Option{stage.Linger(time.Millisecond)}},
		"with one worker":           {handle: failing, opts: []stage.Option{retry, stage.Workers(1, 1)}},
		"when few keys may be kept": {handle: slow, opts: []stage.Option{stage.Passivate(0, 5), stage.Workers(4, 4)}},
	} {
		for _, shared := range []bool{false, true} {
			if shared {
				name += ", in a group"
			}
			t.Run(name, func(t *testing.T) {
				l := newLedger()
				s := l.stage(c.handle, c.opts...)
				parts := append(slices.Clip(c.parts), pipeline.Part(s))
				if shared {
					parts = append(parts, pipeline.Group("g", 3, 3, s))[len(c.parts)+1:]
				}
				p := run(t, parts...)
				feed(t, s, p, 20, 100)
				l.requireOrder(t, 20, 100)
			})
		}
	}
}

func TestAKeyedStageKeepsTheOrderUnderEachPolicyAndWhileTheyAreSwapped(t *testing.T) {
	l := newLedger()
	s := l.stage(func(i item, try int) behaviour.Outcome {
		switch {
		case i.oneIn(11) && try < 2:
			panic("crash")
		case i.oneIn(13) && try < 2:
			return behaviour.Error(errors.New("not yet"))
		default:
			return behaviour.OK(nil)
		}
	}, stage.Retry(stage.RetryPolicy{Attempts: 3}), stage.Workers(1, 8))
	before := stage.Map("before", func(_ context.Context, i item) (item, error) { return i, nil }, stage.Workers(1, 1))
	p := run(t, before.To(s))
	ctx, stop := context.WithCancel(t.Context())
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for ctx.Err() == nil {
			for _, name := range admitting() {
				pol, err := policy.ByName(name)
				assert.NoError(t, err)
				_ = p.SetPolicy(pol)
				time.Sleep(time.Millisecond)
			}
		}
	})
	const keys, n = 50, 200
	for i := range n {
		for k := range keys {
			submitUnder(t, before.Stage, item{k, i})
		}
	}
	stop()
	swapping.Wait()
	require.NoError(t, p.Drain(t.Context()))
	l.requireOrder(t, keys, n)
}

func TestAHotKeyHoldsUpNoOther(t *testing.T) {
	l := newLedger()
	hold := make(chan struct{})
	s := l.stage(func(i item, _ int) behaviour.Outcome {
		if i.key == 0 {
			<-hold
		}
		return behaviour.OK(nil)
	}, stage.Workers(2, 2))
	p := run(t, s)
	for n := range 250 {
		require.NoError(t, s.Submit(t.Context(), item{0, n}))
	}
	for n := range 250 {
		_, err := stage.Call[any](t.Context(), s, item{1 + n%10, n / 10})
		require.NoError(t, err)
	}
	close(hold)
	require.NoError(t, p.Drain(t.Context()))
	require.Len(t, l.seen[0], 250)
	require.Zero(t, l.overlap.Load())
}

func TestAKeysInstanceIsReplacedAfterACrash(t *testing.T) {
	var made atomic.Int64
	l := newLedger()
	s := stage.Keyed("keyed", keyOf, func(k int) *account {
		made.Add(1)
		return &account{l, k, func(i item, _ int) behaviour.Outcome {
			if i.n == 1 {
				panic("crash")
			}
			return behaviour.OK(nil)
		}}
	})
	p := run(t, s)
	for n := range 3 {
		for k := range 2 {
			_, err := stage.Call[any](t.Context(), s, item{k, n})
			require.Equal(t, n == 1, stage.Crashed(err), "%v", err)
		}
	}
	require.Equal(t, int64(4), made.Load())
	require.Equal(t, int64(2), l.stopped.Load())
	require.Equal(t, 2, s.Snapshot().Workers.Keys)
	require.NoError(t, p.Stop(t.Context()))
	require.Equal(t, int64(4), l.stopped.Load(), "each instance is stopped once")
	require.Equal(t, l.started.Load(), l.stopped.Load())
}

func TestIdleInstancesArePassivated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		s := l.stage(nil, stage.Passivate(time.Minute, 0))
		p, err := pipeline.New("p", s, quiet)
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		for k := range 100 {
			_, err := stage.Call[any](t.Context(), s, item{k, 0})
			require.NoError(t, err)
		}
		for range 4 {
			time.Sleep(30 * time.Second)
			_, err := stage.Call[any](t.Context(), s, item{7, 0})
			require.NoError(t, err)
		}
		assert.Equal(t, 1, s.Snapshot().Workers.Keys)
		assert.Equal(t, uint64(99), s.Snapshot().Counts.Passivated)
		assert.Equal(t, int64(99), l.stopped.Load())
		time.Sleep(80 * time.Second)
		assert.Equal(t, 0, s.Snapshot().Workers.Keys)
		require.NoError(t, p.Stop(t.Context()))
		assert.Equal(t, int64(100), l.stopped.Load())
	})
}

func TestTheNumberOfInstancesIsBounded(t *testing.T) {
	l := newLedger()
	s := l.stage(nil, stage.Passivate(0, 10), stage.Workers(4, 4))
	p := run(t, s)
	for n := range 5 {
		for k := range 200 {
			require.NoError(t, s.Submit(t.Context(), item{k, n}))
		}
		assert.LessOrEqual(t, s.Snapshot().Workers.Keys, 10+4)
	}
	require.NoError(t, p.Drain(t.Context()))
	l.requireOrder(t, 200, 5)
	require.NoError(t, p.Stop(t.Context()))
	require.Equal(t, l.started.Load(), l.stopped.Load())
}

// saver is an instance whose state outlives it.
type saver struct {
	store *sync.Map
	key   int
	sum   int
}

func (s *saver) Start(context.Context) error {
	if v, ok := s.store.Load(s.key); ok {
		s.sum = v.(int)
	}
	return nil
}

func (s *saver) Stop() {
	time.Sleep(10 * time.Microsecond)
	s.store.Store(s.key, s.sum)
}

func (s *saver) HandleCommand(context.Context, item) behaviour.Outcome {
	s.sum++
	return behaviour.OK(s.sum)
}

func TestAStateThatIsSavedInStopIsFoundInStart(t *testing.T) {
	var store sync.Map
	s := stage.Keyed("keyed", keyOf, func(k int) *saver { return &saver{store: &store, key: k} },
		stage.Passivate(time.Millisecond, 3), stage.Workers(4, 4))
	p := run(t, s)
	for range 100 {
		for k := range 20 {
			require.NoError(t, s.Submit(t.Context(), item{key: k}))
		}
	}
	require.NoError(t, p.Drain(t.Context()))
	require.NoError(t, p.Stop(t.Context()))
	for k := range 20 {
		sum, _ := store.Load(k)
		require.Equal(t, 100, sum, "key %d", k)
	}
}

func TestWhatIsWrongWithAKeyedStageIsReported(t *testing.T) {
	fine := func(k int) *account { return &account{key: k} }
	for name, c := range map[string]struct {
		make func() *stage.Stage[item]
		want string
	}{
		"no key":       {func() *stage.Stage[item] { return stage.Keyed[item, int]("k", nil, fine) }, "the function for the key is nil"},
		"no factory":   {func() *stage.Stage[item] { return stage.Keyed[item, int, *account]("k", keyOf, nil) }, "the factory is nil"},
		"a discipline": {func() *stage.Stage[item] { return stage.Keyed("k", keyOf, fine, stage.Discipline(queue.LIFO{})) }, "an order of its own"},
		"a key with more places than there are": {func() *stage.Stage[item] {
			return stage.Keyed("k", keyOf, fine, stage.Capacity(4), stage.KeyCapacity(5))
		}, "KeyCapacity(5): must be at most the capacity, 4"},
		"no place for a key": {func() *stage.Stage[item] { return stage.Keyed("k", keyOf, fine, stage.KeyCapacity(0)) }, "KeyCapacity(0): must be at least 1"},
		"a negative time":    {func() *stage.Stage[item] { return stage.Keyed("k", keyOf, fine, stage.Passivate(-1, 0)) }, "at least 1ms"},
		"a negative number":  {func() *stage.Stage[item] { return stage.Keyed("k", keyOf, fine, stage.Passivate(0, -1)) }, "must not be negative"},
		"Passivate elsewhere": {func() *stage.Stage[item] {
			return stage.Func("k", func(context.Context, item) behaviour.Outcome { return behaviour.OK(nil) }, stage.Passivate(0, 1))
		}, "is for keyed stages"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pipeline.New("p", c.make(), quiet)
			require.ErrorContains(t, err, c.want)
		})
	}
	s := stage.Keyed("k", keyOf, fine)
	_, err := s.Upgrade(t.Context(), func() behaviour.Behaviour[item] { return &account{} })
	require.ErrorContains(t, err, "cannot be upgraded")
}

func TestAKeyThatPanicsAndAFactoryThatFailsCrashTheirCommand(t *testing.T) {
	s := stage.Keyed("keyed", func(i item) int {
		if i.key < 0 {
			panic("no key")
		}
		return i.key
	}, func(k int) *account {
		if k == 0 {
			return nil
		}
		return &account{newLedger(), k, nil}
	})
	run(t, s)
	for _, i := range []item{{-1, 0}, {1, 0}, {0, 0}, {2, 0}, {-2, 0}, {1, 0}} {
		_, err := stage.Call[any](t.Context(), s, i)
		require.Equal(t, i.key < 1, stage.Crashed(err), "%v: %v", i, err)
	}
	_, err := stage.Call[any](t.Context(), s, item{0, 0})
	require.ErrorContains(t, err, "the factory returned nil for key 0")
}

func TestAStuckHandlersKeyGetsAFreshInstance(t *testing.T) {
	hold := make(chan struct{})
	var made atomic.Int64
	l := newLedger()
	s := stage.Keyed("keyed", keyOf, func(k int) *account {
		made.Add(1)
		return &account{l, k, func(i item, _ int) behaviour.Outcome {
			if i.n == 0 {
				<-hold
			}
			return behaviour.OK(nil)
		}}
	}, stage.Timeout(500*time.Millisecond), stage.Grace(time.Millisecond))
	p := run(t, s)
	_, err := stage.Call[any](t.Context(), s, item{1, 0})
	require.ErrorIs(t, err, stage.ErrStuck)
	_, err = stage.Call[any](t.Context(), s, item{1, 1})
	require.NoError(t, err)
	require.Equal(t, int64(2), made.Load())
	close(hold)
	require.NoError(t, p.Stop(t.Context()))
	require.Eventually(t, func() bool { return l.stopped.Load() == 2 }, 5*time.Second, time.Millisecond)
}

// tally counts the visits of one host.
type visits struct{ n int }

func (v *visits) HandleCommand(_ context.Context, host string) behaviour.Outcome {
	v.n++
	return behaviour.OK(fmt.Sprintf("%s %d", host, v.n))
}

// Each key has an instance of its own, which handles the key's commands in order. It needs no lock.
func ExampleKeyed() {
	count := stage.Keyed("count", func(host string) string { return host }, func(string) *visits { return new(visits) }, stage.KeyCapacity(100))
	defer must(count)()

	for _, host := range []string{"a", "b", "a", "a", "b"} {
		fmt.Println(stage.Call[string](context.Background(), count, host))
	}
	// Output:
	// a 1 <nil>
	// b 1 <nil>
	// a 2 <nil>
	// a 3 <nil>
	// b 2 <nil>
}

// submitUnder submits a command as often as the policy refuses it: seda:cruz discards while 100 commands wait.
func submitUnder[C any](t *testing.T, s *stage.Stage[C], cmd C) {
	t.Helper()
	for {
		err := s.Submit(t.Context(), cmd)
		if !errors.Is(err, stage.ErrPolicy) {
			require.NoError(t, err)
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
}
