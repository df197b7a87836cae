package pipeline_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/supervisor"
)

// A function of the public API panics at once when its context is nil, names the call, and has no other effect.
func TestANilContextPanicsAtOnceAndChangesNothing(t *testing.T) {
	var none context.Context
	s, other := stage.Func("s", echo[int]), stage.Func("other", echo[int])
	p := run(t, s, other)
	made, err := pipeline.New("made", stage.Func("s", echo[int]), quiet)
	require.NoError(t, err)
	ticket, err := s.Ask(t.Context(), 1)
	require.NoError(t, err)
	tree, err := supervisor.Start(t.Context(), nil, supervisor.Spec{})
	require.NoError(t, err)
	defer tree.Stop()
	port := behaviour.NewPort[int]("port")

	for call, f := range map[string]func(){
		"stage: Submit":            func() { _ = s.Submit(none, 1) },
		"stage: SubmitAll":         func() { _, _ = s.SubmitAll(none) },
		"stage: Ask":               func() { _, _ = s.Ask(none, 1) },
		"stage: Call":              func() { _, _ = stage.Call[int](none, s, 1) },
		"stage: Ticket.Wait":       func() { _, _ = ticket.Wait(none) },
		"stage: Upgrade":           func() { _, _ = s.Upgrade(none, func() behaviour.Behaviour[int] { return fn(echo[int]) }) },
		"pipeline: Start":          func() { _ = made.Start(none) },
		"pipeline: Run":            func() { _ = made.Run(none) },
		"pipeline: RunUntilSignal": func() { _ = made.RunUntilSignal(none) },
		"pipeline: Stop":           func() { _ = p.Stop(none) },
		"pipeline: Drain":          func() { _ = p.Drain(none, s) },
		"pipeline: Add":            func() { _ = p.Add(none, stage.Func("fresh", echo[int])) },
		"pipeline: Remove":         func() { _ = p.Remove(none, other) },
		"letters: Retry":           func() { _ = p.DeadLetters().Retry(none, 1) },
		"letters: RetryAs":         func() { _ = p.DeadLetters().RetryAs(none, 1, 2) },
		"letters: RetryAll":        func() { _, _ = p.DeadLetters().RetryAll(none, letters.Filter{}) },
		"supervisor: Start":        func() { _, _ = supervisor.Start(none, nil, supervisor.Spec{}) },
		"supervisor: Run":          func() { _ = supervisor.Run(none, supervisor.Spec{}) },
		"supervisor: Add":          func() { _, _ = tree.Add(none, supervisor.Service("s", (*pipeline.Pipeline)(nil).Run)) },
		"supervisor: Restart":      func() { _ = tree.Restart(none, "s") },
		"coroutine: Blocking":      func() { coroutine.Blocking(none) },
	} {
		require.PanicsWithValue(t, call+": nil context", f)
	}

	require.ErrorIs(t, behaviour.Emit(none, s, 1), behaviour.ErrNoWorker, "as with any context that is not a handler's")
	require.ErrorIs(t, port.Submit(none, 1), behaviour.ErrUnwired)
	require.Zero(t, behaviour.Attempt(none))
	require.InDelta(t, 1, behaviour.Quality(none), 0)

	_, err = ticket.Wait(soon(t))
	require.NoError(t, err)
	require.EqualValues(t, 1, p.Snapshot().Accepted)
	up, err := s.Upgrade(t.Context(), func() behaviour.Behaviour[int] { return fn(echo[int]) })
	require.NoError(t, err, "no upgrade is under way")
	await(t, up)
	require.NoError(t, p.Drain(soon(t), s))
	require.NoError(t, p.Reopen(s))
	require.NoError(t, made.Start(t.Context()), "it was not started")
	require.NoError(t, made.Stop(soon(t)))
}
