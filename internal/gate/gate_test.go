package gate

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/stage/reason"
)

// inbox is a door that is open and empty.
type inbox struct {
	now         int64
	waits, shut bool
}

func (d *inbox) Filled() (queued, capacity int) { return 1, 4 }
func (d *inbox) Clock() int64                   { return d.now }
func (d *inbox) MayWait(context.Context) bool   { return d.waits }
func (d *inbox) Chance() float64                { return rand.Float64() }
func (d *inbox) IsOpen() bool                   { return !d.shut }
func (d *inbox) Wait(ctx context.Context, closed <-chan struct{}) error {
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

type byPriority int

func (p byPriority) Priority() int {
	if p < 0 {
		panic("no priority")
	}
	return int(p)
}

type gateFunc func(cmd any, queued, capacity int) error

func (f gateFunc) Admit(cmd any, queued, capacity int) error { return f(cmd, queued, capacity) }

func TestRulesRefuseWithTheReasonOfTheirGate(t *testing.T) {
	errNo := errors.New("no")
	tests := map[string]struct {
		rules controller.Admission
		cmd   any
		why   reason.Reason
		is    error
	}{
		"no rules let all in":                        {controller.Admission{}, 1, "", nil},
		"a limit alone lets all in":                  {controller.Admission{Limit: 1}, 1, "", nil},
		"a gate of the user refuses":                 {controller.Admission{Gate: gateFunc(func(any, int, int) error { return errNo })}, 1, reason.Policy, errNo},
		"a gate of the user that panics refuses":     {controller.Admission{Gate: gateFunc(func(any, int, int) error { panic("oh") })}, 1, reason.Policy, ErrPanic},
		"a command of low priority is shed":          {controller.Admission{Shed: controller.Shed{Below: 2}}, byPriority(1), reason.Policy, ErrPolicy},
		"a command of high priority is not shed":     {controller.Admission{Shed: controller.Shed{Below: 2}}, byPriority(2), "", nil},
		"a priority that panics is 0":                {controller.Admission{Shed: controller.Shed{Below: 1}}, byPriority(-1), reason.Policy, ErrPolicy},
		"a command without a priority has 0":         {controller.Admission{Shed: controller.Shed{Below: 1}}, "x", reason.Policy, ErrPolicy},
		"a rate without a burst has nothing at once": {controller.Admission{Rate: controller.Rate{PerSecond: 2}}, 1, reason.Rate, ErrRate},
		"a burst is let in":                          {controller.Admission{Rate: controller.Rate{PerSecond: 2, Burst: 1}}, 1, "", nil},
		"a gate is asked before the rate": {controller.Admission{
			Gate: gateFunc(func(any, int, int) error { return errNo }), Rate: controller.Rate{PerSecond: 1},
		}, 1, reason.Policy, errNo},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var r Rules
			r.Set(test.rules, 0)
			why, err := r.Admit(&inbox{}, command.Envelope{Load: test.cmd})
			require.Equal(t, test.why, why)
			require.ErrorIs(t, err, test.is)
		})
	}
}

func TestAGateOfTheUserSeesTheCommandAndTheQueue(t *testing.T) {
	var r Rules
	called := false
	r.Set(controller.Admission{Gate: gateFunc(func(cmd any, queued, capacity int) error {
		called = true
		require.Equal(t, []any{"cmd", 1, 4}, []any{cmd, queued, capacity})
		return nil
	})}, 0)
	_, err := r.Admit(&inbox{}, command.Envelope{Load: "cmd"})
	require.NoError(t, err)
	require.True(t, called)
}

// However often a rate is asked or set again, it lets in no more than a burst and what its time has earned; and a command
// that comes when the error says is let in.
func TestARateLetsInNoMoreThanItsTimeHasEarned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := controller.Rate{PerSecond: rapid.Float64Range(0.1, 1e6).Draw(t, "rate"), Burst: rapid.IntRange(1, 10).Draw(t, "burst")}
		var r Rules
		d := &inbox{now: 1}
		r.Set(controller.Admission{Rate: limit}, d.now)
		in := 0
		for range 100 {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				d.now += rapid.Int64Range(0, 1e9).Draw(t, "after")
			case 1:
				r.Set(controller.Admission{Rate: limit, Limit: rapid.IntRange(0, 3).Draw(t, "limit")}, d.now)
			default:
				why, err := r.Admit(d, command.Envelope{})
				if err == nil {
					in++
					break
				}
				short, ok := errors.AsType[*RateError](err)
				require.True(t, ok)
				require.Equal(t, reason.Rate, why)
				d.now += int64(short.After)
				_, err = r.Admit(d, command.Envelope{})
				require.NoError(t, err, "it is let in when the error says")
				in++
			}
			earned := float64(limit.Burst) + limit.PerSecond*float64(d.now-1)/1e9
			require.LessOrEqual(t, float64(in), earned+1e-6)
		}
	})
}

func TestTheEntryNeverLetsInMoreThanItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e Entry
		var mu sync.Mutex
		inFlight, most := 0, 0
		count := func(by int) int {
			mu.Lock()
			defer mu.Unlock()
			inFlight += by
			most = max(most, inFlight)
			return inFlight
		}
		f := Flight{InFlight: func() int { return count(0) }, Held: func() int { return 0 }}
		e.Set(controller.Admission{Limit: 3}, 0)
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				for range 50 {
					entered, _, err := e.Enter(t.Context(), &inbox{waits: true}, f)
					if !entered || err != nil {
						t.Error(entered, err)
						return
					}
					count(1)
					e.Entered()
					time.Sleep(time.Millisecond)
					count(-1)
					e.Notify()
				}
			})
		}
		all.Wait()
		require.Equal(t, 3, most)
		require.False(t, e.Waited())
	})
}

func TestACallerLeavesTheEntry(t *testing.T) {
	full := Flight{InFlight: func() int { return 1 }, Held: func() int { return 0 }}
	held := Flight{InFlight: func() int { return 1 }, Held: func() int { return 1 }}
	errOver := errors.New("over")
	over, end := context.WithCancelCause(context.Background())
	end(errOver)
	tests := map[string]struct {
		ctx     context.Context
		bound   int
		door    inbox
		flight  Flight
		entered bool
		why     reason.Reason
		is      error
	}{
		"refused, if it may not wait":                             {t.Context(), 0, inbox{}, full, false, reason.Full, errMany},
		"refused, if the inbox was closed":                        {t.Context(), 0, inbox{waits: true, shut: true}, full, false, reason.Closed, errShut},
		"with the error of its context":                           {over, 0, inbox{waits: true}, full, false, reason.Cancelled, errOver},
		"let in, if guards hold back what is in flight":           {t.Context(), 0, inbox{}, held, true, "", nil},
		"refused for the bound of loops, though guards hold back": {t.Context(), 1, inbox{}, held, false, reason.Full, errMany},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var e Entry
			require.False(t, e.Any())
			e.Set(controller.Admission{Limit: 1}, 0)
			e.Bound(test.bound)
			require.True(t, e.Any())
			entered, why, err := e.Enter(test.ctx, &test.door, test.flight)
			require.Equal(t, test.entered, entered)
			require.Equal(t, test.why, why)
			require.ErrorIs(t, err, test.is)
		})
	}
}
