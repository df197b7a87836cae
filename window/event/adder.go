package event

import (
	"context"
	"errors"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/stage"
)

// adder is the behaviour of the stage that takes the commands. It has no
// coroutines, because all commands leave it at once: a window is held by a
// command of the stage behind, which its first command emits.
//
// A user's function is not called under the lock of the keeper. Nothing but the
// adder changes an open window meanwhile, except a hard stop, which closes it.
type adder[K comparable, C, A any] struct {
	keeper *keeper[K, A]
	fold   Fold[K, C, A]
	mark   Watermark[C]
	late   *behaviour.Port[C]
	to     *behaviour.Inlet // of the keeper
}

// emitter is the worker as a handler sees it.
type emitter interface {
	// Origin returns the origin of the command that is handled.
	Origin() *command.Origin
	// EmitApart emits a command that does not end with its caller, and whose
	// end is learned.
	EmitApart(ctx context.Context, to *behaviour.Inlet, load any, ended func(error)) (*command.Origin, error)
}

// share is a window that a command is added to.
type share[K comparable, A any] struct {
	w     *window[K, A]
	other *window[K, A] // that becomes part of w; nil if there is none
	value A             // of w with the command
}

var (
	errTime    = errors.New("event: the time of the command is zero, or not in the years from 1700 to 2200")
	errKey     = errors.New("event: the key of the command is not equal to itself")
	errGivenUp = errors.New("event: the worker that added the command was given up")
	errLost    = errors.New("event: the window was lost before it was passed on")
	errCrashed = errors.New("event: passing on a window crashed")
)

var earliest, latest = time.Date(1700, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)

// HandleCommand adds a command to its windows, and has the watermark pass.
func (s *adder[K, C, A]) HandleCommand(ctx context.Context, cmd C) behaviour.Outcome {
	at, key := s.fold.at(cmd), s.fold.key(cmd)
	source := ""
	if s.mark.Source != nil {
		source = s.mark.Source(cmd)
	}
	switch {
	case at.Before(earliest) || at.After(latest):
		return behaviour.Error(errTime)
	case key != key: //nolint:gocritic // a NaN, which no map finds again
		return behaviour.Error(errKey)
	}
	opened, late, err := s.add(ctx, key, at.UnixNano(), source, cmd)
	if err == nil {
		err = s.hold(ctx, opened)
	}
	switch {
	case err != nil:
		return behaviour.Error(err)
	case !late || s.mark.Dropped != nil:
		return behaviour.OK(nil)
	case s.mark.Late != nil:
		return behaviour.Forward(s.late, cmd)
	default:
		return behaviour.Error(ErrLate)
	}
}

// add adds a command to its windows. It returns the panes that it has begun,
// and whether the command is late: then it is in no window.
func (s *adder[K, C, A]) add(ctx context.Context, key K, at int64, source string, cmd C) (opened []*pane[K, A], late bool, err error) {
	var room [2]share[K, A]
	k := s.keeper
	shares, turn := k.begin(key, at, room[:0])
	returned := false
	defer func() {
		if !returned { // a user's function has crashed
			k.end(turn)
		}
	}()
	for i := range shares {
		one := &shares[i]
		if one.value = one.w.value; one.other != nil {
			one.value = k.form.merge(one.value, one.other.value)
		}
		one.value = s.fold.add(one.value, cmd)
	}
	var from *command.Origin
	if worker, ok := ctx.Value(link.EmitterKey{}).(emitter); ok {
		from = worker.Origin()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	returned = true
	k.endLocked(turn)
	if late = len(shares) == 0; late && s.mark.Dropped != nil {
		s.mark.Dropped.Add(1)
	}
	if err := k.mayPut(ctx, turn, shares); err != nil {
		return nil, late, err
	}
	var of *entry[K, A]
	if late {
		of = k.keys[key]
	} else {
		of = shares[0].w.of
		for i := range shares {
			if p := k.putLocked(at, &shares[i], from); p != nil {
				opened = append(opened, p)
			}
		}
	}
	k.passLocked(of, at, source)
	return opened, late, nil
}

// hold emits a command for each pane that has begun, which holds it.
func (s *adder[K, C, A]) hold(ctx context.Context, opened []*pane[K, A]) (err error) {
	if len(opened) == 0 {
		return nil
	}
	worker, ok := ctx.Value(link.EmitterKey{}).(emitter)
	if !ok {
		err = behaviour.ErrNoWorker
	}
	for _, p := range opened {
		var from *command.Origin
		if err == nil {
			from, err = worker.EmitApart(ctx, s.to, link.Load(s.to, &p), func(err error) { s.keeper.ended(p, err) })
		}
		if err != nil {
			s.keeper.ended(p, err)
			continue
		}
		s.keeper.mu.Lock()
		p.from = from
		s.keeper.mu.Unlock()
	}
	return err
}

// Fixed returns the options of the stage that do not depend on the user: it has
// one worker, of its own.
func (s *adder[K, C, A]) Fixed(part.Seal) (why string, opts []stage.Option) {
	return fixedBy, []stage.Option{stage.Workers(1, 1), stage.Blocking()}
}

const fixedBy = "a window sets it itself"
