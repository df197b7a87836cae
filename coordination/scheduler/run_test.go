package scheduler_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/scheduler"
)

func TestTheEndOfAHandlerThatAnEventStartedCanBeJoined(t *testing.T) {
	for name, c := range map[string]struct {
		end   func()
		check func(t *testing.T, err error)
	}{
		"it returns":      {func() {}, func(t *testing.T, err error) { t.Helper(); assert.NoError(t, err) }},
		"it panics":       {func() { panic("boom") }, func(t *testing.T, err error) { t.Helper(); assert.ErrorContains(t, err, "boom") }},
		"it calls Goexit": {runtime.Goexit, func(t *testing.T, err error) { t.Helper(); assert.ErrorIs(t, err, coroutine.ErrGoexit) }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, scheduler.Config{}, func(b *bubble) {
				var run *scheduler.Task
				notify, r := b.source(func(c2 coroutine.Context, _ any) {
					run, _ = scheduler.TaskOf(c2)
					b.ok(coroutine.Sleep(c2, time.Second))
					c.end()
				})
				notify("event")
				b.untilFalse()
				require.NotNil(t, run)
				for i := range 2 {
					b.Go(func(c2 coroutine.Context) {
						c.check(t, run.Join(c2))
						b.say(fmt.Sprint(i, "@", b.now()))
					})
				}
				r.Close() // of the source; its handlers go on
				b.loop()
				assert.Equal(t, []string{"0@1s", "1@1s"}, b.log)
				<-run.Done()
				c.check(t, run.Err())
				b.takeFaults()
			})
		})
	}
}

func TestRunsAreThoseOfTheHandlerThatHaveNotEnded(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		notify, r := b.source(func(c coroutine.Context, ev any) {
			b.ok(coroutine.Sleep(c, ev.(time.Duration)))
			b.say(ev.(time.Duration).String())
		})
		assert.Empty(t, r.Runs())
		notify(3*time.Second, time.Second, 2*time.Second)
		b.untilFalse()
		first := r.Runs()
		require.Len(t, first, 3)
		b.Go(func(c coroutine.Context) {
			b.ok(first[1].Join(c))
			assert.Equal(t, []*scheduler.Task{first[0], first[2]}, r.Runs(), "in the order of their starts")
			b.ok(first[2].Join(c))
			assert.Equal(t, first[:1], r.Runs())
			b.ok(first[0].Join(c))
			assert.Empty(t, r.Runs())
		})
		r.Close()
		b.loop()
		assert.Equal(t, []string{"1s", "2s", "3s"}, b.log)
	})
}

func TestOnlyHandlersAndTasksAreTasks(t *testing.T) {
	_, ok := scheduler.TaskOf(coroutine.Blocking(t.Context()))
	assert.False(t, ok)
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		var task *scheduler.Task
		task = b.Go(func(c coroutine.Context) {
			self, ok := scheduler.TaskOf(c)
			assert.True(t, ok)
			assert.Same(t, task, self)
			assert.ErrorContains(t, self.Join(c), "waits for its own end")
		})
		notify, r := b.source(func(c coroutine.Context, _ any) {
			self, _ := scheduler.TaskOf(c)
			assert.ErrorContains(t, self.Join(c), "waits for its own end")
		})
		notify("event")
		b.untilFalse()
		r.Close()
		b.loop()
	})
}

func TestCloseEndsTheJoinOfAHandler(t *testing.T) {
	inBubble(t, scheduler.Config{}, func(b *bubble) {
		notify, r := b.source(func(c coroutine.Context, _ any) {
			assert.ErrorIs(t, coroutine.Sleep(c, time.Hour), coroutine.ErrStopped)
		})
		notify("event")
		b.untilFalse()
		run := r.Runs()[0]
		b.Close()
		<-run.Done()
		assert.NoError(t, run.Err())
		assert.Empty(t, r.Runs())
	})
}
