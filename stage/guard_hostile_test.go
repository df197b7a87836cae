package stage_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// exits is an error whose text ends the goroutine that asks for it.
type exits struct{}

func (exits) Error() string { runtime.Goexit(); return "" }

// faultyGate panics with such an error.
type faultyGate struct{}

func (faultyGate) Admit(any, int, int) error { panic(exits{}) }

// faultyLaw panics with such an error whenever it is asked, and says so.
type faultyLaw struct{ asked chan struct{} }

func (faultyLaw) Name() string                 { return "faulty" }
func (faultyLaw) Check() error                 { return nil }
func (l faultyLaw) New() controller.Controller { return l }

func (l faultyLaw) Control(controller.Event, *controller.Snapshot, *controller.Decisions) {
	select {
	case l.asked <- struct{}{}:
	default:
	}
	panic(exits{})
}

// gated is a policy that sets a gate.
type gated struct{ gate controller.Gate }

func (gated) Name() string                 { return "gated" }
func (gated) Check() error                 { return nil }
func (g gated) New() controller.Controller { return g }

func (g gated) Control(_ controller.Event, _ *controller.Snapshot, d *controller.Decisions) {
	controller.KnobGate.Set(d, controller.Entry, g.gate, "test")
}

// survives runs f on a goroutine of its own, and reports whether it returned.
func survives(f func()) bool {
	returned := make(chan bool, 1)
	go func() {
		done := false
		defer func() { returned <- done }()
		f()
		done = true
	}()
	return <-returned
}

func TestAPanicWhoseTextEndsTheGoroutineEndsNoCaller(t *testing.T) {
	newStage := func(opts ...stage.Option) *stage.Stage[any] {
		return stage.Func("s", func(context.Context, any) behaviour.Outcome { return behaviour.OK("done") }, opts...)
	}
	t.Run("gate", func(t *testing.T) {
		s := newStage()
		launch(t, s, pipeline.Control(gated{faultyGate{}}))
		require.True(t, survives(func() {
			for {
				if err := s.Submit(t.Context(), put{}); err != nil {
					return
				}
			}
		}))
	})
	t.Run("guard", func(t *testing.T) {
		s := newStage(stage.Guard("put", func(count) bool { panic(exits{}) }))
		launch(t, s)
		require.True(t, survives(func() {
			_, err := stage.Call[any](context.WithoutCancel(t.Context()), s, any(put{}))
			require.True(t, stage.Crashed(err))
		}))
	})
	t.Run("policy", func(t *testing.T) {
		s := newStage()
		law := faultyLaw{make(chan struct{})}
		p := launch(t, s, pipeline.Control(law))
		<-law.asked
		require.True(t, survives(func() { require.NoError(t, p.SetPolicy(policy.ERLDA{})) }), "the control loop goes on")
		_, err := stage.Call[any](t.Context(), s, any(put{}))
		require.NoError(t, err)
	})
}
