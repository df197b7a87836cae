package stagetest

import (
	"context"
	"slices"
	"sync"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/internal/link"
)

// HandlerContext returns a context for a test that calls a handler without a
// pipeline. In it behaviour.Attempt returns the attempt, and behaviour.Emit
// keeps the command; emitted returns the commands that were kept, in order.
func HandlerContext(ctx context.Context, attempt int) (handler context.Context, emitted func() []any) {
	h := &handlerDouble{attempt: attempt}
	return context.WithValue(ctx, link.EmitterKey{}, h), h.emitted
}

// handlerDouble stands in for the engine in a handler's context.
type handlerDouble struct {
	attempt int

	mu       sync.Mutex // guards commands
	commands []any
}

func (h *handlerDouble) Emit(_ context.Context, _ *behaviour.Inlet, load any) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commands = append(h.commands, link.Bare(load))
	return nil
}

func (h *handlerDouble) Attempt() int { return h.attempt }

func (h *handlerDouble) emitted() []any {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.commands)
}
