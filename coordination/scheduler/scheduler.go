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
	// ErrDeadlock is returned by Loop when tasks or handlers are blocked and nothing can
	// wake them: all wait for one another, and there is neither a source nor a timer.
	ErrDeadlock = errors.New("scheduler: deadlock")

	// ErrClosed is the answer of a scheduler, or of a registration, that is closed.
	ErrClosed = errors.New("scheduler: closed")

	// ErrEnded is the answer of Next when the source has no more events.
	ErrEnded = errors.New("scheduler: the source has ended")
)

// What a Config means if it does not say otherwise.
const (
	defaultBacklog    = 1024
	defaultPollBudget = 10 * time.Millisecond
	defaultGrace      = time.Second
)

// Config says how a Scheduler works. Its zero value is ready for use.
type Config struct {
	// MaxPool is how many idle coroutines are kept for reuse; 0 means 64, negative none.
	MaxPool int

	// Backlog is how many events of one source may be there at once: those that wait, and
	// those that handlers are at, which is until they end or ask for the next. A source that is at this bound
	// is held back; a tick of Every is left out. 0 means 1024.
	Backlog int

	// PollBudget is the longest time spent in pollers before other sources are looked
	// at; 0 means 10 ms.
	PollBudget time.Duration

	// Grace is how long Close waits for the sources to return, and how long a stopped handler or task may go on
	// before Error hears of it and its next suspension ends it; 0 means 1 s.
	Grace time.Duration

	// Rand, if set, has each Step take any of what is ready instead of what has been so for the longest
	// time. The events of one source keep their order. The same seed gives the
	// same run, if the events come the same.
	Rand *rand.Rand

	// Error hears of handlers and tasks that panicked or called runtime.Goexit, of
	// sources that failed, and of handlers past their Patience. It may be called by any
	// goroutine, and may call only Stop and Go. If nil, Logger hears of them.
	Error func(err error)

	// Logger is told what Error would be. If nil it is slog.Default().
	Logger *slog.Logger

	// Patience, if positive, has Error hear of a handler that has run for so long without
	// suspending: all others wait for it meanwhile.
	Patience time.Duration

	// Threads lets handlers suspend, or end, while they hold runtime.LockOSThread, and lets who steps lock
	// its thread now and not then: without it either ends the process. A switch then costs several times as much.
	Threads bool

	// Check refuses a suspension by a goroutine that is not the handler's own, with
	// coroutine.ErrNotRunning. It costs some microseconds each; it is for tests.
	Check bool
}

// Scheduler waits for events of its sources and runs a handler for each, one at a
// time, and cooperative tasks among them. New makes one.
//
// Go, Stop and whatever wakes a handler may be called from any goroutine. The other methods
// are for one goroutine at a time; Register, Snapshot and the methods of registrations also for
// handlers and tasks, since these run while that goroutine is in Step or Loop.
type Scheduler struct {
	cfg   Config
	host  *coro.Host
	inbox inbox

	busy atomic.Bool // somebody is in Step, Loop or Close
	quit atomic.Bool // Stop was called and Loop has not yet returned for it

	// What follows belongs to whoever steps.
	ready   queue
	timers  timers
	open    list.List // registrations that have not ended
	pollers []*Registration
	alarm   *time.Timer
	closed  bool
	waits   int
	live    int // tasks that have not ended
	blocked int // those of them that only others of them can wake
}

// Snapshot is what a scheduler has at one moment.
type Snapshot struct {
	Waits      int // how often sources were looked at, because nothing but timers was ready
	Ready      int // events and tasks that were ready when they were last looked at, and still are
	Sources    int // registrations that have not ended
	Tasks      int // handlers and tasks that have begun and not ended
	Blocked    int // those of them that wait for others of them
	Coroutines int // coroutines made since the beginning
	Idle       int // coroutines kept for reuse
}

// New returns a scheduler. It starts nothing; a scheduler on which nothing was
// registered or started need not be closed. It panics if a number in cfg but MaxPool is negative.
func New(cfg Config) *Scheduler {
	s := &Scheduler{cfg: cfg.complete()}
	s.inbox.bell = make(chan struct{}, 1)
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

// complete checks the numbers and puts the defaults in.
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

// Go creates a task, and returns it: others may wait for its end with [Task.Join]. It first runs in a later Step; if
// the scheduler is closed before that, it never does, and has ended with ErrClosed. Any goroutine may call it.
func (s *Scheduler) Go(task func(c coroutine.Context)) *Task {
	if task == nil {
		panic("scheduler: Go without a task")
	}
	t := &Task{s: s, job: job{f: task}}
	t.job.task = t
	if !s.inbox.put(entry{job: &t.job}) {
		s.cfg.Error(fmt.Errorf("scheduler: Go: %w", ErrClosed))
		t.end(ErrClosed)
	}
	return t
}

// Step handles at most one event, which may be the beginning or the going on of a task, and
// reports whether it did. Only if nothing is ready does it look for new events, and waits
// for them at most as long as the limit. On a closed scheduler it does nothing.
func (s *Scheduler) Step(limit time.Duration) bool {
	s.enter("Step")
	defer s.leave()
	return s.step(newPatience(limit))
}

// Loop handles events until Stop is called, or there is no source, task or event left,
// and returns nil; or until all tasks that are left are blocked, and returns ErrDeadlock.
// It may be called again.
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

// Stop makes Loop return nil once the present handler has suspended or ended; what is
// ready stays ready. If no Loop runs, the next one returns at once. Any
// goroutine may call it, and handlers.
func (s *Scheduler) Stop() {
	s.quit.Store(true)
	s.inbox.ring()
}

// Close stops the sources, and all handlers and tasks that are suspended, the youngest
// first: their suspensions return coroutine.ErrStopped and their deferred calls run. A handler that
// goes on suspending instead of returning is ended, at the latest when Config.Grace is over, as runtime.Goexit would end it: its deferred
// calls run, and Error receives its name with coroutine.ErrIgnoredStop. Close waits for a handler that neither
// returns nor suspends; Error receives its name when Config.Grace is over.
//
// Events that were not handled are dropped. Close waits until the sources have returned, but no longer than
// Config.Grace; Error hears of those that have not. To close twice is fine. A
// handler must not call it: it calls Stop, and who called Loop closes.
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

// Snapshot tells what the scheduler has now. It is for who steps, and for handlers.
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

// enter refuses to be called by two at once. That one of them is a handler is by far
// the likeliest.
func (s *Scheduler) enter(method string) {
	if !s.busy.CompareAndSwap(false, true) {
		panic("scheduler: " + method + " called by a handler, or while another goroutine is in Step, Loop or Close")
	}
}

func (s *Scheduler) leave() { s.busy.Store(false) }

// await waits for the goroutines of sources that were told to end.
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
