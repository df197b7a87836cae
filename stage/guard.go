package stage

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/coordination/guard"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/line"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/stage/stats"
)

// Guard holds back the commands of a method while g does not hold: they wait in
// the queue, and hold no worker. Commands of other methods are handled
// meanwhile. At most five reports at once, beside any number of other commands:
//
//	stage.New("print", printer, stage.Guard("Report", func(count func(string) guard.Counters) bool {
//		return count("Report").Current < 5
//	}))
//
// The method of a command is the result of its Method() string, if it has such
// a method, and otherwise the name of its type, without package and pointer.
// Commands of one method are given out in the order of their arrival. A command
// is counted as current from when a worker takes it until its handler has
// ended, also while the handler is suspended; a handler that does not return
// counts as ended when its [Timeout] and [Grace] have passed. Each try is
// counted by itself. Methods without guards have counters, too.
//
// The guards of a method are evaluated when a command of it arrives, and when a
// handler of the stage has ended or is suspended, and when the stage is
// resumed, once for all commands of the method. So a guard looks at the
// counters only: nothing has it evaluated when something else has changed.
// Guards are evaluated while the queue is locked, by any goroutine, one at a
// time for each stage, and beside handlers: a guard must be quick, and call
// nothing of the pipeline, nor runtime.Goexit. If a guard panics, the oldest
// command of its method crashes in the place of its handler.
//
// Held commands hold slots: if they fill the queue, [Overflow] applies to all
// commands. A held command whose caller's context has ended, or whose [TTL] or
// deadline is over, ends and frees its slot as in any stage, without its
// guards; commands that nothing ends wait until the guards let them go. So give
// a stage whose commands wait for one another more slots than may be held. They
// are in flight: a drain waits for them. Queue.Held and Methods of the snapshot
// say how many there are, and which guards they waited for.
//
// New refuses a guard of a method that no command of the stage can be of, if
// all are of one: if their type is no interface and has no Method of its own.
// It cannot know which other methods there are, nor which a guard asks for:
// count returns zero counters for a name that no command has. Snapshot.Methods
// has the names that commands had, and a guard of a mistyped method, whose
// Invocations stay 0.
//
// A worker takes one command at a time from a stage with guards. The stage has
// an order of its own, so it takes no [Discipline], no [Ordered], no [RateBy]
// and no [Linger], and a [Keyed] stage takes no guards.
func Guard(method string, g guard.Guard) Option {
	return func(s *settings) {
		s.guarding().State = append(s.guarding().State, line.StateGuard{Method: method, Guard: g})
	}
}

func methodSnapshots(all []line.GuardAccounts) []stats.Method {
	if len(all) == 0 {
		return nil
	}
	methods := make([]stats.Method, len(all))
	for i, a := range all {
		methods[i] = stats.Method{
			Counters: a.Counters, Method: a.Method, Held: a.Held, Holds: a.Holds, HeldTime: a.Wait, RunTime: a.Run, HeldDuring: a.During,
		}
	}
	slices.SortFunc(methods, func(a, b stats.Method) int { return strings.Compare(a.Method, b.Method) })
	return methods
}

func (s *settings) guarding() *line.Guards {
	if s.engine.Inbox.Guards == nil {
		s.engine.Inbox.Guards = new(line.Guards)
	}
	return s.engine.Inbox.Guards
}

// methodOf returns the function that says the method of a command of a type,
// and whether all commands have the same.
func methodOf(t reflect.Type) (method func(cmd any) string, constant bool) {
	says := t.Implements(reflect.TypeFor[interface{ Method() string }]())
	if t.Kind() != reflect.Interface && !says {
		name := typeName(t)
		return func(any) string { return name }, true
	}
	return func(cmd any) string {
		if m, ok := cmd.(interface{ Method() string }); ok {
			return m.Method()
		}
		return typeName(reflect.TypeOf(cmd))
	}, false
}

// typeName returns the name of a type without its package. A pointer has the
// name of its element type.
func typeName(t reflect.Type) string {
	if t == nil {
		return "nil"
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if name := t.Name(); name != "" {
		return name
	}
	return t.String()
}

// setGuards completes the guards of a stage for commands of a type.
func setGuards(s *settings, commands reflect.Type) {
	if s.engine.Inbox.Guards == nil {
		return
	}
	method, constant := methodOf(commands)
	s.method, s.oneMethod = method, constant
	s.engine.Inbox.Guards.Method = func(load any) string {
		if constant {
			return method(nil)
		}
		return method(link.Bare(load))
	}
}

// guarded is the outermost middleware of a stage with guards: it has the permit
// of a command while its handler runs, and gives it back when the handler has
// ended, or has been given up after so long. A command whose guard did not
// return crashes.
func guarded(in *inbox.Inbox, method func(cmd any) string, each eachOf, limit time.Duration) MiddlewareFunc {
	return func(ctx context.Context, _ string, cmd any, next behaviour.Func[any]) behaviour.Outcome {
		permit := in.Batches().Begin(ctx)
		end := func() { in.Batches().Completed(permit) }
		if limit > 0 {
			end = completedWithin(limit, end)
		}
		defer end()
		if permit.Fault != nil {
			panic(permit.Fault)
		}
		if permit.Method() == "" {
			// If it panicked in the queue it does so again, and the command
			// crashes.
			each.do(cmd, func(cmd any) { _ = method(cmd) })
		}
		return next(ctx, cmd)
	}
}

// completedWithin returns a function that calls end once, and has it called in
// any case when the limit is over.
func completedWithin(limit time.Duration, end func()) (ended func()) {
	once := sync.OnceFunc(end)
	alarm := time.AfterFunc(limit, once) // the command crashes in any case
	return func() {
		alarm.Stop()
		once()
	}
}
