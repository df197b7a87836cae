package stage

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"hash/maphash"
	"reflect"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/line"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/version"
)

// Keyed makes a stage that handles the commands of one key one after the other,
// in the order of their arrival, with an instance for each key that keeps the
// key's state. Commands of different keys are handled in parallel: a key with
// many commands, or with a slow handler, holds up no other here: the commands
// of one key hold a quarter of the slots at most, see [KeyCapacity], and also
// for when it does hold up the stage before.
//
//	count := stage.Keyed("count", Record.Host, func(host string) *counter { return &counter{host: host} })
//
// The factory makes the instance of a key when the first command of the key is
// handled. One instance handles one command at a time, so its fields need no
// lock. If the instance has a Start, it is called before the first command. The
// key of that command decides what factory and Start do, so their panics, and
// an error of Start, are crashes that are charged to the command, also if no
// instance can be made at all: the stage does not give up unless
// [RestartPolicy] has a Limit, and [Retry] tries the command again. After a
// crash of its handler the instance is stopped, and the key's next command gets
// a fresh one, which begins with the state after the last command that did not
// crash, if the instances are [behaviour.Snapshotter]s and
// [behaviour.Restorer]s. An instance is kept until the stage stops, or longer
// than [Passivate] says; then its Stop is called, if it has one. When the stage
// stops, or is restarted because a stage broke, no state is kept.
//
// The results of one key leave the stage in order, too, unless a crash comes
// between. A command that is tried again, after a crash or an error, keeps its
// place: later commands of its key wait for it, and other keys do not.
//
// Key is called several times for each command, by any goroutine, perhaps many
// at once: it must be quick, always return the same for the same command, and
// call nothing of the pipeline. A command whose key panics crashes in the
// stage, and so does one whose key is not equal to itself, such as a NaN. Such
// commands have no order, and wait for no others.
//
// If the type that the factory is declared to return is a
// [behaviour.Suspending], handlers may wait without holding a worker. A key
// whose handler is suspended waits for it, in order, and other keys do not;
// [Instances] bounds how many handlers are under way. The instance is the key's
// for all that time, so its fields need no lock here either. A handler that
// calls its own stage for its own key has the error [ErrSelfCall]. If it waits
// for its key in another way, through a second stage or with a [Ticket], it
// waits for itself until its [Timeout], or until the context ends that it waits
// with. While handlers are suspended, a restart of the stage keeps all
// instances.
//
// The instances cannot be Batchers. A keyed stage has an order of its own, so
// it takes no [Discipline], and policies do not change its order. It cannot be
// upgraded. Of a full stage that drops the oldest command (DropOldest), it is
// the oldest of some key. For a state that several keys share, return the same
// key for them, such as a hash modulo a number. [RateBy] bounds how often
// commands of one key are handled.
func Keyed[C any, K comparable, B behaviour.Behaviour[C]](
	name string, key func(cmd C) K, factory func(key K) B, opts ...Option,
) *Stage[C] {
	s := &keyed[C, K, B]{name: name, key: key, factory: factory, seed: maphash.MakeSeed()}
	s.suspends = reflect.TypeFor[B]().Implements(reflect.TypeFor[behaviour.Suspending[C]]())
	var b behaviour.Behaviour[C] = s
	if s.suspends {
		b = keyedSuspending[C, K, B]{s}
	}
	st := New(name, b, append([]Option{s.option}, opts...)...)
	s.report = st.core.LogPanic
	set := st.set
	set.keying.count = s.count
	s.every = max(set.snapshotEvery, 1)
	if key == nil {
		set.flaw("Keyed", "the function for the key is nil")
	}
	if factory == nil {
		set.flaw("Keyed", "the factory is nil")
	}
	if of := reflect.TypeFor[B](); of.Implements(reflect.TypeFor[behaviour.Batcher[C]]()) {
		set.flaw("Keyed", fmt.Sprintf("%v is a Batcher; a keyed stage handles one command at a time", of))
	}
	if s.saves = s.checkSaves(set); s.saves {
		st.core.Deferring()
		set.engine.Stateful = s
	}
	s.idle, s.most, s.states = set.keying.idle, set.keying.most, set.keying.kept
	return st
}

// Passivate bounds the instances of a [Keyed] stage. An instance that has
// handled no command for at least the time idle, and at most a quarter longer,
// is stopped and forgotten; 0 means never. When there are more than most
// instances, the stage stops the instances that have handled no command for
// longest, nearly in that order; 0 means any number. Instances at work are
// never stopped, so there may be as many more as there are handlers under way,
// and up to 2 % more. The next command of such a key gets a fresh instance: for
// a state that must not be lost there is [KeepStates], or the instance saves it
// in its Stop, and reads it in the factory or its Start. The snapshot counts
// instances and passivations.
func Passivate(idle time.Duration, most int) Option {
	return once("Passivate", func(s *settings) { s.keying.idle, s.keying.most, s.keying.passivates = idle, most, true })
}

// KeepStates keeps the last snapshots of up to most instances that [Passivate]
// has stopped, for the next instances of their keys; see
// [behaviour.Snapshotter]. When there are more, the oldest are dropped, nearly
// in that order. Without KeepStates none is kept.
func KeepStates(most int) Option {
	return once("KeepStates", func(s *settings) { s.keying.kept, s.keying.keeps = most, true })
}

// ParkOnFailure has a key of a [Keyed] stage wait for the letter of a command
// that has failed: the key is parked. No later command of the key is handled,
// so none overtakes the one that failed; other keys go on.
//
//	book := stage.Keyed("book", Entry.Account, newAccount, stage.ParkOnFailure())
//
// A command parks its key if it ends with an error, or with a crash, after all
// tries of [Retry], and leaves a letter with the pipeline. A failure that leaves
// no letter does not: that of a command for which a caller waits, with
// [Stage.Ask] or [Call], unless it crashed. Nor does a command that expires, is
// dropped or is refused, or whose key panics.
//
// The key goes on when the letter has left the store of its pipeline: when it
// is retried, with its own command or with another one in its place, or
// dropped. A retried command comes first, before all that wait, and needs no
// free slot; if it fails again, the key is parked again. A command of another
// key that takes its place is submitted as any other. Letters that are imported,
// or come back with Dir of letters.Options, park their keys too, before the
// stage takes commands. If a key has several letters, it waits for all of them,
// and their commands come in the order in which they were retried. A letter
// that a full store evicts lets its key go on, with a line in the log: see
// pipeline.KeepLetters.
//
// As many commands of a parked key wait as [KeyCapacity] says; for further ones
// the [Overflow] rule of the stage decides. The commands of parked keys do not
// count against the [Capacity] of the stage, as long as they are no more than
// that in all, so they hold up no other key. [TTL] and the ends of callers'
// contexts end commands that wait, as always.
//
// A drain cannot end while commands wait for parked keys: it fails with
// pipeline.ErrParked when nothing else is left, and a stop is a hard one then.
// Commands that it ends leave letters, which park no key; commands of a source
// with a checkpoint come again. So a ledger that survives a restart has
// source.Checkpoint and Dir of letters.Options. A source that delivers a failed
// command again by itself, such as an inlet of adapter/nats, cannot feed the
// stage, and pipeline.Checkpoint, which is saved when nothing waits, cannot save
// it: pipeline.New says so.
func ParkOnFailure() Option {
	return once("ParkOnFailure", func(s *settings) { s.engine.Inbox.Parks = true })
}

// option makes the stage a keyed one. It comes first and has no place among the
// options that were given.
func (s *keyed[C, K, B]) option(set *settings) {
	set.options.at = 0
	set.keying.on, set.keying.of = true, reflect.ValueOf(s.key).Pointer()
	set.keying.spread = s.spread
	set.engine.KeyOf = anyKey(s.key)
	set.engine.Inbox.KeyCapacity = line.QuarterOfCapacity
	set.engine.Inbox.Key = func(load any) uint64 {
		if b, ok := load.(*link.Box[C]); ok { // link.Open, without its copy of the command
			return hashOf(s.seed, s.key(*b.Command()))
		}
		return hashOf(s.seed, s.key(link.Open[C](load)))
	}
}

// HandleCommand handles a command with the instance of its key. It does not if
// its context ends before the instance is ready. If the instances suspend, so
// may ctx.
func (s *keyed[C, K, B]) HandleCommand(ctx context.Context, cmd C) behaviour.Outcome {
	e := s.acquire(ctx, s.key(cmd))
	if e == nil {
		return behaviour.Error(cmp.Or(context.Cause(ctx), ErrStopped))
	}
	done := false
	defer func() { s.release(ctx, e, done) }()
	if !e.made {
		s.make(e)
		if s.late(ctx) {
			done = true
			return behaviour.Error(context.Cause(ctx))
		}
	}
	o := s.handle(ctx, e.instance, cmd)
	if s.saves {
		s.note(e)
	}
	done = true
	return o
}

// handle has an instance handle a command.
func (s *keyed[C, K, B]) handle(ctx context.Context, b B, cmd C) behaviour.Outcome {
	if s.suspends {
		return any(b).(behaviour.Suspending[C]).HandleSuspending(ctx.(behaviour.Suspender), cmd)
	}
	return b.HandleCommand(ctx, cmd)
}

// keyedSuspending is the behaviour of a keyed stage whose instances suspend.
type keyedSuspending[C any, K comparable, B behaviour.Behaviour[C]] struct{ *keyed[C, K, B] }

// HandleSuspending handles a command with the instance of its key, which no
// other command gets while the handler is suspended.
func (s keyedSuspending[C, K, B]) HandleSuspending(c behaviour.Suspender, cmd C) behaviour.Outcome {
	return s.HandleCommand(c, cmd)
}

// checkSaves reports whether instances may have snapshots: of some interface
// types only the factory knows.
func (s *keyed[C, K, B]) checkSaves(set *settings) bool {
	var b B
	if any(b) == nil {
		return true
	}
	saved := version.SavedOf(b, 1)
	if err := saved.Flaw(); err != nil {
		set.flaw("Keyed", err.Error())
	}
	if saved == nil && set.keying.keeps {
		set.flaw("KeepStates", fmt.Sprintf("%T is no Snapshotter", b))
	}
	return saved != nil
}

// spread returns a function that gives the key of a command a number which is
// the same in all processes.
func (s *keyed[C, K, B]) spread() (of func(cmd any) uint64, err error) {
	if of := reflect.TypeFor[K](); !portable(of) {
		return nil, fmt.Errorf("its key, %v, is not the same in every process: use a string, an integer, or an array or struct of these", of)
	}
	return func(cmd any) uint64 {
		c, _ := cmd.(C) // a nil of an interface type is its zero value
		h := fnv.New64a()
		_, _ = fmt.Fprintf(h, "%#v", s.key(c))
		return h.Sum64()
	}, nil
}

// portable reports whether the values of a type are formatted alike in all
// processes.
func portable(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.UnsafePointer, reflect.Chan, reflect.Interface, reflect.Func, reflect.Map, reflect.Slice,
		reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128: // -0 equals 0
		return false
	case reflect.Array:
		return portable(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !portable(t.Field(i).Type) {
				return false
			}
		}
		return true
	default:
		return true
	}
}
