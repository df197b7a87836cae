package otel

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/golda-dev/golda/stage/headers"
)

// Headers returns a propagator for headers.Use that carries spans in headers as
// p does. Nil means the W3C trace context, traceparent and tracestate.
//
// A context that has a span already keeps it: another middleware may have read
// the headers of the request.
func Headers(p propagation.TextMapPropagator) headers.Propagator {
	if p == nil {
		p = propagation.TraceContext{}
	}
	return propagator{p}
}

type propagator struct{ of propagation.TextMapPropagator }

// Inject writes the span of a context into headers.
func (p propagator) Inject(ctx context.Context, set func(name, value string)) {
	p.of.Inject(ctx, carrier{set: set})
}

// Extract reads the span from headers.
func (p propagator) Extract(ctx context.Context, get func(name string) string) context.Context {
	if trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	with := p.of.Extract(ctx, carrier{get: get})
	span := trace.SpanContextFromContext(with)
	if !span.IsValid() {
		return with // with other values, such as baggage; or ctx itself
	}
	return newLayer(span).over(with)
}

// carrier is headers as a TextMapPropagator sees them.
type carrier struct {
	set func(name, value string)
	get func(name string) string
}

// Get returns a header.
func (c carrier) Get(name string) string { return c.get(name) }

// Set sets a header.
func (c carrier) Set(name, value string) { c.set(name, value) }

// Keys returns nil: no propagator of OpenTelemetry asks for the names.
func (carrier) Keys() []string { return nil }

// layer is the context of commands that come from a span. A command has one of
// them: the next visit replaces it.
type layer struct {
	context.Context // with the other values

	span   trace.SpanContext // that the commands come from
	parent trace.SpanContext // of that span, if it is a visit
	stage  string            // of that visit
	within context.Context   // has span under the key of package trace
	left   atomic.Int64      // when the visit ended or, until then, began; in nanoseconds of Unix time
}

func newLayer(span trace.SpanContext) *layer {
	l := &layer{span: span, within: trace.ContextWithSpanContext(context.Background(), span)}
	l.leave()
	return l
}

// leave notes that commands leave now.
func (l *layer) leave() { l.left.Store(time.Now().UnixNano()) }

// over puts the layer over values, in the place of another one.
func (l *layer) over(values context.Context) context.Context {
	if old, ok := values.(*layer); ok {
		values = old.Context
	}
	l.Context = values
	return l
}

type layerKey struct{}

// Value returns the span under the key of package trace, and otherwise the other
// values.
func (l *layer) Value(key any) any {
	if key == (layerKey{}) {
		return l
	}
	if v := l.within.Value(key); v != nil {
		return v
	}
	return l.Context.Value(key)
}

// lastOf returns the layer that a command has come with, nil if it has none.
func lastOf(ctx context.Context) *layer {
	l, _ := ctx.Value(layerKey{}).(*layer)
	return l
}
