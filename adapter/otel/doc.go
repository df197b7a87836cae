// Package otel traces commands through stages, processes and requests, with
// OpenTelemetry. It uses the API only: the program chooses the SDK.
//
//	headers.Use(otel.Headers(nil))
//	p, err := pipeline.New("shop", take, price, save,
//		pipeline.Middleware(otel.Middleware(otel.Options{Roots: []string{"take"}, Every: 100})))
//
// # Spans
//
// Each visit of a command at a stage is a span, named after the stage. Its
// parent is the span of the visit, the request, or the message that the command
// comes from: within a pipeline, along what handlers forward and emit, and, with
// [Headers], through all adapters that carry headers, see package stage/headers.
// A handler's context has the span, so requests and messages that it sends, and
// commands that it submits, are its children.
//
//	a try         one span; a further one has the parent of the first, and a link to the try before
//	a batch       one span, a child of the first command's span, with a link to the span of each traced command
//	a suspension  is part of the handler's span
//
// The commands that a batch passes on are children of the spans before the
// batch. Attributes of a span:
//
//	golda.stage          the name of the stage
//	golda.outcome        ok, forward, error or crash
//	golda.attempt        of the second try on
//	golda.wait           seconds since the handler before it returned, or the message arrived: in outbox and queue
//	golda.batch.size     of a batch
//	golda.key.hash       of a key, see Options.Key
//
// The time in the handler is the duration of the span. An error is the status of
// the span, with its text; commands are never in a span.
//
// # Sampling
//
// A command is traced if it comes with a sampled span. Without any, a trace
// begins at the stages of Options.Roots, with one command in Options.Every. All
// other commands cost the lookup of a value in their context, and allocate
// nothing. So sample where requests and messages begin; a command is traced
// through all stages or through none.
package otel
