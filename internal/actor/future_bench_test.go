package actor_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	proto "github.com/asynkron/protoactor-go/actor"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/pipeline"
	"github.com/golda-dev/golda/stage"
)

// A handler that calls a stage and is suspended meanwhile is compared with a caller that waits for protoactor's future
// of an actor. One call is under way at a time, or 64.
//
//	go test -run '^$' -bench Call -count 10 ./internal/actor | tee call.txt && benchstat -col /by call.txt
func BenchmarkCall(b *testing.B) {
	for name, callers := range map[string]int{"callers=1": 1, "callers=64": 64} {
		b.Run(name+"/by=suspended", func(b *testing.B) { benchSuspended(b, callers) })
		b.Run(name+"/by=future", func(b *testing.B) { benchFuture(b, callers) })
	}
}

func benchSuspended(b *testing.B, callers int) {
	answer := stage.Func("answer", func(_ context.Context, n int) behaviour.Outcome { return behaviour.OK(n) }, stage.Workers(1, 1))
	ask := stage.Coroutine("ask", func(c coroutine.Context, times int) behaviour.Outcome {
		for i := range times {
			if got, err := stage.Call[int](c, answer, i); err != nil || got != i {
				return behaviour.Error(err)
			}
		}
		return behaviour.OK(nil)
	}, stage.Workers(1, 1))
	p, err := pipeline.New("call", ask, answer, pipeline.Control(policy.Fixed{}), pipeline.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		b.Fatal(err)
	}
	if err := p.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	tickets := make([]*stage.Ticket, callers)
	for i := range tickets {
		if tickets[i], err = ask.Ask(b.Context(), share(b.N, callers, i)); err != nil {
			b.Fatal(err)
		}
	}
	for _, t := range tickets {
		if _, err := t.Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	if err := p.Stop(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// share is the part of n calls that one of several callers makes.
func share(n, callers, i int) int { return (n + callers - 1 - i) / callers }

func benchFuture(b *testing.B, callers int) {
	system := actor.NewSystem(slog.New(slog.DiscardHandler))
	pid := system.Root.Spawn(proto.PropsFromFunc(func(ctx proto.Context) {
		if n, ok := ctx.Message().(int); ok {
			ctx.Respond(n)
		}
	}))
	b.ReportAllocs()
	b.ResetTimer()
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := range share(b.N, callers, caller) {
				if got, err := system.Root.RequestFuture(pid, i, time.Hour).Result(); err != nil || got != i {
					b.Error(got, err)
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	system.Root.Stop(pid)
}
