package behaviour_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/link"
)

// sink is a target that keeps nothing: it stands in for a stage.
type sink[C any] struct{ inlet *behaviour.Inlet }

func newSink[C any](name string) sink[C] { return sink[C]{link.NewInlet(name, nil)} }

func (s sink[C]) Submit(context.Context, C) error { return nil }
func (s sink[C]) Inlet() *behaviour.Inlet         { return s.inlet }

func TestAnOutcomeIsOneOfThree(t *testing.T) {
	reason := errors.New("no")
	save := newSink[string]("save")
	rows := map[string]struct {
		o       behaviour.Outcome
		kind    behaviour.Kind
		word    string
		result  any
		command any
		next    *behaviour.Inlet
		err     error
	}{
		"ok carries a result":              {behaviour.OK(7), behaviour.KindOK, "ok", 7, nil, nil, nil},
		"ok may carry nothing":             {behaviour.OK(nil), behaviour.KindOK, "ok", nil, nil, nil, nil},
		"forward carries a command":        {behaviour.Forward(save, "a"), behaviour.KindForward, "forward", nil, "a", save.inlet, nil},
		"forward may answer the caller":    {behaviour.Forward(save, "a").WithReply(7), behaviour.KindForward, "forward", 7, "a", save.inlet, nil},
		"the last reply counts":            {behaviour.Forward(save, "a").WithReply(7).WithReply(8), behaviour.KindForward, "forward", 8, "a", save.inlet, nil},
		"an ok has its result only":        {behaviour.OK(7).WithReply(8), behaviour.KindOK, "ok", 7, nil, nil, nil},
		"an error is not answered":         {behaviour.Error(reason).WithReply(8), behaviour.KindError, "error", nil, nil, nil, reason},
		"no outcome stays none":            {behaviour.Outcome{}.WithReply(8), 0, "none", nil, nil, nil, behaviour.ErrNoOutcome},
		"error carries a reason":           {behaviour.Error(reason), behaviour.KindError, "error", nil, nil, nil, reason},
		"an error without a reason is one": {behaviour.Error(nil), behaviour.KindError, "error", nil, nil, nil, errors.New("behaviour: error without a reason")},
		"the zero outcome is an error":     {behaviour.Outcome{}, 0, "none", nil, nil, nil, behaviour.ErrNoOutcome},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, row.kind, row.o.Kind())
			require.Equal(t, row.word, row.o.Kind().String())
			require.Equal(t, row.result, row.o.Result())
			require.Equal(t, row.command, row.o.Command())
			require.Same(t, row.next, row.o.Next())
			if row.err == nil {
				require.NoError(t, row.o.Err())
				return
			}
			require.EqualError(t, row.o.Err(), row.err.Error())
		})
	}
}

func TestForwardingToNothingIsAClearError(t *testing.T) {
	var noTarget behaviour.Target[string]
	var noPort *behaviour.Port[string]
	for name, o := range map[string]behaviour.Outcome{
		"nil":              behaviour.Forward(noTarget, "a"),
		"a nil port":       behaviour.Forward(noPort, "a"),
		"a port not wired": behaviour.Forward(behaviour.NewPort[string]("out"), "a"),
	} {
		t.Run(name, func(t *testing.T) { require.ErrorIs(t, o.Err(), behaviour.ErrUnwired) })
	}
}

func TestAPortIsWiredOnce(t *testing.T) {
	port := behaviour.NewPort[string]("out")
	require.False(t, port.Wired())
	require.ErrorIs(t, port.Submit(t.Context(), "a"), behaviour.ErrUnwired)
	require.ErrorIs(t, port.Connect(nil), behaviour.ErrUnwired)

	save := newSink[string]("save")
	require.NoError(t, port.Connect(save))
	require.True(t, port.Wired())
	require.NoError(t, port.Submit(t.Context(), "a"))
	require.Same(t, save.inlet, behaviour.Forward(port, "a").Next())

	err := port.Connect(newSink[string]("other"))
	require.ErrorContains(t, err, `port "out" leads to "save": behaviour: port is already wired`)
}

func TestEmitFindsItsHandlerInTheContext(t *testing.T) {
	save := newSink[int]("save")
	require.ErrorIs(t, behaviour.Emit(t.Context(), save, 1), behaviour.ErrNoWorker)
	require.ErrorIs(t, behaviour.Emit[int](t.Context(), nil, 1), behaviour.ErrUnwired)
	require.ErrorIs(t, behaviour.Emit(t.Context(), behaviour.NewPort[int]("out"), 1), behaviour.ErrUnwired)
	require.Zero(t, behaviour.Attempt(t.Context()))

	e := &emitter{}
	ctx := context.WithValue(t.Context(), link.EmitterKey{}, link.Emitter(e))
	require.NoError(t, behaviour.Emit(ctx, save, 1))
	require.Equal(t, []any{1}, e.sent)
	require.Equal(t, 3, behaviour.Attempt(ctx))
}

type emitter struct{ sent []any }

func (e *emitter) Emit(_ context.Context, _ *behaviour.Inlet, cmd any) error {
	e.sent = append(e.sent, cmd)
	return nil
}
func (e *emitter) Attempt() int { return 3 }
