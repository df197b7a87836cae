package verdict_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/internal/verdict"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

func TestAVerdictFollowsFromTheErrorAndTheDeliveries(t *testing.T) {
	no := errors.New("no")
	policy := stage.RetryPolicy{Attempts: 3, Backoff: 10, Max: 30}
	slow := verdict.Filled(stage.RetryPolicy{Attempts: 3, Backoff: 10}, time.Minute)
	only := policy
	only.If = func(err error) bool { return errors.Is(err, no) || stage.Crashed(err) }
	crashing := policy
	crashing.If = func(error) bool { panic("no") }
	for name, c := range map[string]struct {
		policy stage.RetryPolicy
		times  int
		err    error
		want   verdict.Verdict
	}{
		"a good end":                       {policy, 1, nil, verdict.Verdict{Act: verdict.Ack}},
		"a good end after many deliveries": {policy, 9, nil, verdict.Verdict{Act: verdict.Ack}},
		"a first failure":                  {policy, 1, no, verdict.Verdict{Act: verdict.GiveBack, Delay: 10}},
		"a second failure":                 {policy, 2, no, verdict.Verdict{Act: verdict.GiveBack, Delay: 20}},
		"the last failure":                 {policy, 3, no, verdict.Verdict{Act: verdict.Bury, Reason: reason.Error}},
		"a failure after the last":         {policy, 9, no, verdict.Verdict{Act: verdict.Bury, Reason: reason.Error}},
		"a hard stop":                      {policy, 1, fmt.Errorf("x: %w", stage.ErrStopped), verdict.Verdict{Act: verdict.GiveBack}},
		"a hard stop at the last delivery": {policy, 3, stage.ErrStopped, verdict.Verdict{Act: verdict.GiveBack}},
		"a crash":                          {policy, 1, &stage.CrashError{}, verdict.Verdict{Act: verdict.Bury, Reason: reason.Crash}},
		"a crash that may be tried again":  {only, 1, &stage.CrashError{}, verdict.Verdict{Act: verdict.GiveBack, Delay: 10}},
		"the last crash":                   {only, 3, &stage.CrashError{}, verdict.Verdict{Act: verdict.Bury, Reason: reason.Crash}},
		"a command that expired":           {policy, 1, stage.ErrExpired, verdict.Verdict{Act: verdict.Bury, Reason: reason.Expired}},
		"an error that is chosen":          {only, 1, no, verdict.Verdict{Act: verdict.GiveBack, Delay: 10}},
		"an error that is not":             {only, 1, errors.New("other"), verdict.Verdict{Act: verdict.Bury, Reason: reason.Error}},
		"an error for which If panics":     {crashing, 1, no, verdict.Verdict{Act: verdict.Bury, Reason: reason.Error}},
		"a refusal":                        {policy, 1, fmt.Errorf("x: %w", stage.ErrFull), verdict.Verdict{Act: verdict.GiveBack, Delay: 30, Free: true}},
		"a refusal after the last":         {policy, 9, stage.ErrFull, verdict.Verdict{Act: verdict.GiveBack, Delay: 30, Free: true}},
		"a refusal with a hint":            {slow, 9, asks(2 * time.Second), verdict.Verdict{Act: verdict.GiveBack, Delay: 2 * time.Second, Free: true}},
		"a refusal with a hint too long":   {slow, 9, asks(68 * 365 * 24 * time.Hour), verdict.Verdict{Act: verdict.GiveBack, Delay: time.Minute, Free: true}},
		"a crash with a refusal":           {only, 3, &stage.CrashError{Value: stage.ErrFull}, verdict.Verdict{Act: verdict.Bury, Reason: reason.Crash}},
		"an overload that was tried":       {policy, 3, stage.ErrMaxInFlight, verdict.Verdict{Act: verdict.Bury, Reason: reason.Error}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, verdict.Of(slog.New(slog.DiscardHandler), c.policy, c.times, c.err))
		})
	}
}

// asks is the error of a service that asks for a pause.
type asks time.Duration

func (asks) Error() string { return "too much to do" }
func (a asks) Overload() (stage.Overload, bool) {
	return stage.Overload{Reason: "service", RetryAfter: time.Duration(a)}, true
}

func TestAPauseThatWasCutIsLogged(t *testing.T) {
	for asked, logged := range map[asks]bool{asks(time.Second): false, asks(time.Hour): true} {
		var log bytes.Buffer
		verdict.Of(slog.New(slog.NewTextHandler(&log, nil)), stage.RetryPolicy{Attempts: 3, Backoff: 10, Max: 30}, 1, asked)
		require.Equal(t, logged, strings.Contains(log.String(), "asked=1h0m0s pause=30ns"), log.String())
	}
}

func TestAPolicyIsFilledAndChecked(t *testing.T) {
	require.Equal(t, stage.RetryPolicy{Attempts: 10, Backoff: time.Second, Max: time.Minute}, verdict.Filled(stage.RetryPolicy{}, time.Minute))
	require.Equal(t, stage.RetryPolicy{Attempts: 2, Backoff: time.Hour, Max: time.Hour},
		verdict.Filled(stage.RetryPolicy{Attempts: 2, Backoff: time.Hour}, time.Minute))
	require.Equal(t, time.Millisecond, verdict.Filled(stage.RetryPolicy{Max: time.Millisecond}, time.Minute).Backoff)
	faults := 0
	verdict.Check(stage.RetryPolicy{Attempts: -1, Backoff: -1, Max: -2, Jitter: math.NaN(), Budget: 1}, func(wrong bool, _ string, _ ...any) {
		if wrong {
			faults++
		}
	})
	require.Equal(t, 5, faults)
	verdict.Check(verdict.Filled(stage.RetryPolicy{}, time.Minute), func(wrong bool, format string, _ ...any) { require.False(t, wrong, format) })
}

type badError struct{}

func (badError) Error() string { panic("no text") }

func TestTheTextOfAnErrorIsOneShortLine(t *testing.T) {
	require.Empty(t, verdict.Text(nil))
	require.Equal(t, "a b", verdict.Text(errors.New("a\nb")))
	require.Equal(t, strings.Repeat("é", 512)+"…", verdict.Text(errors.New(strings.Repeat("é", 1000))))
	require.Equal(t, "a?", verdict.Text(errors.New("a\xff")))
	require.Contains(t, verdict.Text(badError{}), "panicked")
}
