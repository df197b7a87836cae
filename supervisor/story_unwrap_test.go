package supervisor

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	errBroken  = errors.New("broken")
	errStarted = errors.New("cannot start")
	errOld     = errors.New("an old failure")
)

// The error of a child that fails and then cannot be started again holds both reasons.
func TestAnEscalationAfterAFailedRestartHoldsWhatTheRestartWasFor(t *testing.T) {
	e := &EscalationError{Child: "c", Reason: errStarted, Failures: []Failure{
		{Child: "c", Reason: errOld},
		{Child: "sibling", Reason: errBroken},
		{Child: "c", Starting: true, Reason: errStarted},
		{Child: "c", Starting: true, Reason: errStarted},
	}}
	require.ErrorIs(t, e, errStarted)
	require.ErrorIs(t, e, errBroken)
	require.NotErrorIs(t, e, errOld)

	e = &EscalationError{Child: "c", Reason: errBroken, Failures: []Failure{{Child: "c", Reason: errOld}, {Child: "c", Reason: errBroken}}}
	require.ErrorIs(t, e, errBroken)
	require.NotErrorIs(t, e, errOld)
	require.ErrorIs(t, &EscalationError{Child: "c", Reason: errStarted}, errStarted)
}
