package stage_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// What it costs if a handler may suspend, and if it does: a stage with one worker, and commands that arrive as fast as the
// worker takes them.
//
//	go test -run '^$' -bench Handler -count 10 ./stage | tee handler.txt && benchstat -col /by handler.txt
func BenchmarkHandler(b *testing.B) {
	one := stage.Workers(1, 1)
	b.Run("by=function", func(b *testing.B) {
		benchHandler(b, func(end func()) *stage.Stage[*parcel] {
			return stage.Func("s", func(context.Context, *parcel) behaviour.Outcome { end(); return behaviour.OK(nil) }, one)
		})
	})
	b.Run("by=coroutine", func(b *testing.B) {
		benchHandler(b, func(end func()) *stage.Stage[*parcel] {
			return stage.Coroutine("s", func(coroutine.Context, *parcel) behaviour.Outcome { end(); return behaviour.OK(nil) }, one)
		})
	})
	b.Run("by=yield", func(b *testing.B) {
		benchHandler(b, func(end func()) *stage.Stage[*parcel] {
			return stage.Coroutine("s", func(c coroutine.Context, _ *parcel) behaviour.Outcome {
				err := coroutine.Yield(c)
				end()
				return behaviour.OK(err)
			}, one)
		})
	})
}

// What a resume costs in a stage with one worker, including the queue of handlers that may continue, until the handler yields
// again: with one command, and so a batch for each resume, and with a hundred.
func BenchmarkResume(b *testing.B) {
	for _, commands := range []int{1, 100} {
		b.Run(fmt.Sprintf("commands=%d", commands), func(b *testing.B) { benchResume(b, commands) })
	}
}

func benchResume(b *testing.B, commands int) {
	s := stage.Coroutine("s", func(c coroutine.Context, yields int) behaviour.Outcome {
		for range yields {
			_ = coroutine.Yield(c)
		}
		return behaviour.OK(nil)
	}, stage.Workers(1, 1))
	p, err := pipeline.New("bench", s, pipeline.Control(policy.Fixed{}))
	if err != nil {
		b.Fatal(err)
	}
	if err := p.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range commands {
		if err := s.Submit(b.Context(), b.N/commands); err != nil {
			b.Fatal(err)
		}
	}
	if err := p.Stop(context.Background()); err != nil { // waits for the commands
		b.Fatal(err)
	}
}

func benchHandler(b *testing.B, build func(end func()) *stage.Stage[*parcel]) {
	left, done := b.N, make(chan struct{})
	s := build(func() {
		if left--; left == 0 {
			close(done)
		}
	})
	p, err := pipeline.New("bench", s, pipeline.Control(policy.Fixed{}))
	if err != nil {
		b.Fatal(err)
	}
	if err := p.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	cmd := &parcel{}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if err := s.Submit(b.Context(), cmd); err != nil {
			b.Fatal(err)
		}
	}
	<-done
	b.StopTimer()
	if err := p.Stop(context.Background()); err != nil {
		b.Fatal(err)
	}
}
