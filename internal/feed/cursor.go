package feed

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
)

// ErrEnded refuses a command: the feed has ended.
var ErrEnded = errors.New("source: the feed has ended")

// FatalError is an error of a source that a restart cannot help.
type FatalError struct{ Err error }

// Error returns the text of the error.
func (e *FatalError) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e *FatalError) Unwrap() error { return e.Err }

// Save keeps a position outside of the process.
type Save func(ctx context.Context, position int64) error

// Cursor is where a source is. It outlives the runs of the source. Any
// goroutine may use it.
type Cursor struct {
	// Pipeline and Stage are the names of the pipeline and the stage that the
	// source feeds. They are set before its first run, and do not change.
	Pipeline, Stage string
	// Paused reports whether the stage is paused. It is set like the names, and
	// may be nil.
	Paused func() bool
	// Grace is how long the source may take to return when its context has
	// ended. It is set before each run; 0 means that it is not known.
	Grace time.Duration

	position atomic.Int64 // after the last command that was accepted
	total    atomic.Int64 // 0 if it is not known

	turn  sync.Mutex // held by the submission in progress: positions are taken in order
	at    sync.Mutex // held while next is set; taken before turn
	next  int64      // with turn held: the position after the next command
	given bool       // with turn held: next is set

	hears sync.Mutex      // held while ended is set; taken before turn
	ended func(err error) // with turn held: hears the end of the next command; may be nil

	spans sync.Mutex // held while span is set; taken before turn
	span  Span       // with turn held: of the next command

	due    atomic.Int64                  // when the source submits next, in nanoseconds since 1970; 0 if it is not known
	held   atomic.Pointer[chan struct{}] // closed when submissions may go on; nil if they may
	away   atomic.Pointer[error]         // why the source has no commands for now; nil if it has
	window atomic.Pointer[Window]        // nil without a checkpoint
	// Begun is called when the cursor gets its window, once.
	Begun func(*Window, Save)
	// Whole is why the source may not hear of the ends of its commands, nor
	// have a checkpoint of its own; nil if it may. It is set like the names.
	Whole error
	// Stands is called when a submission has waited for the first command in
	// the window for a minute, then for two more, and so on. It is set like the
	// names, and may be nil.
	Stands func(waited time.Duration)
	// Full is called when the source submits nothing more until some of its
	// commands have ended, and about every second while that lasts. It is set
	// like the names, and may be nil.
	Full func()
	// Bounded is called when a source says how many of its commands are in the
	// pipeline at once, and returns why it could wait for ever. It is set like
	// the names, and may be nil.
	Bounded func(Bound) error
}

type key struct{}

// With returns a context in which a source finds its cursor.
func With(ctx context.Context, c *Cursor) context.Context { return context.WithValue(ctx, key{}, c) }

// Of returns the cursor of the source that was given the context, or nil if it
// runs without a feed.
func Of(ctx context.Context) *Cursor {
	c, _ := ctx.Value(key{}).(*Cursor)
	return c
}

// Position returns the position after the last command that was accepted. A run
// begins there.
func (c *Cursor) Position() int64 {
	if c == nil {
		return 0
	}
	return c.position.Load()
}

// Total returns the last position of the source, or 0 if it is not known.
func (c *Cursor) Total() int64 { return c.total.Load() }

// SetTotal sets the last position of the source.
func (c *Cursor) SetTotal(n int64) {
	if c != nil {
		c.total.Store(max(n, 0))
	}
}

// At calls submit, and lets the command that it submits have the given position
// instead of one more than the last.
func (c *Cursor) At(next int64, submit func() error) error {
	if c == nil {
		return submit()
	}
	c.at.Lock()
	defer c.at.Unlock()
	c.give(next, true)
	defer c.give(0, false)
	return submit()
}

func (c *Cursor) give(next int64, given bool) {
	c.turn.Lock()
	defer c.turn.Unlock()
	c.next, c.given = next, given
}

// Due returns when the source submits its next command; the zero time if that
// is not known.
func (c *Cursor) Due() (at time.Time) {
	if ns := c.due.Load(); ns != 0 {
		at = time.Unix(0, ns)
	}
	return at
}

// SetDue says when the source submits its next command; the zero time says that
// it is not known any more.
func (c *Cursor) SetDue(at time.Time) {
	switch {
	case c == nil:
	case at.IsZero():
		c.due.Store(0)
	default:
		c.due.Store(at.UnixNano())
	}
}

// Start sets the position at which the first run begins. It is called before
// that.
func (c *Cursor) Start(position int64) { c.position.Store(position) }

// Hold makes later submissions wait until release is called. A submission under
// way continues: see [Cursor.Still].
func (c *Cursor) Hold() (release func()) {
	held := make(chan struct{})
	c.held.Store(&held)
	return func() {
		c.held.Store(nil)
		close(held)
	}
}

// Still reports whether no submission is under way while the cursor is held.
func (c *Cursor) Still() bool {
	if !c.turn.TryLock() {
		return false
	}
	c.turn.Unlock()
	return true
}

// lock begins a submission, when none is under way and the cursor is not held.
func (c *Cursor) lock(ctx context.Context) error {
	for {
		c.turn.Lock()
		held := c.held.Load()
		if held == nil {
			return nil
		}
		c.turn.Unlock()
		select {
		case <-*held:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Hear calls submit, and lets ended be called at the end of the command that it
// submits.
func (c *Cursor) Hear(ended func(err error), submit func() error) error {
	if c.Whole != nil {
		return &FatalError{c.Whole}
	}
	c.hears.Lock()
	defer c.hears.Unlock()
	c.hear(ended)
	defer c.hear(nil)
	return submit()
}

func (c *Cursor) hear(ended func(err error)) {
	c.turn.Lock()
	defer c.turn.Unlock()
	c.ended = ended
}

// IsPaused reports whether the stage that the source feeds is paused.
func (c *Cursor) IsPaused() bool { return c != nil && c.Paused != nil && c.Paused() }

// EndTime returns half of the grace of a source, and at most a time: how long
// the source may wait for another process when its context has ended.
func (c *Cursor) EndTime(most time.Duration) time.Duration {
	if c == nil || c.Grace == 0 {
		return most
	}
	return min(most, c.Grace/2)
}

// IsFull is called by a source that submits nothing more until some of its
// commands have ended, about every second.
func (c *Cursor) IsFull() {
	if c != nil && c.Full != nil {
		c.Full()
	}
}

// Span is the time in which a command may wait, and the values that it takes
// along. The zero Span begins when the command is submitted, and has no end.
type Span struct {
	// Since is when the command began to wait. It counts for the time to live
	// that the stage gives the command.
	Since time.Time
	// Until is the deadline that the command takes along.
	Until time.Time
	// Ends is a context with whose end the command ends, and with its cause;
	// nil if there is none. Handlers of single commands hear of the end.
	Ends context.Context
	// Derive returns a context with the values that the command has besides
	// those of the feed's context, which it is given; nil if there are none.
	Derive func(values context.Context) context.Context
}

// Within calls submit, and gives the command that it submits a span.
func (c *Cursor) Within(s Span, submit func() error) error {
	if c == nil {
		return submit()
	}
	c.spans.Lock()
	defer c.spans.Unlock()
	c.setSpan(s)
	defer c.setSpan(Span{})
	return submit()
}

func (c *Cursor) setSpan(s Span) {
	c.turn.Lock()
	defer c.turn.Unlock()
	c.span = s
}

// SetAway sets why the source has no commands for now, or nil.
func (c *Cursor) SetAway(err error) {
	switch {
	case c == nil:
	case err == nil:
		c.away.Store(nil)
	default:
		c.away.Store(&err)
	}
}

// Away returns why the source has no commands for now, or nil.
func (c *Cursor) Away() error {
	if err := c.away.Load(); err != nil {
		return *err
	}
	return nil
}

// Begin makes the cursor begin at a position, and look for the position up to
// which all commands have ended. Later runs call it again, which changes
// nothing.
func (c *Cursor) Begin(from int64, save Save) {
	if c == nil || save == nil || c.window.Load() != nil {
		return
	}
	c.position.Store(from)
	w := newWindow(from)
	c.window.Store(w)
	if c.Begun != nil {
		c.Begun(w, save)
	}
}

// Checkpoint returns the position up to which all commands have ended, and
// whether the cursor looks for it.
func (c *Cursor) Checkpoint() (position int64, ok bool) {
	w := c.window.Load()
	if w == nil {
		return 0, false
	}
	return w.Reached(), true
}

// End is called at the end of a command, with its error. Done reports that it
// was not a hard stop that ended it.
type End func(err error, done bool)

// Terms are a source's wishes for one of its commands.
type Terms struct {
	Span

	End   End  // is called at the command's end; nil if that does not matter
	Heard bool // the source deals with the command's error
}

// Submit calls accept for one command, and if that returns nil moves the
// position. Several calls wait for one another.
func (c *Cursor) Submit(ctx context.Context, accept func(Terms) error) error {
	if err := c.lock(ctx); err != nil {
		return err
	}
	defer c.turn.Unlock()
	next := c.position.Load() + 1
	if c.given {
		next = c.next
	}
	ended := c.ended
	terms := Terms{Span: c.span, Heard: ended != nil}
	w := c.window.Load()
	if w == nil {
		terms.End = join(nil, 0, ended)
		if err := accept(terms); err != nil {
			return err
		}
		c.position.Store(next)
		return nil
	}
	n, err := w.enter(ctx, next, waiting{c.IsFull, c.Stands})
	if err != nil {
		return err
	}
	accepted := false
	defer func() { // also if accept panics
		if !accepted {
			w.withdraw()
		}
	}()
	terms.End = join(w, n, ended)
	if err := accept(terms); err != nil {
		return err
	}
	accepted = true
	c.position.Store(next)
	return nil
}

// join returns the function to call at the end of command n of a window. Both w
// and ended may be nil.
func join(w *Window, n uint64, ended func(err error)) End {
	switch {
	case w == nil && ended == nil:
		return nil
	case w == nil:
		return func(err error, _ bool) { ended(err) }
	case ended == nil:
		return func(_ error, done bool) { w.end(n, done) }
	default:
		return func(err error, done bool) {
			ended(err)
			w.end(n, done)
		}
	}
}

// SubmitFree calls accept for several commands, which returns how many of them
// were accepted, and moves the position. Next returns the position after a
// command. It calls nothing, and returns 0, if commands have terms, which only
// [Cursor.Submit] deals with.
func (c *Cursor) SubmitFree(ctx context.Context, next func(i int) int64, accept func() int) int {
	if c.lock(ctx) != nil {
		return 0
	}
	defer c.turn.Unlock()
	if c.given || c.ended != nil || c.window.Load() != nil || !reflect.ValueOf(c.span).IsZero() {
		return 0
	}
	n := accept()
	if n > 0 {
		c.position.Store(next(n - 1))
	}
	return n
}
