package stage

import (
	"context"
	"slices"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/version"
	"github.com/golda-dev/golda/worker"
)

// instance is a behaviour without its command type. Commands have that type:
// the compiler checked it, or the endpoint.
type instance[C any] struct {
	one  behaviour.Behaviour[C]
	call behaviour.Func[C]    // one's HandleCommand, or the function that one is
	many behaviour.Batcher[C] // nil if the behaviour is no Batcher

	suspends bool // the context of call must be a Suspender

	saved *version.Saved // nil if the behaviour has no snapshots

	of      *version.Version
	version string // of a Versioned behaviour

	set        *settings // of the stage
	surrounded bool      // by the middleware; see surround
}

func instanceOf[C any](b behaviour.Behaviour[C], of *version.Version, set *settings) engine.Instance {
	call, ok := b.(behaviour.Func[C])
	if !ok {
		call = b.HandleCommand
	}
	suspending, suspends := b.(behaviour.Suspending[C])
	if suspends {
		handle, ok := b.(behaviour.Coroutine[C]) // without a frame for its method, which each suspended command would hold
		if !ok {
			handle = suspending.HandleSuspending
		}
		call = func(ctx context.Context, cmd C) behaviour.Outcome { return handle(ctx.(behaviour.Suspender), cmd) }
	}
	many, _ := b.(behaviour.Batcher[C])
	named := ""
	if v, ok := b.(behaviour.Versioned); ok {
		named = v.Version()
	}
	return &instance[C]{
		one: b, call: call, many: many, suspends: suspends, of: of, version: named, set: set,
		saved: version.SavedOf(b, set.snapshotEvery),
	}
}

// Of returns the version that made the instance.
func (i *instance[C]) Of() *version.Version { return i.of }

// Version returns the version that the behaviour returned when the instance was
// made.
func (i *instance[C]) Version() string { return i.version }

// surround puts the middleware around the behaviour, once. It is called when
// the instance starts: before that, the stage may not have a pipeline yet.
func (i *instance[C]) surround() {
	if i.surrounded {
		return
	}
	i.surrounded = true
	if asks := i.set.asks(); len(asks) > 0 {
		i.call = asking(asks, i.call)
		if i.many != nil {
			i.many = askingMany[C]{i.many, asks}
		}
	}
	var each eachOf
	if i.many != nil {
		each = eachCommand[C]
	}
	name, all := i.set.engine.Inbox.Name, i.set.middleware(each)
	switch {
	case len(all) == 0:
	case i.many != nil:
		i.many = surrounded[C]{i.many, chain(name, all, handleBatch(i.many))}
	default:
		whole := chain(name, all, handleOne(i.call, i.suspends))
		i.call = func(ctx context.Context, cmd C) behaviour.Outcome { return whole(ctx, cmd) }
	}
}

// middleware returns the middleware of the stage, the outermost first.
func (s *settings) middleware(each eachOf) []MiddlewareFunc {
	all := slices.Concat(s.wide, s.around)
	if s.method != nil {
		all = slices.Insert(all, 0, guarded(s.inbox, s.method, each, s.givesUpAfter()))
	}
	return all
}

// Start calls the behaviour's Start, if it has one.
func (i *instance[C]) Start(ctx context.Context) error {
	i.surround()
	if s, ok := i.one.(behaviour.Starter); ok {
		return s.Start(ctx)
	}
	return nil
}

// Stop calls the behaviour's Stop, if it has one.
func (i *instance[C]) Stop() {
	if s, ok := i.one.(behaviour.Stopper); ok {
		s.Stop()
	}
}

// Stops reports whether the behaviour has a Stop.
func (i *instance[C]) Stops() bool {
	_, ok := i.one.(behaviour.Stopper)
	return ok
}

// Saved returns the saved state of the behaviour; nil if it has no snapshots.
func (i *instance[C]) Saved() *version.Saved { return i.saved }

// Suspends reports whether the behaviour is Suspending.
func (i *instance[C]) Suspends() bool { return i.suspends }

// Many reports whether the behaviour is a Batcher.
func (i *instance[C]) Many() bool { return i.many != nil }

// resume continues what a command of an earlier process had begun.
type resume = *link.Resume[behaviour.Suspender, behaviour.Outcome]

// Handle handles one command.
func (i *instance[C]) Handle(ctx context.Context, load any) behaviour.Outcome {
	if i.suspends {
		if r, ok := load.(resume); ok {
			return r.Run(ctx.(behaviour.Suspender))
		}
	}
	if b, ok := load.(*link.Box[C]); ok { // link.Open, without its copy of the command
		return i.call(ctx, *b.Command())
	}
	return i.call(ctx, link.Open[C](load))
}

// HandleEach handles the commands of a batch, one after the other, until the
// worker is halted.
func (i *instance[C]) HandleEach(ctx context.Context, w *worker.Worker, batch worker.Batch) {
	call, halted := i.call, w.Halts()
	for n := range batch {
		if halted.Load() {
			return
		}
		if batch[n].From != nil {
			i.handleFrom(w, batch[n].Load) //nolint:contextcheck // the command has a context of its own
			continue
		}
		load := batch[n].Load
		if c, ok := load.(C); ok {
			w.SettleBare(call(ctx, c))
		} else if b, ok := load.(*link.Box[C]); ok { // link.Open, without its copy of the command
			w.Settle(call(ctx, *b.Command()))
		} else {
			w.Settle(call(ctx, link.Open[C](load)))
		}
	}
}

// handleFrom handles a command that may have its caller's context. It is a
// function of its own to keep the loop of HandleEach small for the other
// commands.
//
//go:noinline
func (i *instance[C]) handleFrom(w *worker.Worker, load any) {
	ctx := w.Begin()
	if ctx == nil {
		return
	}
	o := i.call(ctx, link.Open[C](load))
	w.End()
	w.Settle(o)
}

// HandleMany handles a batch. It makes a slice for each batch, because several
// workers may share the behaviour; one allocation for a batch is cheap.
func (i *instance[C]) HandleMany(ctx context.Context, batch worker.Batch) []behaviour.Outcome {
	cmds := make([]C, len(batch))
	for n := range batch {
		cmds[n] = link.Open[C](batch[n].Load)
	}
	return i.many.HandleBatch(command.Batched(ctx, batch), cmds)
}
