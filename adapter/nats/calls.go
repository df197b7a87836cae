package nats

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"

	"github.com/golda-dev/golda/coordination/coroutine"
	"github.com/golda-dev/golda/coordination/rpc"
	"github.com/golda-dev/golda/coordination/transport"
	"github.com/golda-dev/golda/internal/kept"
	"github.com/golda-dev/golda/stage"
)

// called is a command on its way to the answerer of the process that handles
// it.
type called struct {
	Payload

	To   string
	From string // the node of the caller
	Call uint64 // its number there
}

// reply is its result. Go is the name of its type; it is empty if there is
// none.
type reply struct {
	Payload

	Go string
}

// passedOn is what a process wants that answers a call, of a third one which
// its command goes on to: the result as it came.
var passedOn = reflect.TypeFor[reply]()

// Call is for package pipeline.
func (l *carriedLine) Call(ctx context.Context, cmd any, want reflect.Type) (any, error) {
	if err := l.of.results.check(want); err != nil {
		return nil, err
	}
	p, err := encode(l.o.Codec, cmd)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	node, err := l.of.calls.open(ctx)
	if err != nil {
		return nil, away(err)
	}
	r, err := l.callAny(ctx, node, p)
	switch {
	case ctx.Err() != nil && err != nil:
		return nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
	case err != nil:
		return nil, away(err)
	}
	return l.of.results.decode(l.stage, r, want)
}

// callAny calls one process after the other until one has begun to handle the
// command. If all have refused it, callAny returns the error of the last
// process, if the stage has refused the command there.
func (l *carriedLine) callAny(ctx context.Context, node *rpc.Node, p Payload) (reply, error) {
	var refused []string
	var last error
	for {
		to, err := l.callees.pick(ctx, refused)
		if err != nil {
			if last != nil && errors.Is(err, errNone) {
				err = last
			}
			return reply{}, err
		}
		r, err := l.callOne(ctx, node, to, p)
		if !errors.Is(err, errLeaving) {
			return r, err
		}
		refused = append(refused, to.name)
		if errors.Is(err, stage.ErrClosed) {
			last = err
		}
	}
}

// away returns an error as overload if it says that the server is away.
func away(err error) error {
	if _, there := errors.AsType[*transport.Error](err); !there && errors.Is(err, ErrAway) {
		return &refusal{ErrAway, err}
	}
	return err
}

// callOne calls one process.
func (l *carriedLine) callOne(ctx context.Context, node *rpc.Node, to *callee, p Payload) (reply, error) {
	transits := l.of.calls.transits
	number, err := transits.begin(ctx, len(p.Data))
	if err != nil {
		l.callees.done(to, false)
		return reply{}, err
	}
	defer transits.end(number)
	function := rpc.At[transport.Encoded, transport.Encoded](node.Remote(to.node, callProcess), callMethod)
	subject := subjectOf(to.node, node.Name())
	var sent transport.Encoded
	err = l.conn.denials.unless(ctx, func(now *denial) bool { return now.exact == subject }, func(ctx context.Context) (err error) {
		sent, err = function.Call(coroutine.Blocking(ctx), called{p, to.name, node.Name(), number}.encode())
		return err
	})
	_, there := errors.AsType[*transport.Error](err)
	l.callees.done(to, errors.Is(err, transport.ErrUnreachable) && !there || errors.Is(err, errLeaving))
	if err != nil {
		return reply{}, err
	}
	return decodeReply(sent)
}

// results are the codecs of results: the codec that [CarryResult] gives for a
// type, else the codec of all stages, else JSON.
type results struct {
	own map[reflect.Type]Codec[any]
	all Codec[any] // nil if there is none
}

// codec returns the codec of results of a type.
func (r *results) codec(of reflect.Type) (Codec[any], error) {
	switch own := r.own[of]; {
	case own != nil:
		return checked{own, of}, nil
	case r.all != nil:
		return checked{r.all, of}, nil
	}
	if problem := kept.ByJSON(of); problem != "" {
		return nil, fmt.Errorf("%w: JSON cannot carry its result, a %v: %s; change the type, or give it a codec with nats.CarryResult",
			stage.ErrElsewhere, of, problem)
	}
	return jsonOf{of}, nil
}

// check returns why no result of a type that a caller wants can come. One of
// any type may be none.
func (r *results) check(want reflect.Type) error {
	if isAny(want) || want == passedOn {
		return nil
	}
	_, err := r.codec(want)
	return err
}

func isAny(want reflect.Type) bool { return want == nil || want.Kind() == reflect.Interface }

// encode returns a result as it is sent.
func (r *results) encode(result any) (reply, error) {
	if result == nil {
		return reply{}, nil
	}
	if a, ok := result.(reply); ok {
		return a, nil
	}
	of := reflect.TypeOf(result)
	codec, err := r.codec(of)
	if err != nil {
		return reply{}, err
	}
	p, err := encode(codec, result)
	if err != nil {
		return reply{}, fmt.Errorf("encode the result: %w", err)
	}
	return reply{p, of.String()}, nil
}

// decode returns a result that has come.
func (r *results) decode(called string, a reply, want reflect.Type) (any, error) {
	switch {
	case want == passedOn:
		return a, nil
	case a.Go == "":
		return nil, nil
	case isAny(want):
		return r.decodeAny(called, a, want)
	case a.Go != want.String():
		return nil, &stage.TypeError{Stage: called, Want: want.String(), Got: a.Go, Result: true}
	}
	codec, err := r.codec(want)
	if err != nil {
		return nil, err
	}
	return decodePayload(codec, a.Payload)
}

// decodeAny returns a result that may be of several types: one with a codec of
// its own, or with that for all.
func (r *results) decodeAny(called string, a reply, want reflect.Type) (result any, err error) {
	codec := r.all
	for of, own := range r.own {
		if of.String() == a.Go {
			codec = own
		}
	}
	if codec == nil {
		return nil, fmt.Errorf("%w: its result is a %s, and the call does not say so: use stage.Call[%s], or nats.CarryResult",
			stage.ErrElsewhere, a.Go, a.Go)
	}
	result, err = decodePayload(codec, a.Payload)
	if err == nil && want != nil && result != nil && !reflect.TypeOf(result).Implements(want) {
		return nil, &stage.TypeError{Stage: called, Want: want.String(), Got: reflect.TypeOf(result).String(), Result: true}
	}
	return result, err
}

// handled runs the handler of a call. A panic is an error.
func handled(handle func() (reply, error)) (a reply, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("a panic: %v\n%s", v, debug.Stack())
		}
	}()
	return handle()
}
