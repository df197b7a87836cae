package context

import (
	"context"
	"sync"

	"github.com/golda-dev/golda/stage"
)

type server struct{ last context.Context }

func keeps(s *server, later chan context.Context, work func(context.Context)) {
	var kept context.Context
	stage.Sink("keeps", func(ctx context.Context, _ int) error {
		s.last = ctx // want `the handler keeps its context in s`
		kept = ctx   // want `the handler keeps its context in kept`
		later <- ctx // want `the handler sends its context`
		return nil
	}, stage.Workers(1, 1))
	stage.Sink("goes on", func(ctx context.Context, _ int) error {
		go work(ctx)              // want `a goroutine for which the handler does not wait has its context`
		go func() { work(ctx) }() // want `a goroutine for which the handler does not wait has its context`
		return nil
	})
	_ = kept
}

func fine(work func(context.Context)) {
	stage.Sink("waits", func(ctx context.Context, _ int) error {
		var all sync.WaitGroup
		all.Add(1)
		go func() { defer all.Done(); work(ctx) }()
		all.Wait()
		mine := ctx
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		work(mine)
		work(ctx)
		return nil
	})
	stage.Sink("lets go", func(ctx context.Context, _ int) error {
		go work(context.WithoutCancel(ctx))
		return nil
	})
	stage.Sink("has none", func(context.Context, int) error {
		go work(context.Background())
		return nil
	})
}
