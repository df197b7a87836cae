package scheduler

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/internal/coro"
)

var (
	// ErrDeadlock is returned by Loop when tasks or handlers are blocked and
	// nothing can wake them: all wait for one another, and there is neither a
	// source nor a timer.
	ErrDeadlock = errors.New("scheduler: deadlock")

	// ErrClosed is returned by a scheduler, or a registration, that is closed.
	ErrClosed = errors.New("scheduler: closed")

	// ErrEnded is returned by Next when the source has no more events.
	ErrEnded = errors.New("scheduler: the source has ended")
)

// The defaults of a Config.
const (
	defaultBacklog    = 1024
	defaultPollBudget = 10 * time.Millisecond
	defaultGrace      = time.Second
)

// Config configures a Scheduler. Its zero value is ready for use.
type Config struct {
	// MaxPool is how many idle coroutines are kept for reuse; 0 means 64, and a
	// negative number none.
	MaxPool int

	// Backlog is the maximum number of open events of one source. An event is
	// open while it waits and while a handler handles it, that is, until the
	// handler ends or asks for the next event. A source that has reached its
	// backlog is held back; a tick of Every is skipped. 0 means 1024.
	Backlog int

	// PollBudget is the longest time spent in pollers before other sources are
	// checked; 0 means 10 ms.
	PollBudget time.Duration

	// Grace is how long Close waits for the sources to return, and how long a
	// stopped handler or task may continue before its name is reported to Error
	// and its next suspension ends it; 0 means 1 s.
	Grace time.Duration

	// Rand, if set, makes each Step take a random ready entry instead of the
	// oldest. The events of one source keep their order. The same seed gives
	// the same run, if the events arrive in the same way.
	Rand *rand.Rand

	// Error is called for handlers and tasks that panicked or called
	// runtime.Goexit, for sources that failed, and for handlers past their
	// Patience. It may be called by any goroutine, and may call only Stop and
	// Go. If it is nil, the errors are logged with Logger.
	Error func(err error)

	// Logger logs the errors if Error is nil. If Logger is nil it is
	// slog.Default().
	Logger *slog.Logger

	// Patience, if positive, is the time after which a handler that runs
	// without suspending is reported to Error: all others wait for it
	// meanwhile.
	Patience time.Duration

	// Threads lets handlers suspend, or end, while they hold
	// runtime.LockOSThread, and lets the goroutine that runs the scheduler lock
	// its thread at some times and not at others: without Threads either ends
	// the process. A switch then costs several times as much.
	Threads bool

	// Check makes a suspension by a goroutine other than the handler's own fail
	// with coroutine.ErrNotRunning. It costs some microseconds for each
	// suspension; it is for tests.
	Check bool
}

// Scheduler waits for events of its sources and runs a handler for each, one at
// a time, and cooperative tasks among them. New makes one.
//
// Go, Stop and the functions that wake a handler may be called from any
// goroutine. The other methods are for one goroutine at a time. Register,
// Snapshot and the methods of registrations may also be called by handlers and
// tasks, since these run while that goroutine is in Step or Loop.
type Scheduler struct {
	cfg   Config
	host  *coro.Host
	inbox inbox

	busy atomic.Bool // a goroutine is in Step, Loop or Close
	quit atomic.Bool // Stop was called, and Loop has not yet returned because of it

	// The fields below belong to the goroutine that runs the scheduler.
	ready   queue
	timers  timers
	open    list.List // registrations that have not ended
	pollers []*Registration
	alarm   *time.Timer
	closed  bool
	waits   int
	live    int // tasks that have not ended
	blocked int // tasks that only other tasks of this scheduler can wake
}

// Snapshot is the state of a scheduler at one moment.
type Snapshot struct {
	Waits      int // how often the sources were checked because at most timers were ready
	Ready      int // events and tasks that were ready at the last check, and still are
	Sources    int // registrations that have not ended
	Tasks      int // handlers and tasks that have started and not ended
	Blocked    int // tasks that wait for other tasks
	Coroutines int // coroutines made since the start
	Idle       int // coroutines kept for reuse
}

// New returns a scheduler. It starts no goroutine; a scheduler on which nothing
// was registered or started need not be closed. New panics if a number in cfg
// other than MaxPool is negative.
func New(cfg Config) *Scheduler {
	s := &Scheduler{cfg: cfg.complete()}
	s.inbox.wakeup = make(chan struct{}, 1)
	engine := coro.Pull
	if cfg.Threads {
		engine = coro.Baton
	}
	s.host = coro.New(coro.Config{
		Idle:    cfg.MaxPool,
		Engine:  engine,
		Ready:   func(t *coro.Task) { s.inbox.put(entry{task: t}) },
		Ended:   s.ended,
		Closing: s.closing,
		After:   s.after,
		Check:   cfg.Check,
	})
	return s
}

// complete checks the numbers and fills in the defaults.
func (c Config) complete() Config {
	if c.Backlog < 0 || c.PollBudget < 0 || c.Grace < 0 || c.Patience < 0 {
		panic(fmt.Sprintf("scheduler: negative number in Config: Backlog %d, PollBudget %v, Grace %v, Patience %v",
			c.Backlog, c.PollBudget, c.Grace, c.Patience))
	}
	if c.Backlog == 0 {
		c.Backlog = defaultBacklog
	}
	if c.PollBudget == 0 {
		c.PollBudget = defaultPollBudget
	}
	if c.Grace == 0 {
		c.Grace = defaultGrace
	}
	if c.Error == nil {
		c.Error = func(err error) {
			log := c.Logger
			if log == nil {
				log = slog.Default()
			}
			log.Error("scheduler", slog.Any("error", err))
		}
	}
	return c
}

// Go creates a task and returns it; [Task.Join] waits for its end. The task
// first runs in a later Step. If the scheduler is closed before that, the task
// never runs and ends with ErrClosed. Any goroutine may call Go.
func (s *Scheduler) Go(task func(c coroutine.Context)) *Task {
	if task == nil {
		panic("scheduler: Go without a task")
	}
	t := &Task{s: s, job: job{f: task}}
	t.job.task, t.of = t, &t.job
	if !s.inbox.put(entry{job: &t.job}) {
		s.cfg.Error(fmt.Errorf("scheduler: Go: %w", ErrClosed))
		t.end(ErrClosed)
	}
	return t
}

// Step handles at most one event, which may also be the start or the resumption
// of a task, and reports whether it did. Only if nothing is ready does it check
// for new events, and waits for them at most until the limit. On a closed
// scheduler it does nothing.
func (s *Scheduler) Step(limit time.Duration) bool {
	s.enter("Step")
	defer s.leave()
	return s.step(newPatience(limit))
}

// Loop handles events until Stop is called, or until there is no source, task
// or event left; then it returns nil. If all remaining tasks are blocked it
// returns ErrDeadlock. It may be called again.
func (s *Scheduler) Loop() error {
	s.enter("Loop")
	defer s.leave()
	for {
		switch {
		case s.closed:
			return ErrClosed
		case s.quit.CompareAndSwap(true, false):
			return nil
		case !s.idle():
			s.step(patience{until: s.atRest})
		case s.live > 0:
			return fmt.Errorf("%w: %d of %d tasks are blocked, and nothing is left that could wake them",
				ErrDeadlock, s.blocked, s.live)
		default:
			return nil
		}
	}
}

// Stop makes Loop return nil once the current handler has suspended or ended;
// ready entries stay ready. If no Loop runs, the next one returns at once. Any
// goroutine and any handler may call Stop.
func (s *Scheduler) Stop() {
	s.quit.Store(true)
	s.inbox.notify()
}

// Close stops the sources, and all suspended handlers and tasks, the youngest
// first: their suspensions return coroutine.ErrStopped and their deferred calls
// run. A handler that continues to suspend instead of returning is ended, at
// the latest when Config.Grace is over, as by runtime.Goexit: its deferred
// calls run, and Error gets its name with coroutine.ErrIgnoredStop. Close waits
// for a handler that neither returns nor suspends; Error gets its name when
// Config.Grace is over.
//
// Events that were not handled are dropped. Close waits until the sources have
// returned, but not longer than Config.Grace; a source that has not is reported
// to Error. Close may be called twice. A handler must not call it: it should
// call Stop, and the caller of Loop closes.
func (s *Scheduler) Close() {
	s.enter("Close")
	defer s.leave()
	if s.closed {
		return
	}
	s.closed = true
	s.inbox.close(&s.ready.line)
	if s.alarm != nil {
		s.alarm.Stop()
	}
	var sources []*Registration
	for e := s.open.Front(); e != nil; e = e.Next() {
		sources = append(sources, e.Value.(*Registration))
	}
	for _, r := range sources {
		r.end(ErrClosed)
	}
	s.host.Close()
	s.blocked = 0
	for s.ready.Len() > 0 {
		s.forget(s.ready.Pop())
	}
	s.await(sources)
}

// Snapshot returns the current state. It may be called by the goroutine that
// runs the scheduler, and by handlers.
func (s *Scheduler) Snapshot() Snapshot {
	h := s.host.Stats()
	return Snapshot{
		Waits:      s.waits,
		Ready:      s.ready.Len(),
		Sources:    s.open.Len(),
		Tasks:      s.live,
		Blocked:    s.blocked,
		Coroutines: h.Created,
		Idle:       h.Idle,
	}
}

// enter panics if two goroutines use the scheduler at once. The likeliest cause
// by far is a call by a handler.
func (s *Scheduler) enter(method string) {
	if !s.busy.CompareAndSwap(false, true) {
		panic("scheduler: " + method + " called by a handler, or while another goroutine is in Step, Loop or Close")
	}
}

func (s *Scheduler) leave() { s.busy.Store(false) }

// await waits for the goroutines of sources whose contexts have ended.
func (s *Scheduler) await(sources []*Registration) {
	if len(sources) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Grace)
	defer cancel()
	for _, r := range sources {
		select {
		case <-r.returned:
			continue
		default:
		}
		select {
		case <-r.returned:
		case <-ctx.Done():
			s.cfg.Error(fmt.Errorf("scheduler: %s did not end within %v of Close", r.name(), s.cfg.Grace))
		}
	}
}
