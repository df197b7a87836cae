package nats

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

func TestAVerdictFollowsFromTheErrorAndTheDeliveries(t *testing.T) {
	no := errors.New("no")
	policy := stage.RetryPolicy{Attempts: 3, Backoff: 10, Max: 30}
	only := policy
	only.If = func(err error) bool { return errors.Is(err, no) || stage.Crashed(err) }
	busy := &refusal{ErrFull, no}
	for name, c := range map[string]struct {
		policy stage.RetryPolicy
		times  int
		err    error
		want   verdict
	}{
		"a good end":                       {policy, 1, nil, verdict{act: ack}},
		"a good end after many deliveries": {policy, 9, nil, verdict{act: ack}},
		"a first failure":                  {policy, 1, no, verdict{act: giveBack, delay: 10}},
		"a second failure":                 {policy, 2, no, verdict{act: giveBack, delay: 20}},
		"the last failure":                 {policy, 3, no, verdict{act: bury, reason: reason.Error}},
		"a failure after the last":         {policy, 9, no, verdict{act: bury, reason: reason.Error}},
		"a hard stop":                      {policy, 1, fmt.Errorf("x: %w", stage.ErrStopped), verdict{act: giveBack}},
		"a hard stop at the last delivery": {policy, 3, stage.ErrStopped, verdict{act: giveBack}},
		"a crash":                          {policy, 1, &stage.CrashError{}, verdict{act: bury, reason: reason.Crash}},
		"a crash that may be tried again":  {only, 1, &stage.CrashError{}, verdict{act: giveBack, delay: 10}},
		"the last crash":                   {only, 3, &stage.CrashError{}, verdict{act: bury, reason: reason.Crash}},
		"a command that expired":           {policy, 1, stage.ErrExpired, verdict{act: bury, reason: reason.Expired}},
		"an error that is chosen":          {only, 1, no, verdict{act: giveBack, delay: 10}},
		"an error that is not":             {only, 1, errors.New("other"), verdict{act: bury, reason: reason.Error}},
		"an overload":                      {policy, 1, busy, verdict{act: giveBack, delay: time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, judge(c.policy, c.times, c.err))
		})
	}
}
