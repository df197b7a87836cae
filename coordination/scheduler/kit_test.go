package scheduler_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/scheduler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble runs a test on a scheduler in virtual time, which is closed at the end. Faults are those that the scheduler
// reported; a test that expects some takes them with takeFaults.
type bubble struct {
	*scheduler.Scheduler

	t     *testing.T
	begin time.Time
	log   []string

	mu     sync.Mutex // guards faults
	faults []error
}

func inBubble(t *testing.T, cfg scheduler.Config, test func(b *bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{t: t, begin: time.Now()}
		cfg.Error = b.fault
		b.Scheduler = scheduler.New(cfg)
		test(b)
		b.Close()
		assert.Empty(t, b.takeFaults())
	})
}

func (b *bubble) fault(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, err)
}

// takeFaults returns the faults and clears them.
func (b *bubble) takeFaults() []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	faults := b.faults
	b.faults = nil
	return faults
}

func (b *bubble) say(word string) { b.log = append(b.log, word) }

// now is the time since the start of the test.
func (b *bubble) now() time.Duration { return time.Since(b.begin) }

// untilFalse handles everything that is ready, and returns the number of steps.
func (b *bubble) untilFalse() (steps int) {
	for b.Step(0) {
		steps++
	}
	return steps
}

// loop expects Loop to return nil.
func (b *bubble) loop() {
	b.t.Helper()
	assert.NoError(b.t, b.Loop())
}

// source registers an asynchronous source: the returned function notifies an event, until the registration is closed.
func (b *bubble) source(h scheduler.Handler) (notify func(events ...any), r *scheduler.Registration) {
	b.t.Helper()
	var put func(event any)
	r = b.Register(scheduler.SourceFunc(func(ctx context.Context, notify func(event any)) error {
		put = notify
		<-ctx.Done()
		return nil
	}), h)
	synctest.Wait()
	return func(events ...any) {
		for _, e := range events {
			put(e)
		}
	}, r
}

// ok checks calls that cannot be stopped in the test.
func (b *bubble) ok(err error) {
	b.t.Helper()
	assert.NoError(b.t, err)
}

// task calls Go for tasks that only print their names.
func (b *bubble) tasks(all ...func(c coroutine.Context)) {
	for _, f := range all {
		b.Go(f)
	}
}
