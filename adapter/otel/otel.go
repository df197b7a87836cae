package otel

import (
	"context"
	"fmt"
	"hash/maphash"
	"reflect"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/headers"
)

// Options says what [Middleware] traces.
type Options struct {
	// Provider makes the tracer. Nil means the provider of the program,
	// otel.GetTracerProvider, as it is when Middleware is called.
	Provider trace.TracerProvider
	// Roots are the stages at which a trace begins if a command comes with
	// none: the entries of a pipeline, and the stages that feeds submit to. A
	// stage in the middle would begin traces of commands whose entry has not
	// chosen them.
	Roots []string
	// Every is how many commands without a trace come for one that begins a
	// trace at a root; 0 means 1. Then the provider's sampler decides.
	Every int
	// Key returns the key of a command, and whether it has one, for stages with
	// keys. The span has a hash of the key. The hash is the same as long as the
	// process runs. Key is called for traced commands. Nil means no hashes.
	Key func(stage string, cmd any) (key any, ok bool)
}

// Middleware returns a middleware that traces commands, for one stage or for all
// stages of a pipeline. A stage of pipeline.RunsHere elsewhere has its
// middleware there.
func Middleware(o Options) stage.MiddlewareFunc {
	if o.Provider == nil {
		o.Provider = otel.GetTracerProvider()
	}
	t := &tracer{
		Tracer: o.Provider.Tracer("github.com/golda-dev/golda/adapter/otel"),
		key:    o.Key, every: uint64(max(o.Every, 1)), roots: map[string]bool{}, seed: maphash.MakeSeed(),
	}
	for _, name := range o.Roots {
		t.roots[name] = true
	}
	return t.handle
}

// tracer is the middleware.
type tracer struct {
	trace.Tracer

	key   func(stage string, cmd any) (key any, ok bool)
	roots map[string]bool
	every uint64
	begun atomic.Uint64 // commands without a trace at roots
	seed  maphash.Seed
}

// handle traces one call of a handler.
func (t *tracer) handle(ctx context.Context, stage string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
	from := trace.SpanContextFromContext(ctx)
	switch {
	case from.IsSampled():
		return t.visit(ctx, stage, cmd, next)
	case from.IsValid():
		return next(ctx, cmd)
	}
	if cmd != nil && reflect.TypeOf(cmd).Kind() == reflect.Slice { // else it is no batch
		if members := headers.Batch(ctx); members != nil {
			return t.batch(ctx, members, stage, cmd, next)
		}
	}
	if t.roots[stage] && t.begun.Add(1)%t.every == 0 && behaviour.Attempt(ctx) == 1 {
		return t.visit(ctx, stage, cmd, next)
	}
	return next(ctx, cmd)
}

// visit traces one try of a command.
func (t *tracer) visit(ctx context.Context, stage string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
	within, before := ctx, lastOf(ctx)
	if before != nil && !before.span.Equal(trace.SpanContextFromContext(ctx)) {
		before = nil // a handler has submitted the command: its span is nearer
	}
	attributes := append(make([]attribute.KeyValue, 0, 6), attribute.String("golda.stage", stage))
	var options []trace.SpanStartOption
	if attempt := behaviour.Attempt(ctx); attempt > 1 {
		attributes = append(attributes, attribute.Int("golda.attempt", attempt))
		if before != nil && before.stage == stage {
			if before.parent.IsValid() { // else the first try is the root of the trace
				within = trace.ContextWithSpanContext(ctx, before.parent)
			}
			options = append(options, trace.WithLinks(trace.Link{SpanContext: before.span}))
		}
	}
	if before != nil {
		attributes = append(attributes, attribute.Float64("golda.wait", time.Since(time.Unix(0, before.left.Load())).Seconds()))
	}
	attributes = append(attributes, t.hash(stage, cmd)...)
	parent := trace.SpanContextFromContext(within)
	within, span := t.Start(within, stage, append(options, trace.WithAttributes(attributes...))...) //nolint:spancheck // see end
	now := newLayer(span.SpanContext())
	now.parent, now.stage = parent, stage
	headers.Derive(ctx, now.over)
	defer now.leave()
	return end(span, func() behaviour.Outcome { return next(within, cmd) }) //nolint:spancheck // it ends it
}

// batch traces one call of the handler of a batch, whose commands have the
// contexts members; nil of a command without one.
func (t *tracer) batch(
	ctx context.Context, members []context.Context, stage string, cmd any, next behaviour.Func[any],
) behaviour.Outcome {
	var links []trace.Link
	for _, m := range members {
		if m == nil {
			continue
		}
		if span := trace.SpanContextFromContext(m); span.IsSampled() { //nolint:contextcheck // the context of a command
			links = append(links, trace.Link{SpanContext: span})
		}
	}
	if links == nil {
		return next(ctx, cmd)
	}
	attributes := trace.WithAttributes(attribute.String("golda.stage", stage), attribute.Int("golda.batch.size", len(members)))
	within := trace.ContextWithSpanContext(ctx, links[0].SpanContext)
	within, span := t.Start(within, stage, trace.WithLinks(links...), attributes) //nolint:spancheck // see end
	return end(span, func() behaviour.Outcome { return next(within, cmd) })       //nolint:spancheck // it ends it
}

// hash returns the hash of a command's key as an attribute, if it has one.
func (t *tracer) hash(stage string, cmd any) []attribute.KeyValue {
	if t.key == nil {
		return nil
	}
	key, ok := t.key(stage, cmd)
	if !ok || key == nil || !reflect.TypeOf(key).Comparable() {
		return nil
	}
	return []attribute.KeyValue{attribute.String("golda.key.hash", fmt.Sprintf("%016x", maphash.Comparable(t.seed, key)))}
}

// end calls a handler and ends its span, also if the handler panics.
func end(span trace.Span, handle func() behaviour.Outcome) (o behaviour.Outcome) {
	returned := false
	defer func() {
		switch err := o.Err(); {
		case !returned:
			span.SetAttributes(attribute.String("golda.outcome", "crash"))
			span.SetStatus(codes.Error, "crash")
		case err != nil:
			span.SetAttributes(attribute.String("golda.outcome", "error"))
			span.SetStatus(codes.Error, err.Error())
		default:
			span.SetAttributes(attribute.String("golda.outcome", o.Kind().String()))
		}
		span.End()
	}()
	o = handle()
	returned = true
	return o
}
