package stage_test

import (
	"context"
	"testing"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// What it costs that a handler may suspend, and that it does: a stage with one worker, and commands that
// come as fast as they are taken.
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
