package behaviour_test

import (
	"testing"

	"github.com/golda-dev/golda/behaviour"
)

// BenchmarkForward is what a handler pays to pass a command on. Forward is inlined where it is called, which is
// seen here if it is not any more: it takes half as long again.
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
