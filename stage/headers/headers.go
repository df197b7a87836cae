// Package headers carries values of a command's context over the border of a
// process: in the headers of messages and requests.
//
// Within a process a command takes along the values of the context that it was
// submitted with. A message has no context; it has headers, which are texts.
// [Use] registers the values that travel, for the whole program:
//
//	headers.Use(tenant{})
//
//	func (tenant) Inject(ctx context.Context, set func(name, value string)) {
//		if t, ok := ctx.Value(tenantKey{}).(string); ok {
//			set("X-Tenant", t)
//		}
//	}
//
//	func (tenant) Extract(ctx context.Context, get func(name string) string) context.Context {
//		if t := get("X-Tenant"); t != "" {
//			return context.WithValue(ctx, tenantKey{}, t)
//		}
//		return ctx
//	}
//
// The inlets, publishers and carriers of adapter/nats, the calls of package
// coordination/rpc, the topics of adapter/watermill, and the handlers and
// requests of adapter/http write and read the headers. Package adapter/otel registers the W3C trace context.
//
// A handler that is called with a batch asks [Batch] for the contexts of its
// commands.
package headers

import (
	"context"
	"sync/atomic"

	"github.com/golda-dev/golda/internal/command"
	"github.com/golda-dev/golda/internal/link"
)

// Propagator writes values of a context into headers, and reads them again.
// Many goroutines call its methods at once, for each message: they must be
// quick. If one of them panics, the message has, or the command gets, none of
// its values.
type Propagator interface {
	// Inject calls set for each header. Names are tokens, as in HTTP, and are
	// the same whatever their case; values have no control characters. A
	// header with another name or value is left out, and so is one with which a
	// message would have more than 8 KiB of these headers. Prefixes of the
	// carrier, such as Nats- and Golda-, are reserved.
	Inject(ctx context.Context, set func(name, value string))
	// Extract returns a context with the values of headers, derived from ctx:
	// ctx itself if there are none. Get returns the value of a header, empty if
	// it is not there. It is valid until Extract returns. Headers come from
	// other programs, so a value may be any text.
	Extract(ctx context.Context, get func(name string) string) context.Context
}

// used has the propagators; nil if there are none.
var used atomic.Pointer[[]Propagator]

// Use sets the propagators of the program, in place of all earlier ones. Call it before the pipelines start. Like the headers themselves they
// are an agreement between programs, and so the same for all pipelines of one.
func Use(all ...Propagator) {
	all = append([]Propagator(nil), all...)
	used.Store(&all)
}

// most is how many bytes names and values may have, together.
const most = 8 << 10

// Inject calls set with the headers for the values of a context. It is for code
// that sends messages.
func Inject(ctx context.Context, set func(name, value string)) {
	all := used.Load()
	if all == nil {
		return
	}
	left := most
	for _, p := range *all {
		var ours [][2]string
		if !try(func() { p.Inject(ctx, func(name, value string) { ours = append(ours, [2]string{name, value}) }) }) {
			continue
		}
		for _, h := range ours {
			if n := len(h[0]) + len(h[1]); n <= left && isToken(h[0]) && isText(h[1]) {
				left -= n
				set(h[0], h[1])
			}
		}
	}
}

// Extract returns ctx with the values that get finds in headers: ctx itself, if
// there are none. It is for code that receives messages.
func Extract(ctx context.Context, get func(name string) string) context.Context {
	all := used.Load()
	if all == nil {
		return ctx
	}
	for _, p := range *all {
		try(func() {
			if with := p.Extract(ctx, get); with != nil {
				ctx = with
			}
		})
	}
	return ctx
}

// From returns a function that calls [Extract] with get. It returns nil if no
// propagator is in use.
func From(get func(name string) string) func(ctx context.Context) context.Context {
	if all := used.Load(); all == nil || len(*all) == 0 {
		return nil
	}
	return func(ctx context.Context) context.Context { return Extract(ctx, get) }
}

// try calls f, and reports whether it returned without a panic.
func try(f func()) (ok bool) {
	defer func() { ok = recover() == nil && ok }()
	f()
	return true
}

// isToken reports whether a name is a token of RFC 9110.
func isToken(name string) bool {
	for i := range len(name) {
		c := name[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return name != ""
}

// isText reports whether a value has no control characters, and no white space
// around it, which a receiver would cut.
func isText(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' || c == 0x7f {
			return false
		}
	}
	return value == "" || value[0] != ' ' && value[len(value)-1] != ' '
}

// Batch returns the contexts that the commands of a batch were submitted with,
// for the handler and the middleware that were given ctx: one for each command,
// nil for one without. It returns nil if none has one, and in a handler of one
// command, whose context has the values itself. Their ends do not concern the
// handler.
func Batch(ctx context.Context) []context.Context { return command.BatchOf(ctx) }

// Derive changes the values that the present command of a handler takes along:
// to further tries, and to the commands that the handler forwards and emits from
// now on. It calls derive with a context that has the present values, and takes
// the values of the context that derive returns, which must be derived from it.
// The context of the present handler stays as it is. Derive is for middleware.
// A command takes the same layer along through all its stages, and perhaps in a
// loop, so derive should replace its own layer and not add to it.
//
// Derive returns false, and has done nothing, if ctx is not the context of a
// handler, the handler has returned, or it handles a batch.
func Derive(ctx context.Context, derive func(values context.Context) context.Context) bool {
	d, ok := ctx.Value(link.EmitterKey{}).(link.Deriver)
	return ok && d.Derive(derive)
}
