package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/feed"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
	"github.com/golda-dev/golda/stage/stats"
	"github.com/golda-dev/golda/supervisor"
)

// feedState is what a feed does.
type feedState string

const (
	feedWaiting    feedState = "waiting"
	feedRunning    feedState = "running"
	feedAway       feedState = "away"
	feedRestarting feedState = "restarting"
	feedExhausted  feedState = "exhausted"
	feedStopped    feedState = "stopped"
	feedGaveUp     feedState = "gave up"
)

// lives reports whether a feed in this state has not ended.
func (s feedState) lives() bool { return s == feedWaiting || s == feedRunning || s == feedRestarting }

// How a feed restarts its source.
const (
	feedRestarts = 10
	feedWithin   = 5 * time.Minute
	feedFirst    = 100 * time.Millisecond
	feedMost     = 10 * time.Second
)

// feedHost has the parts of a pipeline that its feeds use. All fields but the
// name, the log and exhausted are set when the pipeline starts.
type feedHost struct {
	pipeline  string // its name
	log       *slog.Logger
	whole     error           // why a source may not hear of the ends of its commands; nil if it may
	exhausted func(*feeding)  // called when a source is exhausted
	base      context.Context // of the sources: the values of the start
	env       *engine.Env
	grace     time.Duration
	wasDone   func(err error) bool              // whether a command with that end was done
	waitsIn   func(*engine.Core) string         // the stages in which the commands of a feed of that stage are, in words
	behind    func(*engine.Core) []*inbox.Inbox // of the stages in which the commands of a feed of that stage are
	gaveUp    func(err error)
	keep      func() error // makes sure that the letters survive, before a checkpoint passes them
}

// feeding is a feed of one pipeline.
type feeding struct {
	*fed
	of                 *feedHost
	cursor             feed.Cursor
	submitted, refused atomic.Uint64

	kept atomic.Int64 // the position that the pipeline's checkpoint has

	life    sync.Mutex       // held while the feed is started or asked to stop; guards tree and stopped
	tree    *supervisor.Tree // nil before the start
	stopped bool

	mu       sync.Mutex // guards the rest
	state    feedState
	restarts uint64
	err      error                   // the last failure
	abort    context.CancelCauseFunc // ends the present run; nil if there is none
	saver    *saver                  // nil without a checkpoint
	late     bool                    // no saver may start any more
	still    standing
}

func newFeeding(of *feedHost, part *fed) *feeding {
	f := &feeding{fed: part, of: of, state: feedWaiting}
	f.cursor.Begun, f.cursor.Stands, f.cursor.Bounded = f.openSaver, f.warnStands, f.checkBound
	f.cursor.Full = f.isFull
	f.cursor.Pipeline, f.cursor.Stage = of.pipeline, part.core.Name()
	f.cursor.Paused = func() bool { return part.core.Inbox().Settings().Knobs().Paused }
	return f
}

// is returns the state.
func (f *feeding) is() feedState {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state
}

// become changes the state of a feed that has not ended, and reports whether it
// had not.
func (f *feeding) become(s feedState, err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.err = err
	}
	if !f.state.lives() {
		return false
	}
	f.state = s
	return true
}

// start starts the source, unless the feed was stopped. The start runs no user
// code, so it fails only if something kills the supervisor or its child before
// it has started: then start tries again.
func (f *feeding) start() (err error) {
	f.life.Lock()
	defer f.life.Unlock()
	if f.stopped {
		return nil
	}
	f.cursor.Grace = f.of.grace
	for range feedRestarts {
		if f.tree, err = f.startTree(); err == nil {
			go f.watch(f.tree)
			return nil
		}
		if !errors.Is(err, supervisor.ErrKilled) {
			return err
		}
		f.restarted("", err)
	}
	return err
}

// watch waits for the end of the feed's supervisor, and starts another one if
// it was killed: no supervisor above it would notice.
func (f *feeding) watch(tree *supervisor.Tree) {
	why := tree.Wait()
	if !errors.Is(why, supervisor.ErrKilled) || !f.become(feedRestarting, why) {
		return
	}
	f.restarted("", why)
	if err := f.start(); err != nil {
		f.become(feedGaveUp, err)
		f.of.gaveUp(fmt.Errorf("feed %q: %w", f.name, err))
	}
}

// startTree starts the supervisor of the source.
func (f *feeding) startTree() (*supervisor.Tree, error) {
	env := f.of.env
	return supervisor.Start(context.Background(), env.System, supervisor.Spec{
		Name:      actor.Unique(env.System, env.Name+"/feed"),
		Strategy:  supervisor.OneForOne,
		Intensity: supervisor.Intensity{Restarts: feedRestarts, Within: feedWithin},
		Backoff:   supervisor.Backoff{First: feedFirst, Max: feedMost},
		Decide:    decideFeed, Restarted: f.restarted, GaveUp: f.gaveUp,
		Children: []supervisor.Child{{
			Name: "feed " + f.name, Run: f.run, Restart: supervisor.Transient, Patience: f.of.grace,
		}},
	})
}

// decideFeed gives up at an error that a restart cannot help.
func decideFeed(_ string, why error) supervisor.Directive {
	if _, fatal := errors.AsType[*feed.FatalError](why); fatal {
		return supervisor.DoEscalate
	}
	return supervisor.AsDeclared
}

func (f *feeding) restarted(_ string, why error) {
	f.mu.Lock()
	f.restarts++
	f.err = why
	f.mu.Unlock()
	f.of.log.Error("restarting a source", "feed", f.name, "stage", f.core.Name(), "position", f.cursor.Position(), "reason", why)
}

func (f *feeding) gaveUp(e *supervisor.EscalationError) {
	err := &feedError{e, f.name}
	f.become(feedGaveUp, err)
	f.of.gaveUp(err)
}

// feedError is the error of a feed that gave up. Its text does not have the
// names of the actors that ran the source.
type feedError struct {
	*supervisor.EscalationError

	feed string
}

// Error returns how often the source was restarted, and why it failed last.
func (e *feedError) Error() string {
	if e.Restarts == 0 {
		return fmt.Sprintf("feed %q: gave up: %s", e.feed, plain.Text(e.Reason))
	}
	return fmt.Sprintf("feed %q: gave up after %d restarts within %v: %s", e.feed, e.Restarts, e.Within, plain.Text(e.Reason))
}

// Unwrap returns the report of the supervisor.
func (e *feedError) Unwrap() error { return e.EscalationError }

// stop ends the source. It reports whether the feed had not ended before, and
// whether the source did not return within the grace.
func (f *feeding) stop(grace time.Duration) (lived, left bool) {
	f.life.Lock()
	f.stopped = true
	tree := f.tree
	f.life.Unlock()
	left = tree != nil && len(tree.StopWithin(grace)) > 0
	return f.become(feedStopped, nil), left
}

// errFeedStops ends the context of a source.
var errFeedStops = fmt.Errorf("%w: it is being stopped", feed.ErrEnded)

// run runs the source once.
//
//nolint:contextcheck // the values of ctx are those of the supervisor
func (f *feeding) run(ctx context.Context) error {
	own, cancel := context.WithCancelCause(f.of.base)
	defer cancel(feed.ErrEnded)
	defer context.AfterFunc(ctx, func() { cancel(errFeedStops) })()
	f.begin(cancel)
	failed := true // by a panic or runtime.Goexit
	defer func() {
		f.end(failed)
	}()
	r := &feedRun{feeding: f, ctx: own, origin: command.Submitted(own, f.of.env.Host)}
	err := f.fed.run(feed.With(own, &f.cursor), r)
	switch {
	case ctx.Err() != nil:
		failed = false
		return nil
	case own.Err() != nil: // the checkpoint was not saved
		err = context.Cause(own)
	case err == nil:
		failed = false
		cancel(feed.ErrEnded) // before the end is known: what a goroutine of the source submits after it is refused
		f.exhaust()
		return nil
	}
	f.become(feedRunning, err)
	if errors.Is(err, supervisor.ErrShutdown) || errors.Is(err, supervisor.ErrNormal) { // they would mean an end that was asked for
		err = errors.New(err.Error())
	}
	return err
}

// begin notes that a run begins, which cancel ends.
func (f *feeding) begin(cancel context.CancelCauseFunc) {
	f.cursor.SetAway(nil)
	f.become(feedRunning, nil)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.abort = cancel
	if f.saver != nil {
		f.saver.window.Touch() // a position that was not saved is saved now
	}
}

// end notes that a run has ended.
func (f *feeding) end(failed bool) {
	if failed {
		f.become(feedRestarting, nil)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.abort = nil
}

// exhaust notes that the source is exhausted.
func (f *feeding) exhaust() {
	if f.become(feedExhausted, nil) {
		f.of.log.Info("a source is exhausted", "feed", f.name, "submitted", f.submitted.Load())
		f.of.exhausted(f)
	}
}

// feedRun is one run of a source.
type feedRun struct {
	*feeding
	ctx    context.Context // ends with the run
	origin *command.Origin // of its commands
}

// submit submits a command, in turn.
func (r *feedRun) submit(load any) error {
	err := r.cursor.Submit(r.ctx, func(as feed.Terms) error { return r.accept(load, as) })
	if err == nil {
		return nil
	}
	r.refused.Add(1)
	return fmt.Errorf("feed %q: %w", r.name, err)
}

// submitFree is for [submitter].
func (r *feedRun) submitFree(n int, load func(i int) any, next func(i int) int64) int {
	n = r.cursor.SubmitFree(r.ctx, next, func() int { return r.core.Inbox().SubmitFree(r.ctx, r.origin, n, load) })
	r.submitted.Add(uint64(n))
	return n
}

// How long a submission waits before it tries again to submit what the stage
// refuses for now.
const (
	firstPause  = time.Millisecond
	longPause   = 100 * time.Millisecond
	noticePause = time.Second // waiting this long is worth a line in the log
)

// accept submits a command, and waits as long as the stage refuses it for now.
func (r *feedRun) accept(load any, as feed.Terms) error {
	origin := r.origin
	if !as.Until.IsZero() || as.Ends != nil {
		origin = origin.Until(as.Until, as.Ends)
		as.End = releases(origin, as.End)
	}
	if as.Derive != nil {
		origin = origin.Derived(as.Derive)
	}
	if as.End != nil {
		watch := command.Repeats
		if as.Heard {
			watch = command.Hears
		}
		origin = command.NewWatch(origin, watch, func(err error) { as.End(err, r.of.wasDone(err)) }).Origin()
	}
	for pause, waited := firstPause, time.Duration(0); ; pause = min(2*pause, longPause) {
		err := r.core.Inbox().SubmitSince(r.ctx, &command.Envelope{Load: load, From: origin}, as.Since)
		switch {
		case err == nil:
			r.submitted.Add(1)
			return nil
		case r.ctx.Err() != nil:
			return context.Cause(r.ctx)
		case errors.Is(err, stage.ErrClosed) && !errors.Is(err, stage.ErrDraining):
			return fmt.Errorf("%w: %w", feed.ErrEnded, err)
		}
		overload, ok := stage.Overloaded(err)
		if !ok {
			return err
		}
		if overload.Reason == reason.Rate {
			pause = min(overload.RetryAfter, noticePause)
		}
		if err := r.sleep(pause); err != nil {
			return err
		}
		if before := waited; before < noticePause && before+pause >= noticePause {
			r.of.log.Warn("a source waits: its stage refuses the command", "feed", r.name, "stage", r.core.Name(), "reason", err)
		}
		waited += pause
	}
}

// releases returns the function to call at the end of a command with a deadline
// of its own: the timer of the deadline may be far from over. End may be nil.
func releases(origin *command.Origin, end feed.End) feed.End {
	if end == nil {
		return nil
	}
	return func(err error, done bool) {
		origin.Release()
		end(err, done)
	}
}

// sleep waits unless the run ends.
func (r *feedRun) sleep(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
}

// snapshot returns the state of a feed.
func (f *feeding) snapshot() FeedSnapshot {
	checkpoint, _ := f.cursor.Checkpoint() // before the position, so that it is not behind
	s := FeedSnapshot{
		Name: f.name, Stage: f.core.Name(), Submitted: f.submitted.Load(), Refused: f.refused.Load(),
		Position: f.cursor.Position(), Total: f.cursor.Total(), Checkpoint: checkpoint,
	}
	s.Checkpoint = max(checkpoint, f.kept.Load())
	f.mu.Lock()
	defer f.mu.Unlock()
	s.State, s.Restarts, s.Err = string(f.state), f.restarts, f.err
	if away := f.cursor.Away(); away != nil && f.state == feedRunning {
		s.State, s.Err = string(feedAway), away
	}
	return s
}

// openSaver starts the saver. The source calls it when it runs for the first
// time.
func (f *feeding) openSaver(w *feed.Window, save feed.Save) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.late {
		return // an abandoned source
	}
	if f.stands != "" && f.abort != nil { // the checkpoint is inside of another function
		f.abort(&feed.FatalError{Err: errors.New(f.stands)})
		return
	}
	ctx, cancel := context.WithCancel(f.of.base)
	f.saver = &saver{
		failed: f.failSaving, window: w, save: f.of.afterLetters(save), ctx: ctx, cancel: cancel,
		finish: make(chan struct{}), finished: make(chan struct{}), saved: w.Reached(),
	}
	go f.saver.run()
}

// afterLetters returns a function that saves a checkpoint after the letters of
// the commands before it.
func (h *feedHost) afterLetters(save feed.Save) feed.Save {
	return func(ctx context.Context, at int64) error {
		if err := h.keep(); err != nil {
			return err
		}
		return save(ctx, at)
	}
}

// checkBound returns why the source would wait for ever. New refuses it for
// sources that it knows; this one is inside of another function.
func (f *feeding) checkBound(b feed.Bound) error {
	if f.standsFor == nil {
		return nil
	}
	if why := f.standsFor(b); why != "" {
		return &feed.FatalError{Err: errors.New(why)}
	}
	return nil
}

// warnStands logs that the source waits because the first of its commands
// behind the checkpoint does not end.
func (f *feeding) warnStands(waited time.Duration) {
	f.of.log.Warn("a source waits: its checkpoint lets no further command pass until the first one that has not ended ends",
		"feed", f.name, "stage", f.core.Name(), "passed", feed.Width, "waits_in", f.of.waitsIn(f.core), "for", waited.Round(time.Second))
}

// isFull closes the windows behind the feed that only further commands close,
// if nothing happens there: the source has none until some of its commands have
// ended. It is logged whenever the number of windows has doubled.
func (f *feeding) isFull() {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.still.closed
	if n := f.still.observe(f.of.behind(f.core)); n > 0 && bits.Len(uint(before)) != bits.Len(uint(before+n)) {
		f.of.log.Warn("windows are closed early: their source submits nothing more until some of its commands have ended, and no time closes them",
			"feed", f.name, "stage", f.core.Name(), "windows", before+n)
	}
}

// closeSaver asks the saver for the last checkpoint.
func (f *feeding) closeSaver() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.late = true
	if f.saver != nil {
		close(f.saver.finish)
	}
}

// lastSaved waits for the last checkpoint, and returns why it could not be
// saved.
func (f *feeding) lastSaved(ctx context.Context) error {
	f.mu.Lock()
	s := f.saver
	f.mu.Unlock()
	if s == nil {
		return nil
	}
	select {
	case <-s.finished:
	case <-ctx.Done():
		s.cancel()
		return errors.New("it takes longer than the grace")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// failSaving ends the present run of the source because a checkpoint was not
// saved: the feed has failed. Without a run the next call of save has to
// succeed.
func (f *feeding) failSaving(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
	if f.abort != nil {
		f.abort(err)
	}
}

// saver saves the checkpoints of a feed, in a goroutine of its own.
type saver struct {
	failed   func(error) // called when save has failed
	window   *feed.Window
	save     feed.Save
	ctx      context.Context // of save
	cancel   context.CancelFunc
	finish   chan struct{} // closed when no command is in flight any more
	finished chan struct{} // closed when the last checkpoint is saved, or that has failed

	mu    sync.Mutex // guards the rest
	saved int64
	err   error // of the last save
}

// run saves checkpoints until the end.
func (s *saver) run() {
	defer close(s.finished)
	defer s.cancel()
	for {
		select {
		case <-s.window.Changed():
			s.next()
		case <-s.finish:
			s.next()
			return
		}
	}
}

// next saves the present checkpoint, unless it is saved.
func (s *saver) next() {
	at := s.window.Reached()
	if at == s.savedAt() {
		return
	}
	err := s.try(at)
	s.mu.Lock()
	if s.err = err; err == nil {
		s.saved = at
	}
	s.mu.Unlock()
	if err != nil {
		s.failed(fmt.Errorf("the checkpoint %d was not saved: %w", at, err))
	}
}

func (s *saver) savedAt() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saved
}

// try calls save, in a goroutine of its own because it may end that.
func (s *saver) try(at int64) error {
	result := make(chan error, 1)
	go func() {
		err := error(&supervisor.CrashError{Child: "save", Value: errors.New("runtime.Goexit")})
		defer func() {
			if v := recover(); v != nil {
				err = &supervisor.CrashError{Child: "save", Value: v, Stack: debug.Stack()}
			}
			result <- err
		}()
		err = s.save(s.ctx, at)
	}()
	return <-result
}

// rests reports whether a stage has no commands except commands that it holds
// in windows, and returns the holder of these; nil if it holds none.
func rests(in *inbox.Inbox, a *inbox.Accounts) (holder link.Holder, ok bool) {
	held := 0
	if h := in.Config().Holder; h != nil {
		if held = h.HeldCommands(); held > 0 {
			holder = h
		}
	}
	q := &a.Queue
	return holder, q.Queued+q.Delayed+q.Carried+a.Out == 0 && q.InHand == held && q.Suspended == held
}

// happened is a number that grows with all that happens to the commands of a
// stage.
func happened(c *stats.Counts) uint64 { return c.Accepted + c.Ended() + c.Emitted + c.Retries }

// standsAfter is for how long nothing may happen behind a source that waits,
// until windows are closed.
const standsAfter = time.Second

// standing is a feed's knowledge of the stages behind it, while its source
// waits for the ends of its commands.
type standing struct {
	number uint64
	since  time.Time // zero if something happens
	closed int       // windows that were closed
}

// observe closes the windows that only commands close, if nothing has happened
// for long enough in the stages from a feed's on. It returns how many.
func (st *standing) observe(inboxes []*inbox.Inbox) (n int) {
	accounts := inbox.Counts(inboxes)
	var number uint64
	var holders []link.Holder
	for i := range accounts {
		holder, ok := rests(inboxes[i], &accounts[i])
		if !ok {
			st.since = time.Time{}
			return 0
		}
		if number += happened(&accounts[i].Counts); holder != nil {
			holders = append(holders, holder)
		}
	}
	if now := time.Now(); st.since.IsZero() || number != st.number {
		st.number, st.since = number, now
		return 0
	} else if now.Sub(st.since) < standsAfter {
		return 0
	}
	st.since = time.Time{}
	for _, h := range holders {
		n += h.ReleaseTimeless()
	}
	st.closed += n
	return n
}
