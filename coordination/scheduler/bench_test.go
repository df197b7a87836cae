package scheduler_test

import (
	"context"
	"testing"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/scheduler"
)

// BenchmarkEvent measures an event from its notification to the end of its handler, which does nothing, or yields once.
// The same through a channel to a goroutine is measured for comparison.
func BenchmarkEvent(b *testing.B) {
	handlers := map[string]scheduler.Handler{
		"ends":   func(coroutine.Context, any) {},
		"yields": func(c coroutine.Context, _ any) { _ = coroutine.Yield(c) },
	}
	for name, h := range handlers {
		b.Run("handler="+name, func(b *testing.B) {
			s := scheduler.New(scheduler.Config{})
			defer s.Close()
			ready := make(chan func(any))
			s.Register(scheduler.SourceFunc(func(ctx context.Context, notify func(any)) error {
				ready <- notify
				<-ctx.Done()
				return nil
			}), h)
			notify := <-ready
			b.ReportAllocs()
			for b.Loop() {
				notify(nil)
				for s.Step(0) {
				}
			}
		})
	}
	b.Run("handler=goroutine", func(b *testing.B) {
		there, back := make(chan any), make(chan any)
		defer close(there)
		go func() {
			for ev := range there {
				back <- ev
			}
		}()
		for b.Loop() {
			there <- nil
			<-back
		}
	})
}

// BenchmarkYield measures one turn of one of several tasks that yield to one another.
func BenchmarkYield(b *testing.B) {
	s := scheduler.New(scheduler.Config{})
	defer s.Close()
	for range 10 {
		s.Go(func(c coroutine.Context) {
			for coroutine.Yield(c) == nil { //nolint:revive // until stopped
			}
		})
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Step(0)
	}
}

// BenchmarkSemaphore measures a unit that is passed back and forth between two tasks.
func BenchmarkSemaphore(b *testing.B) {
	s := scheduler.New(scheduler.Config{})
	defer s.Close()
	sems := []*scheduler.Semaphore{scheduler.NewSemaphore(1), scheduler.NewSemaphore(0)}
	for i := range sems {
		s.Go(func(c coroutine.Context) {
			for sems[i].Acquire(c) == nil {
				sems[1-i].Release()
			}
		})
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Step(0)
	}
}
