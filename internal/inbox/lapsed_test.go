package inbox

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/internal/command"
)

// callers are the callers of a model's commands, each with a context of its own.
type callers struct {
	cancel  map[int]context.CancelFunc
	givenUp map[int]bool
	mu      *sync.Mutex  // guards settled
	settled map[int]bool // commands that the inbox has ended because their callers have given up, and that were not asked for yet
}

func newCallers() callers {
	return callers{map[int]context.CancelFunc{}, map[int]bool{}, new(sync.Mutex), map[int]bool{}}
}

// envelope returns a command whose caller may give up.
func (c *callers) envelope(id int) command.Envelope {
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel[id] = cancel
	ticket := command.NewTicket(func(_ any, err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if errors.Is(err, context.Canceled) {
			c.settled[id] = true
		}
	})
	return command.Envelope{Load: id, From: ticket.Asked(ctx, nil)}
}

// giveUp has the caller of one of the last commands give up.
func (c *callers) giveUp(t *rapid.T) {
	if len(c.cancel) == 0 {
		t.Skip()
	}
	ids := slices.Sorted(maps.Keys(c.cancel))
	id := ids[len(ids)-1-rapid.IntRange(0, min(len(ids)-1, 9)).Draw(t, "back")]
	c.givenUp[id] = true
	c.cancel[id]()
}

// gone returns the commands that the inbox has ended since the last time because their callers have given up.
func (c *callers) gone(t *rapid.T) map[int]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	gone := maps.Clone(c.settled)
	clear(c.settled)
	for id := range gone {
		if !c.givenUp[id] {
			t.Fatalf("%d has ended, and its caller has not given up", id)
		}
	}
	return gone
}

// asked is a context that calls a function when it is asked for its end.
type asked struct {
	context.Context
	err func() error
}

func (a asked) Err() error { return a.err() }

// noTimer is a timer that does not fire.
type noTimer struct{}

func (noTimer) Stop() bool               { return true }
func (noTimer) Reset(time.Duration) bool { return true }

// Each answer of a context takes 100 ns, and a submitter comes every 10 µs to a queue that is full of live commands.
func TestLooksTakeABoundedShareOfTheTime(t *testing.T) {
	const capacity, each, lasts = 10_000, 100 * time.Nanosecond, 2 * time.Second
	var now, looked time.Duration
	in := New(Config{Name: "s", Capacity: capacity, Batch: 1, Overflow: Reject})
	(&Pipeline{
		Clock:     func() int64 { return int64(now) },
		AfterFunc: func(time.Duration, func()) Timer { return noTimer{} },
		Quiet:     make(chan struct{}, 1),
	}).Attach(in)
	in.Phases().Open()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	live := asked{ctx, func() error { now += each; looked += each; return nil }}
	submit := func() error {
		return in.Submit(t.Context(), &command.Envelope{Load: 1, From: command.NewTicket(nil).Asked(live, nil)})
	}
	for range capacity {
		require.NoError(t, submit())
	}
	now, looked = 0, 0
	for now < lasts {
		now += 10 * time.Microsecond
		require.ErrorIs(t, submit(), ErrFull)
	}
	require.Positive(t, looked)
	require.Less(t, looked, lasts/lookShare+2*capacity*each)
}

func TestLooksSurviveAContextThatDoesNotAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		fault func() error
		ended int // of two others, one of which is asked before
	}{
		"it panics":             {func() error { panic("no answer") }, 2},
		"it ends the goroutine": {func() error { runtime.Goexit(); return nil }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := New(Config{Name: "s", Capacity: 3, Batch: 1})
				newPipeline().Attach(in)
				in.Phases().Open()
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 3)
				ask := func(ctx context.Context) {
					ticket := command.NewTicket(func(_ any, err error) { ended <- err })
					require.NoError(t, in.Submit(t.Context(), &command.Envelope{Load: 1, From: ticket.Asked(ctx, nil)}))
				}
				var broken atomic.Bool
				ask(ctx)
				ask(asked{ctx, func() error {
					if broken.Load() {
						return test.fault()
					}
					return nil
				}})
				ask(ctx)
				broken.Store(true)
				cancel()
				time.Sleep(time.Second)
				require.Len(t, ended, test.ended)
				broken.Store(false)
				time.Sleep(time.Second)
				require.Len(t, ended, 2)
				require.Equal(t, 1, in.Len())
				in.Phases().Halt()()
			})
		})
	}
}

func BenchmarkLook(b *testing.B) {
	const capacity = 10_000
	in := New(Config{Name: "s", Capacity: capacity, Batch: 1})
	newPipeline().Attach(in)
	in.Phases().Open()
	for range capacity {
		ctx, cancel := context.WithCancel(b.Context())
		defer cancel()
		if err := in.Submit(ctx, &command.Envelope{Load: 1, From: command.NewTicket(nil).Asked(ctx, nil)}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		in.endLapsed()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/capacity, "ns/command")
}
