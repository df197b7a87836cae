package behaviour_test

import (
	"path"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golda-dev/golda/behaviour"
)

// BenchmarkForward is what a handler pays to pass a command on. Forward is inlined where it is called, see
// [TestForwardIsInlined]: else it takes a third as long again.
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

// overheard is a target that hears who asks for its inlet.
type overheard struct {
	sink[int]

	called func()
}

func (o overheard) Inlet() *behaviour.Inlet {
	o.called()
	return o.sink.Inlet()
}

func TestForwardIsInlined(t *testing.T) {
	inlined := map[string]bool{}
	to := overheard{newSink[int]("sink"), func() {
		var calls [16]uintptr
		frames := runtime.CallersFrames(calls[:runtime.Callers(1, calls[:])])
		for more := true; more; {
			var at runtime.Frame
			at, more = frames.Next()
			inlined[path.Ext(strings.TrimSuffix(at.Function, "[...]"))] = at.Func == nil
		}
	}}
	if small[int](to); !inlined[".small"] || testing.CoverMode() != "" {
		t.Skip("built in a way in which nothing is inlined, or everything is larger")
	}
	require.Equal(t, behaviour.KindForward, behaviour.Forward(to, 1).Kind())
	require.True(t, inlined[".Forward"])
}

// small is inlined if anything is.
func small[C any](to behaviour.Target[C]) { to.Inlet() }
