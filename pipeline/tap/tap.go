// Package tap shows some of the commands of a running pipeline: to see the
// load of a stage, to find the command that fails, to follow one request
// through all stages.
//
//	t := tap.New()
//	p, err := pipeline.New("shop", orders, bills, pipeline.Middleware(t.Around))
//	...
//	watch, err := t.Watch(ctx, p, tap.Options{Stages: []string{"bills"}, Where: failed, Limit: 10})
//	for seen := range watch.Events() {
//		fmt.Println(seen)
//	}
//
// # Cost
//
// A tap is middleware. Without a watch it costs each command the call of a
// middleware and one load, see the benchmarks. A watch costs each command its
// predicate, and each command that is shown the text and one lock. A watch
// delays no command: if its reader is slow, events are dropped, and counted.
//
// # Secrets
//
// A command is shown by its type alone, unless [Options.Show] says how to show
// it. Show is the place to leave out secrets.
package tap

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/pipeline"
)

// The values of [Options] that are zero.
const (
	DefaultLimit  = 1000        // events
	DefaultFor    = time.Minute // after which a watch ends
	DefaultBuffer = 256         // events that wait for the reader
)

// maxText is how many bytes of a text are kept.
const maxText = 4 << 10

// Options say which commands a [Watch] shows, and how. The zero Options show
// the types of the next thousand commands of all stages, for a minute.
type Options struct {
	Stages []string // names of stages; none stand for all, also for stages that are added later

	// Where reports whether a command is to be shown, nil all. It gets the
	// context of the handler, which has the values of the submitter's context.
	Where func(ctx context.Context, stage string, cmd any) bool

	// After reports whether a command is to be shown, when its outcome is known:
	// the failures only, or the slow tries.
	After func(Event) bool

	// Share is the part of the commands that are shown, drawn at random from
	// the commands for which Where is true: 0.01 is one of a hundred. 0 stands for 1.
	Share float64

	// Follow shows one command on its way: the first that Stages, Where and Share
	// choose, and then its further tries and all commands that result from it, in
	// all stages. A command of a [behaviour.Batcher] is not chosen, but shown.
	Follow bool

	// Show returns the text of a command. Without it a command is shown as its
	// type. Of a text 4 KiB are kept. Like Where it is called before the
	// handler, which may change the command; for commands of a
	// [behaviour.Batcher], and for commands that are slices, afterwards.
	Show func(cmd any) string

	Limit  int           // the watch ends after so many events; 0 is [DefaultLimit]
	For    time.Duration // the watch ends after so long; 0 is [DefaultFor]
	Buffer int           // events that may wait for the reader, others are dropped; 0 is [DefaultBuffer]
}

// Event is one try of one command.
type Event struct {
	Stage   string
	Command string        // text, by [Options.Show]
	Attempt int           // 1 for the first try of the command
	At      time.Time     // when the handler was called
	Took    time.Duration // in the handler; of a batch, the time of all of it
	Batch   int           // commands that the handler was given at once; 1 if it is no [behaviour.Batcher]

	Crashed bool           // the handler panicked, or ended its goroutine; it has no outcome
	Kind    behaviour.Kind // of the outcome
	Next    string         // stage or port that the command was forwarded to
	Err     error          // of a failure
}

// String returns the event as one line.
func (e Event) String() string {
	text := fmt.Sprintf("%s %s %s", e.At.Format("15:04:05.000"), e.Stage, e.Command)
	if e.Attempt > 1 {
		text += fmt.Sprintf(" (try %d)", e.Attempt)
	}
	switch {
	case e.Crashed:
		text += ": crashed"
	case e.Kind == behaviour.KindForward:
		text += ": to " + e.Next
	case e.Err != nil:
		text += ": error: " + cut(e.Err.Error())
	default:
		text += ": " + e.Kind.String()
	}
	return fmt.Sprintf("%s after %v", text, e.Took)
}

// Counts are the numbers of commands that a watch has looked at and shown.
type Counts struct {
	Asked   uint64 // tries of commands of the watched stages
	Matched uint64 // of Asked, the tries for which Where was true and that the share did not leave out
	Dropped uint64 // of Matched, the tries that found no room for their events
	Shown   uint64 // events
}

// Tap is the middleware by which commands are watched. It is made by [New], and
// may be the middleware of several pipelines. Its methods may be called by any
// goroutine.
type Tap struct {
	watches atomic.Pointer[[]*Watch] // nil if there are none
	mu      sync.Mutex               // held to change watches
	batches sync.Map                 // names of stages that are known to handle batches
}

// New returns a tap without watches.
func New() *Tap { return new(Tap) }

// Around is a [stage.MiddlewareFunc], for pipeline.Middleware or
// stage.Middleware. It calls the functions of the watches' Options on the
// goroutine of the handler; their panics end the watch, and not the command.
func (t *Tap) Around(ctx context.Context, stage string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
	watches := t.watches.Load()
	if watches == nil {
		return next(ctx, cmd)
	}
	return t.watched(ctx, *watches, stage, cmd, next)
}

// Watch begins to show commands of a pipeline that has the tap. It ends with
// ctx, with the pipeline, by its limits, or with [Watch.Close]. Options that make no sense, and
// stages that the pipeline does not have, are an [OptionError].
func (t *Tap) Watch(ctx context.Context, p *pipeline.Pipeline, o Options) (*Watch, error) {
	if err := o.check(p); err != nil {
		return nil, err
	}
	w := &Watch{
		tap: t, options: o, stages: slices.Clone(o.Stages), events: make(chan Event, orElse(o.Buffer, DefaultBuffer)),
		over: make(chan struct{}), left: orElse(o.Limit, DefaultLimit),
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.change(func(all []*Watch) []*Watch { return append(all, w) })
	w.timer = time.AfterFunc(orElse(o.For, DefaultFor), func() { w.end(nil) })
	w.unhook = context.AfterFunc(ctx, func() { w.end(context.Cause(ctx)) })
	go w.endWith(p)
	return w, nil
}

// endWith ends the watch when the pipeline has ended.
func (w *Watch) endWith(p *pipeline.Pipeline) {
	select {
	case <-p.Done():
		w.end(nil)
	case <-w.over:
	}
}

// change replaces the watches.
func (t *Tap) change(by func([]*Watch) []*Watch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*Watch
	if old := t.watches.Load(); old != nil {
		all = slices.Clone(*old)
	}
	if all = by(all); len(all) == 0 {
		t.watches.Store(nil)
		return
	}
	t.watches.Store(&all)
}

// OptionError is an option that a watch refuses.
type OptionError struct {
	Option string
	Why    string
}

// Error names the option.
func (e *OptionError) Error() string { return fmt.Sprintf("tap: option %s: %s", e.Option, e.Why) }

func (o Options) check(p *pipeline.Pipeline) error {
	switch {
	case o.Share < 0 || o.Share > 1 || o.Share != o.Share:
		return &OptionError{"Share", fmt.Sprintf("%v is not between 0 and 1", o.Share)}
	case o.Limit < 0:
		return &OptionError{"Limit", fmt.Sprintf("%d is negative", o.Limit)}
	case o.For < 0:
		return &OptionError{"For", fmt.Sprintf("%v is negative", o.For)}
	case o.Buffer < 0:
		return &OptionError{"Buffer", fmt.Sprintf("%d is negative", o.Buffer)}
	}
	if len(o.Stages) == 0 {
		return nil
	}
	var known []string
	for _, s := range p.Snapshot().Stages {
		known = append(known, s.Name)
	}
	for _, name := range o.Stages {
		if !slices.Contains(known, name) {
			return &OptionError{"Stages", fmt.Sprintf("pipeline %q has no stage %q; it has %q", p.Name(), name, known)}
		}
	}
	return nil
}

func orElse[N int | time.Duration](n, otherwise N) N {
	if n == 0 {
		return otherwise
	}
	return n
}

// cut shortens a text.
func cut(text string) string {
	if len(text) <= maxText {
		return text
	}
	return text[:maxText] + "…"
}

// ErrFunction is wrapped by the error of a watch that a panic of one of its
// functions has ended.
var ErrFunction = errors.New("tap: a function of the watch panicked")

// Watch is a view of commands, until it ends. Its methods may be called by any
// goroutine.
type Watch struct {
	tap     *Tap
	options Options
	stages  []string

	over chan struct{} // closed when the watch has ended

	asked, matched, dropped atomic.Uint64
	following               atomic.Bool // a command has been chosen, if one is to be followed

	mu     sync.Mutex // guards the rest
	events chan Event // closed when the watch has ended
	left   int        // events until the limit
	shown  uint64
	ended  bool
	err    error
	timer  *time.Timer
	unhook func() bool
}

// Events returns the channel of the events, in the order in which handlers
// returned. It is closed when the watch has ended, and may be read afterwards.
func (w *Watch) Events() <-chan Event { return w.events }

// Counts returns the numbers so far.
func (w *Watch) Counts() Counts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Counts{Asked: w.asked.Load(), Matched: w.matched.Load(), Dropped: w.dropped.Load(), Shown: w.shown}
}

// Err returns why the watch has ended early: the cause of the context's end, or
// an error that wraps [ErrFunction]. It is nil while the watch goes on, and if
// its limits or Close have ended it.
func (w *Watch) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Close ends the watch. More calls do nothing.
func (w *Watch) Close() { w.end(nil) }

func (w *Watch) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endLocked(err)
}

func (w *Watch) endLocked(err error) {
	if w.ended {
		return
	}
	w.ended, w.err = true, err
	w.timer.Stop()
	w.unhook()
	close(w.events)
	close(w.over)
	w.tap.change(func(all []*Watch) []*Watch {
		return slices.DeleteFunc(all, func(other *Watch) bool { return other == w })
	})
}

// chooses reports whether the options choose a command.
func (w *Watch) chooses(ctx context.Context, stage string, cmd any) bool {
	if len(w.stages) > 0 && !slices.Contains(w.stages, stage) {
		return false
	}
	w.asked.Add(1)
	if w.options.Where != nil && !w.options.Where(ctx, stage, cmd) {
		return false
	}
	share := w.options.Share
	return share <= 0 || share >= 1 || rand.Float64() < share
}

// wants reports whether the watch shows a command, before it is handled.
func (w *Watch) wants(ctx context.Context, stage string, cmd any) bool {
	chooses := w.chooses
	if w.options.Follow {
		chooses = w.follows
	}
	if !chooses(ctx, stage, cmd) {
		return false
	}
	w.matched.Add(1)
	if len(w.events) == cap(w.events) { // a command that cannot be shown needs no text
		w.dropped.Add(1)
		return false
	}
	return true
}

// show returns the text of a command.
func (w *Watch) show(cmd any) string {
	if w.options.Show == nil {
		return fmt.Sprintf("%T", cmd)
	}
	return cut(w.options.Show(cmd))
}

// send shows an event, if there is room for it.
func (w *Watch) send(e Event) {
	if w.options.After != nil && !w.options.After(e) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	select {
	case w.events <- e:
		w.shown++
		if w.left--; w.left == 0 {
			w.endLocked(nil)
		}
	default:
		w.dropped.Add(1)
	}
}

// guard calls one of the user's functions. A panic of it ends the watch.
func (w *Watch) guard(call func()) {
	defer func() {
		if reason := recover(); reason != nil {
			w.end(fmt.Errorf("%w: %v", ErrFunction, reason))
		}
	}()
	call()
}
