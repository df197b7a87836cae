package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/coordination/synchronizer"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// sheet and label are the commands of two stages that share a printer.
type (
	sheet struct{ n int }
	label struct{}
)

// on is an event of all commands of a method.
func on(of synchronizer.Member, method string) synchronizer.Event {
	return synchronizer.Event{Of: of, Method: method}
}

// exclusive counts how many handlers are inside.
type exclusive struct{ inside, most atomic.Int32 }

func (x *exclusive) enter() {
	now := x.inside.Add(1)
	for most := x.most.Load(); now > most && !x.most.CompareAndSwap(most, now); most = x.most.Load() {
		runtime.Gosched()
	}
}

func (x *exclusive) leave() { x.inside.Add(-1) }

// printer is a stage whose handlers enter and leave.
func printer[C any](name string, x *exclusive, opts ...stage.Option) *stage.Stage[C] {
	return stage.Func(name, func(_ context.Context, _ C) behaviour.Outcome {
		x.enter()
		defer x.leave()
		time.Sleep(time.Millisecond)
		return behaviour.OK(nil)
	}, opts...)
}

func running(t *testing.T, parts ...pipeline.Part) *pipeline.Pipeline {
	t.Helper()
	p, err := pipeline.New("test", append(parts, quiet)...)
	require.NoError(t, err)
	require.NoError(t, p.Start(context.Background()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		assert.NoError(t, p.Stop(ctx))
		assert.True(t, p.Snapshot().Balanced())
	})
	return p
}

func TestTwoStagesPrintOneAtATimeAndNeitherIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x exclusive
		a, b := printer[sheet]("a", &x), printer[label]("b", &x)
		running(t, a, b, pipeline.Synchronize("printer", func(s *synchronizer.Synchronizer) {
			s.AtMost(1, on(a, "sheet"), on(b, "label"))
		}))
		for i := range 100 {
			require.NoError(t, a.Submit(t.Context(), sheet{i}))
		}
		synctest.Wait()
		begin := time.Now()
		_, err := stage.Call[any](t.Context(), b, label{})
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(begin), 3*time.Millisecond, "the label does not wait for all sheets")
		held := b.Snapshot().Methods[0]
		require.Positive(t, held.HeldTime)
		require.Equal(t, held.HeldTime, held.HeldTimeBy["printer: AtMost(1)"])
		require.Equal(t, held.HeldTime, held.HeldDuring["a.sheet"])
		for range 100 {
			_, err := stage.Call[any](t.Context(), b, label{})
			require.NoError(t, err)
		}
		require.EqualValues(t, 1, x.most.Load())
	})
}

func TestEachStageRunsOnceInARound(t *testing.T) {
	var mu sync.Mutex
	var order []string
	parts := []pipeline.Part{quiet}
	var stages []*stage.Stage[sheet]
	for i := range 4 {
		name := fmt.Sprint("s", i)
		s := stage.Func(name, func(context.Context, sheet) behaviour.Outcome {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, name)
			return behaviour.OK(nil)
		})
		stages, parts = append(stages, s), append(parts, s)
	}
	running(t, append(parts, pipeline.Synchronize("round", func(s *synchronizer.Synchronizer) {
		var events []synchronizer.Event
		for _, st := range stages {
			events = append(events, on(st, "sheet"))
		}
		s.AtMost(1, events...)
		s.OncePerRound(events...)
	}))...)
	const rounds = 50
	var tickets []func() error
	for _, s := range stages {
		for range rounds {
			f, err := s.Ask(t.Context(), sheet{})
			require.NoError(t, err)
			tickets = append(tickets, func() error { _, err := f.Wait(t.Context()); return err })
		}
	}
	for _, wait := range tickets {
		require.NoError(t, wait())
	}
	for r := range rounds {
		seen := map[string]bool{}
		for _, name := range order[4*r : 4*r+4] {
			seen[name] = true
		}
		require.Len(t, seen, 4, "round %d: %v", r, order[4*r:4*r+4])
	}
}

func TestBothOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ran [2]atomic.Int32
		counting := func(i int) *stage.Stage[sheet] {
			return stage.Func(fmt.Sprint("s", i), func(context.Context, sheet) behaviour.Outcome {
				ran[i].Add(1)
				return behaviour.OK(nil)
			})
		}
		a, b := counting(0), counting(1)
		running(t, a, b, pipeline.Synchronize("both", func(s *synchronizer.Synchronizer) {
			s.Atomic(on(a, "sheet"), on(b, "sheet"))
		}))
		for i := range 10 {
			require.NoError(t, a.Submit(t.Context(), sheet{i}))
		}
		synctest.Wait()
		require.Zero(t, ran[0].Load())
		require.Equal(t, "both: Atomic", a.Snapshot().Methods[0].HeldBy)
		for i := range 10 {
			require.NoError(t, b.Submit(t.Context(), sheet{i}))
			synctest.Wait()
			require.EqualValues(t, i+1, ran[0].Load())
			require.EqualValues(t, i+1, ran[1].Load())
		}
	})
}

// fork is what a philosopher asks for, or puts down.
type (
	pickup  struct{ by int }
	putdown struct{ by int }
)

func TestPhilosophersDine(t *testing.T) {
	const n, meals = 5, 40
	var holder [n]atomic.Int32
	var forks [n]*stage.Stage[any]
	parts := []pipeline.Part{quiet}
	for i := range n {
		holder[i].Store(-1)
		forks[i] = stage.Func(fmt.Sprint("fork", i), func(_ context.Context, cmd any) behaviour.Outcome {
			switch c := cmd.(type) {
			case pickup:
				if !holder[i].CompareAndSwap(-1, int32(c.by)) {
					return behaviour.Error(errors.New("the fork is taken"))
				}
			case putdown:
				holder[i].Store(-1)
			}
			return behaviour.OK(nil)
		}, stage.Guard("pickup", func(count func(string) guard.Counters) bool {
			return count("pickup").Accepted == count("putdown").Completed
		}))
		parts = append(parts, forks[i])
	}
	for i := range n {
		parts = append(parts, pipeline.Synchronize(fmt.Sprint("pickup", i), func(s *synchronizer.Synchronizer) {
			mine := func(r guard.Request) bool { return synchronizer.Args[pickup](r).by == i }
			s.Atomic(synchronizer.Event{Of: forks[i], Method: "pickup", If: mine},
				synchronizer.Event{Of: forks[(i+1)%n], Method: "pickup", If: mine})
		}))
	}
	running(t, parts...)
	var eaten [n]int
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			left, right := forks[i], forks[(i+1)%n]
			for range meals {
				l, err := left.Ask(t.Context(), pickup{i})
				assert.NoError(t, err)
				r, err := right.Ask(t.Context(), pickup{i})
				assert.NoError(t, err)
				_, err = l.Wait(t.Context())
				assert.NoError(t, err)
				_, err = r.Wait(t.Context())
				assert.NoError(t, err)
				eaten[i]++
				_, err = stage.Call[any](t.Context(), left, any(putdown{i}))
				assert.NoError(t, err)
				_, err = stage.Call[any](t.Context(), right, any(putdown{i}))
				assert.NoError(t, err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, [n]int{meals, meals, meals, meals, meals}, eaten)
}

// other is a member that is no stage.
type other struct{}

func (other) Name() string { return "other" }

func TestNewSaysWhatASynchronizerCannotDo(t *testing.T) {
	ok := func(context.Context, sheet) behaviour.Outcome { return behaviour.OK(nil) }
	a, b := stage.Func("a", ok), stage.Func("b", ok)
	absent := stage.Func("absent", ok)
	keyed := stage.Keyed("keyed", func(s sheet) int { return s.n }, func(int) behaviour.Func[sheet] { return ok })
	ordered := stage.Func("ordered", ok, stage.Ordered())
	linger := stage.Func("linger", ok, stage.Linger(time.Second))
	_, err := pipeline.New("p", a, b, keyed, ordered, linger,
		pipeline.Synchronize("", func(*synchronizer.Synchronizer) {}),
		pipeline.Synchronize("nil", nil),
		pipeline.Synchronize("none", func(*synchronizer.Synchronizer) {}),
		pipeline.Synchronize("twice", func(s *synchronizer.Synchronizer) { s.AtMost(1, on(a, "sheet")) }),
		pipeline.Synchronize("twice", func(s *synchronizer.Synchronizer) { s.AtMost(1, on(a, "sheet")) }),
		pipeline.Synchronize("faults", func(s *synchronizer.Synchronizer) {
			s.AtMost(0, on(a, "sheet"))
			s.Constrain(b, "sheet", nil)
		}),
		pipeline.Synchronize("members", func(s *synchronizer.Synchronizer) {
			s.AtMost(1, on(absent, "sheet"), on(other{}, "sheet"), on(keyed, "sheet"), on(ordered, "sheet"), on(linger, "sheet"), on(a, "label"))
		}),
		pipeline.Synchronize("mixed", func(s *synchronizer.Synchronizer) { s.Atomic(on(a, "sheet"), on(b, "sheet")) }),
	)
	require.Error(t, err)
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, `pipeline "p": `)
	}
	require.Equal(t, []string{
		`Synchronize(""): synchronizer: it has no name`,
		`Synchronize("nil"): init is nil`,
		`Synchronize("none"): it has no rules`,
		`Synchronize("twice"): there is another synchronizer of that name`,
		`Synchronize("faults"): AtMost: 0: at least one must be allowed`,
		`Synchronize("faults"): Constrain of "sheet" of "b": the function is nil`,
		`Synchronize("members"): names stage "absent", which is not part of this pipeline`,
		`Synchronize("members"): names "other", a pipeline_test.other, which is no stage`,
		`Synchronize("members"): "label" of stage "a": its commands are of the method "sheet"`,
		`Synchronize("members"): "sheet" of stage "keyed": a keyed stage handles one command of each key at a time, and takes no guards`,
		`Synchronize("members"): "sheet" of stage "linger": a stage with guards starts one command at a time, and takes no Linger`,
		`Synchronize("members"): "sheet" of stage "ordered": a stage with guards has an order of its own, and takes no Ordered`,
		`Synchronize("mixed"): "sheet" of stage "a" has an atomic rule, and a constraint of Synchronize("twice"): it can have one kind`,
	}, lines)
	p, err := pipeline.New("p", a, b) // the parts are as they were
	require.NoError(t, err)
	require.NoError(t, p.Start(t.Context()))
	require.Nil(t, a.Snapshot().Methods)
	require.ErrorContains(t, p.Add(t.Context(), pipeline.Synchronize("late", func(*synchronizer.Synchronizer) {})), "Synchronize: is for New")
	require.NoError(t, p.Stop(t.Context()))
}
