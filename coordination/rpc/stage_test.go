package rpc_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/reason"
)

var quiet = pipeline.Logger(slog.New(slog.DiscardHandler))

// failing is an error of a stage, with what a caller can find out about it.
type failing struct {
	is       error
	overload stage.Overload // the zero value if it is none
	crash    string
}

func TestAnErrorOfAStageIsKnownOnOtherNodes(t *testing.T) {
	rate := hinted{3 * time.Second}
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			errs := []error{stage.ErrFull, stage.ErrDraining, errors.Join(errFull, stage.ErrRate), rate, stage.ErrSelfCall, stage.ErrTimeout, errFull}
			s := stage.Func("s", func(_ context.Context, i int) behaviour.Outcome {
				if i == len(errs) {
					panic(struct{ f func() }{})
				}
				return behaviour.Error(errs[i])
			})
			p, err := pipeline.New("p", s, quiet)
			require.NoError(t, err)
			require.NoError(t, p.Start(t.Context()))
			defer func() { require.NoError(t, p.Stop(context.Background())) }()
			spawn(t, m, "pipeline", func(p *rpc.Process) { rpc.Stage[int](p, "s", s) })
			call := rpc.At[int, int](n.Remote(m.Name(), "pipeline"), "s")
			for i, want := range []failing{
				{is: stage.ErrFull, overload: stage.Overload{Reason: reason.Full, RetryAfter: time.Second}},
				{is: stage.ErrClosed, overload: stage.Overload{Reason: reason.Closed, RetryAfter: time.Second, Tried: true}},
				{is: stage.ErrRate, overload: stage.Overload{Reason: reason.Rate, RetryAfter: time.Second}},
				{overload: stage.Overload{Reason: reason.Rate, RetryAfter: 3 * time.Second}},
				{is: stage.ErrSelfCall},
				{is: stage.ErrTimeout},
				{},
				{crash: "s"},
			} {
				_, err := call.Call(blocking(t), i)
				require.Error(t, err)
				if want.is != nil {
					assert.ErrorIs(t, err, want.is)
				}
				got, ok := stage.Overloaded(err)
				assert.Equal(t, want.overload != stage.Overload{}, ok, err)
				assert.Equal(t, want.overload, got)
				crash, ok := errors.AsType[*stage.CrashError](err)
				require.Equal(t, want.crash != "", ok)
				if ok {
					assert.Equal(t, want.crash, crash.Stage)
					assert.Contains(t, string(crash.Stack), "TestAnErrorOfAStageIsKnownOnOtherNodes")
					assert.Equal(t, 1, crash.Attempts)
				}
			}
		})
	}
}

// hinted is an overload with a hint of its own.
type hinted struct{ after time.Duration }

func (hinted) Error() string { return "later" }
func (h hinted) Overload() (stage.Overload, bool) {
	return stage.Overload{Reason: reason.Rate, RetryAfter: h.after}, true
}

// Calls of other nodes that wait for a stage are bounded.
func TestAStageThatIsSlowRefusesCallsInTheEnd(t *testing.T) {
	for name, nodes := range everyPairOfNodes {
		t.Run(name, func(t *testing.T) {
			n, m := nodes(t)
			release := make(chan none)
			slow := stage.Func("slow", func(_ context.Context, v int) behaviour.Outcome {
				<-release
				return behaviour.OK(v)
			}, stage.Capacity(1))
			p, err := pipeline.New("p", slow, quiet)
			require.NoError(t, err)
			require.NoError(t, p.Start(t.Context()))
			defer func() { require.NoError(t, p.Stop(context.Background())) }()
			spawn(t, m, "pipeline", func(p *rpc.Process) { rpc.Stage[int](p, "slow", slow) })
			call := rpc.At[int, int](n.Remote(m.Name(), "pipeline"), "slow")
			const most, more = 4096, 20
			var calls []*rpc.Future[int]
			for i := range most + more {
				calls = append(calls, call.Future(t.Context(), i))
			}
			for _, c := range calls[:most] {
				require.False(t, c.Done())
			}
			for _, c := range calls[most:] {
				_, err := c.Wait(blocking(t))
				require.ErrorIs(t, err, stage.ErrFull)
				_, overloaded := stage.Overloaded(err)
				require.True(t, overloaded)
			}
			close(release)
			for i, c := range calls[:most] {
				require.Equal(t, i, must(c.Wait(blocking(t))))
			}
			require.Equal(t, 1, must(call.Call(blocking(t), 1)), "later calls are served")
		})
	}
}
