package stage_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/overflow"
	"github.com/golda-dev/golda/stage/queue"
	"github.com/golda-dev/golda/stage/reason"
)

func TestGetsThatWereGivenUpDoNotKeepPutsOutOfTheBuffer(t *testing.T) {
	for _, rule := range []overflow.Rule{overflow.Wait, overflow.Reject, overflow.DropOldest} {
		synctest.Test(t, func(t *testing.T) {
			const capacity = 4
			b := buffer(2, stage.Capacity(capacity), stage.Overflow(rule))
			p, err := pipeline.New("test", b, quiet)
			require.NoError(t, err)
			require.NoError(t, p.Start(t.Context()))
			var gone sync.WaitGroup
			for range capacity {
				gone.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
					defer cancel()
					_, err := stage.Call[any](ctx, b, any(get{}))
					assert.ErrorIs(t, err, context.DeadlineExceeded)
				})
			}
			gone.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			began := time.Now()
			_, err = stage.Call[any](ctx, b, any(put{7}))
			require.NoError(t, err)
			require.Zero(t, time.Since(began), "the slots are needed")
			n, err := stage.Call[any](ctx, b, any(get{}))
			require.NoError(t, err)
			require.Equal(t, 7, n)
			s := b.Snapshot()
			require.True(t, s.Balanced())
			require.EqualValues(t, capacity, s.Counts.Errors)
			require.EqualValues(t, 2, s.Counts.OK)
			require.NoError(t, p.Stop(ctx))
		})
	}
}

// first is the command by which a stage gets busy, in tests in which the others wait.
var first = put{-1}

// halt is a stage, and what makes its commands wait for good.
type halt struct {
	open    atomic.Bool
	release chan struct{}
	mu      sync.Mutex
	handled []int
}

// handle waits in the first command.
func (h *halt) handle(_ context.Context, c put) behaviour.Outcome {
	if c == first {
		<-h.release
		return behaviour.OK(nil)
	}
	return h.done(c)
}

func (h *halt) done(c put) behaviour.Outcome {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handled = append(h.handled, c.n)
	return behaviour.OK(nil)
}

// accountOf is a behaviour of one key whose handlers suspend.
type accountOf struct{ h *halt }

func (a accountOf) HandleSuspending(c behaviour.Suspender, cmd put) behaviour.Outcome {
	if cmd == first {
		if _, err := coroutine.Await(c, func(context.Context) (int, error) { <-a.h.release; return 0, nil }); err != nil {
			return behaviour.Error(err)
		}
		return behaviour.OK(nil)
	}
	return a.h.done(cmd)
}

func (a accountOf) HandleCommand(context.Context, put) behaviour.Outcome { panic("it suspends") }

func one(put) int { return 1 }

// waits are stages in which a turn may be far away.
var waits = map[string]struct {
	stage   func(h *halt, opts ...stage.Option) *stage.Stage[put]
	busy    bool // the first command makes the others wait
	rated   bool
	paused  bool
	ordered bool // all commands that were not given up are handled in order
	group   bool
}{
	"held by a guard": {ordered: true, stage: func(h *halt, opts ...stage.Option) *stage.Stage[put] {
		return stage.Func("s", h.handle, append(opts, stage.Workers(1, 1), stage.Guard("put", func(count) bool { return h.open.Load() }))...)
	}},
	"over the rate": {busy: true, rated: true, stage: func(h *halt, opts ...stage.Option) *stage.Stage[put] {
		return stage.Func("s", h.handle, append(opts, stage.Rate(1, time.Minute, 1))...)
	}},
	"over the rate of their key": {busy: true, rated: true, stage: func(h *halt, opts ...stage.Option) *stage.Stage[put] {
		return stage.Func("s", h.handle, append(opts, stage.RateBy(one, 1, time.Minute, 1))...)
	}},
	"behind a key whose handler is suspended": {busy: true, ordered: true, stage: func(h *halt, opts ...stage.Option) *stage.Stage[put] {
		return stage.Keyed("s", one, func(int) accountOf { return accountOf{h} }, append(opts, stage.KeyCapacity(6))...)
	}},
	"behind a key whose handler does not return": {busy: true, ordered: true, stage: func(h *halt, opts ...stage.Option) *stage.Stage[put] {
		return stage.Keyed("s", one, func(int) behaviour.Behaviour[put] { return behaviour.Func[put](h.handle) }, append(opts, stage.KeyCapacity(6))...)
	}},
	"behind a worker whose handler does not return": {busy: true, ordered: true, stage: func(h *halt, opts ...stage.Option) *stage.Stage[put] {
		return stage.Func("s", h.handle, append(opts, stage.Workers(1, 1))...)
	}},
	"in a stack behind such a worker": {busy: true, stage: func(h *halt, opts ...stage.Option) *stage.Stage[put] {
		return stage.Func("s", h.handle, append(opts, stage.Workers(1, 1), stage.Discipline(queue.LIFO{}))...)
	}},
	"by priority behind such a worker": {busy: true, stage: func(h *halt, opts ...stage.Option) *stage.Stage[put] {
		return stage.Func("s", h.handle, append(opts, stage.Workers(1, 1), stage.Discipline(queue.Priority{}))...)
	}},
	"in an ordered stage": {busy: true, ordered: true, stage: func(h *halt, opts ...stage.Option) *stage.Stage[put] {
		return stage.Func("s", h.handle, append(opts, stage.Workers(1, 1), stage.Ordered())...)
	}},
	"in a group whose worker is busy": {busy: true, ordered: true, group: true, stage: func(h *halt, opts ...stage.Option) *stage.Stage[put] {
		return stage.Func("s", h.handle, opts...)
	}},
	"in a paused stage": {paused: true, stage: func(h *halt, opts ...stage.Option) *stage.Stage[put] {
		return stage.Func("s", h.handle, opts...)
	}},
}

func TestACommandWhoseCallerHasGoneOrWhoseTimeIsOverDoesNotWaitForItsTurn(t *testing.T) {
	const dead, capacity = 4, 6
	type submit func(t *testing.T, s *stage.Stage[put], n int) *stage.Ticket
	live := func(t *testing.T, s *stage.Stage[put], n int) {
		t.Helper()
		require.NoError(t, s.Submit(t.Context(), put{n}))
	}
	ends := map[string]struct {
		opts   []stage.Option
		submit submit
		shed   bool // as expired; otherwise they fail
		all    bool // all that wait, the live ones too
	}{
		"caller": {submit: func(t *testing.T, s *stage.Stage[put], n int) *stage.Ticket {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			t.Cleanup(cancel)
			ticket, err := s.Ask(ctx, put{n})
			require.NoError(t, err)
			return ticket
		}},
		"deadline": {shed: true, submit: func(t *testing.T, s *stage.Stage[put], n int) *stage.Ticket {
			t.Helper()
			ctx, cancel := stage.WithDeadline(t.Context(), time.Now().Add(time.Second))
			t.Cleanup(cancel)
			require.NoError(t, s.Submit(ctx, put{n}))
			return nil
		}},
		"time to live": {opts: []stage.Option{stage.TTL(time.Second)}, shed: true, all: true, submit: func(t *testing.T, s *stage.Stage[put], n int) *stage.Ticket {
			t.Helper()
			ticket, err := s.Ask(t.Context(), put{n})
			require.NoError(t, err)
			return ticket
		}},
	}
	for name, w := range waits {
		for way, end := range ends {
			t.Run(name+"/"+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h := &halt{release: make(chan struct{})}
					s := w.stage(h, append([]stage.Option{stage.Capacity(capacity)}, end.opts...)...)
					var letters []stage.DeadLetter
					parts := []pipeline.Part{s, quiet, pipeline.DeadLetters(func(l stage.DeadLetter) { letters = append(letters, l) })}
					if w.group {
						parts = append(parts, pipeline.Group("g", 1, 1, s))
					}
					p, err := pipeline.New("test", parts...)
					require.NoError(t, err)
					require.NoError(t, p.Start(t.Context()))
					var want []int
					if w.busy {
						live(t, s, first.n)
						synctest.Wait()
					}
					if w.paused {
						require.NoError(t, p.Pause(s))
					}
					var tickets []*stage.Ticket
					for n := range capacity {
						if n%3 < 2 {
							tickets = append(tickets, end.submit(t, s, n))
							continue
						}
						live(t, s, n)
						if !end.all {
							want = append(want, n)
						}
					}
					require.Len(t, tickets, dead)
					time.Sleep(time.Second - time.Millisecond)
					synctest.Wait()
					require.Equal(t, capacity, s.Snapshot().Queue.Queued, "the time is not over")
					time.Sleep(time.Second / 2)
					synctest.Wait()
					snap := s.Snapshot()
					require.Equal(t, len(want), snap.Queue.Queued)
					require.True(t, p.Snapshot().Balanced())
					require.Empty(t, h.handled)
					gone := uint64(capacity - len(want))
					if end.shed {
						require.EqualValues(t, gone, len(letters)+int(p.Snapshot().Answered))
						require.Equal(t, gone, snap.Reasons.Shed[reason.Expired])
					} else {
						require.Empty(t, letters)
						require.Equal(t, gone, snap.Counts.Errors)
					}
					for _, l := range letters {
						require.Equal(t, reason.Expired, l.Reason)
						require.ErrorIs(t, l.Err, stage.ErrExpired)
					}
					for _, ticket := range tickets {
						switch {
						case ticket == nil:
						case end.shed:
							require.ErrorIs(t, ticket.Err(), stage.ErrExpired)
						default:
							require.ErrorIs(t, ticket.Err(), context.DeadlineExceeded)
						}
					}
					if !end.all || !w.rated { // otherwise these expire, too
						for n := capacity; len(want) < capacity; n++ { // into their slots
							live(t, s, n)
							want = append(want, n)
						}
					}
					h.open.Store(true)
					close(h.release)
					require.NoError(t, p.Pause(s))
					require.NoError(t, p.Resume(s)) // which has guards evaluated again
					require.NoError(t, p.Stop(t.Context()))
					if w.ordered {
						require.Equal(t, want, h.handled)
					} else {
						require.ElementsMatch(t, want, h.handled)
					}
					require.True(t, p.Snapshot().Balanced())
				})
			})
		}
	}
}

func TestACommandWhoseCallerHasGoneDoesNotWaitForItsNextTry(t *testing.T) {
	kinds := map[string]func(f func(context.Context, put) behaviour.Outcome, opts ...stage.Option) *stage.Stage[put]{
		"plain": func(f func(context.Context, put) behaviour.Outcome, opts ...stage.Option) *stage.Stage[put] {
			return stage.Func("s", f, opts...)
		},
		"keyed": func(f func(context.Context, put) behaviour.Outcome, opts ...stage.Option) *stage.Stage[put] {
			return stage.Keyed("s", one, func(int) behaviour.Behaviour[put] { return behaviour.Func[put](f) }, opts...)
		},
	}
	for kind, newStage := range kinds {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(func(_ context.Context, c put) behaviour.Outcome {
					if c == first {
						return behaviour.Error(errors.New("no"))
					}
					return behaviour.OK(nil)
				}, stage.Capacity(1), stage.Retry(stage.RetryPolicy{Attempts: 2, Backoff: 24 * time.Hour, Max: 24 * time.Hour}))
				p, err := pipeline.New("test", s, quiet)
				require.NoError(t, err)
				require.NoError(t, p.Start(t.Context()))
				ctx, cancel := context.WithCancelCause(t.Context())
				ticket, err := s.Ask(ctx, first)
				require.NoError(t, err)
				synctest.Wait()
				require.Equal(t, 1, s.Snapshot().Queue.Delayed)
				enough := errors.New("enough")
				cancel(enough)
				began := time.Now()
				_, err = stage.Call[any](t.Context(), s, put{1})
				require.NoError(t, err)
				require.Less(t, time.Since(began), time.Second)
				require.ErrorIs(t, ticket.Err(), enough)
				require.Zero(t, s.Snapshot().Queue.Delayed)
				require.NoError(t, p.Stop(t.Context()))
				require.Less(t, time.Since(began), time.Second)
			})
		})
	}
}

func TestADrainDoesNotWaitForHeldCommandsWhoseCallersHaveGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stage.Sink("s", func(context.Context, put) error { return nil }, stage.Guard("put", func(count) bool { return false }))
		p, err := pipeline.New("test", s, quiet)
		require.NoError(t, err)
		require.NoError(t, p.Start(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err = s.Ask(ctx, put{})
		require.NoError(t, err)
		began := time.Now()
		require.NoError(t, p.Stop(t.Context()))
		require.Equal(t, time.Hour, time.Since(began).Round(time.Second))
	})
}
