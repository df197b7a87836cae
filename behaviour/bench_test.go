package behaviour_test

import (
	"path"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
)

// BenchmarkForward measures what a handler pays to forward a command. Forward is inlined into its caller, see
// [TestForwardIsInlined]; without inlining it takes a third longer.
func BenchmarkForward(b *testing.B) {
	next := behaviour.NewPort[*int]("next")
	if err := next.Connect(newSink[*int]("sink")); err != nil {
		b.Fatal(err)
	}
	handle := func(cmd *int) behaviour.Outcome { return behaviour.Forward(next, cmd) }
	cmd := new(int)
	for b.Loop() {
		if handle(cmd).Kind() != behaviour.KindForward {
			b.Fatal("not forwarded")
		}
	}
}

// spyTarget is a target that calls a function when its inlet is requested, so that a test sees the call stack.
type spyTarget struct {
	sink[int]

	called func()
}

func (o spyTarget) Inlet() *behaviour.Inlet {
	o.called()
	return o.sink.Inlet()
}

func TestForwardIsInlined(t *testing.T) {
	inlined := map[string]bool{}
	to := spyTarget{newSink[int]("sink"), func() {
		var calls [16]uintptr
		frames := runtime.CallersFrames(calls[:runtime.Callers(1, calls[:])])
		for more := true; more; {
			var at runtime.Frame
			at, more = frames.Next()
			inlined[path.Ext(strings.TrimSuffix(at.Function, "[...]"))] = at.Func == nil
		}
	}}
	if small[int](to); !inlined[".small"] || testing.CoverMode() != "" {
		t.Skip("this build inlines nothing, or coverage makes each function larger")
	}
	require.Equal(t, behaviour.KindForward, behaviour.Forward(to, 1).Kind())
	require.True(t, inlined[".Forward"])
}

// small is inlined if the compiler inlines at all.
func small[C any](to behaviour.Target[C]) { to.Inlet() }
