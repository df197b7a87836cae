package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/golda-dev/golda/internal/act"
)

// The names of protoactor that a child made of an actor needs. Whoever does not
// know protoactor needs none of them.
type (
	// System is the home of actors.
	System = act.System
	// PID is an actor's address.
	PID = act.PID
	// Spawner starts actors.
	Spawner = act.Spawner
)

// Restart is a child's restart type: whether it is started afresh when it has
// ended by itself.
type Restart uint8

// The restart types, as in OTP.
const (
	// Permanent children are always restarted. It is the default.
	Permanent Restart = iota
	// Transient children are restarted if they crashed, not if they ended well.
	Transient
	// Temporary children are never restarted, and forgotten when they end, even if
	// that is on behalf of another child.
	Temporary
)

// String returns the OTP name.
func (r Restart) String() string {
	switch r {
	case Permanent:
		return "permanent"
	case Transient:
		return "transient"
	case Temporary:
		return "temporary"
	default:
		return fmt.Sprintf("Restart(%d)", uint8(r))
	}
}

// AutoShutdown says whether a supervisor ends when its significant children have.
type AutoShutdown uint8

// The kinds of auto-shutdown, as in OTP.
const (
	// Never is the default.
	Never AutoShutdown = iota
	// AnySignificant ends the supervisor when one significant child has ended by
	// itself and is not restarted.
	AnySignificant
	// AllSignificant ends it when the last of them has.
	AllSignificant
)

// String returns the OTP name.
func (a AutoShutdown) String() string {
	switch a {
	case Never:
		return "never"
	case AnySignificant:
		return "any_significant"
	case AllSignificant:
		return "all_significant"
	default:
		return fmt.Sprintf("AutoShutdown(%d)", uint8(a))
	}
}

// Directive is a decider's answer to a crash. There is none that goes on with the
// crashed instance; see the package's comment.
type Directive uint8

// The directives. All but the first go before the restart type.
const (
	// AsDeclared does what the restart type says.
	AsDeclared Directive = iota
	// DoRestart starts the child afresh, even a temporary one. It counts.
	DoRestart
	// DoStop leaves the child down, as if it had ended well.
	DoStop
	// DoEscalate gives up at once, whatever the intensity has left.
	DoEscalate
)

// String returns the directive in a word or two.
func (d Directive) String() string {
	switch d {
	case AsDeclared:
		return "as declared"
	case DoRestart:
		return "restart"
	case DoStop:
		return "stop"
	case DoEscalate:
		return "escalate"
	default:
		return fmt.Sprintf("Directive(%d)", uint8(d))
	}
}

// How long a child may take to stop.
const (
	// DefaultPatience is a child's, if it says nothing.
	DefaultPatience = 5 * time.Second
	// Infinity waits as long as it takes. A supervisor that is a child has it by
	// default.
	Infinity time.Duration = math.MaxInt64
	// BrutalKill waits not at all: the child is told to stop, and abandoned.
	BrutalKill time.Duration = -1
)

// Child describes one child of a [Tree]. It has a Name and one of Run, Serve,
// Spawn and Supervisor.
type Child struct {
	Name string

	// Run is a service that is ready at once. It should return when ctx ends,
	// with whatever it likes. If it returns before, it has ended well (nil, or an
	// error that wraps [ErrShutdown]) or crashed (another error, a panic, a
	// runtime.Goexit).
	Run func(ctx context.Context) error
	// Serve is a service that says when it is ready. One that returns an error
	// before could not start; with [ErrIgnore] it did not want to.
	Serve func(ctx context.Context, ready func()) error
	// Spawn starts an incarnation of an actor under a name of its own. Ready is
	// called once, by anybody, when it is ready or cannot be. The actor is started by
	// [SpawnActor]. It fails by a panic or [Fail], with [ErrNormal] if it has simply come
	// to its end.
	Spawn func(by Spawner, name string, ready func(error)) (*PID, error)
	// Supervisor is a supervisor of its own. Without a name it has the child's.
	Supervisor *Spec

	// Restart is when it is started afresh; Permanent by default.
	Restart Restart
	// Significant marks a child that an [AutoShutdown] looks at.
	Significant bool
	// Patience is how long the child may take to stop: by default
	// [DefaultPatience], and [Infinity] for a supervisor.
	Patience time.Duration
	// StartLimit is how long it may take to be ready; zero is as long as it takes.
	StartLimit time.Duration
}

// Service returns a child that is a function, ready at once. See [Child.Run].
func Service(name string, run func(ctx context.Context) error) Child {
	return Child{Name: name, Run: run}
}

// ReadyService returns a child that is a function and says when it is ready. See
// [Child.Serve].
func ReadyService(name string, serve func(ctx context.Context, ready func()) error) Child {
	return Child{Name: name, Serve: serve}
}

// Nested returns a child that is a supervisor.
func Nested(spec Spec) Child { return Child{Name: spec.Name, Supervisor: &spec} }

// patience is the child's, with the defaults.
func (c *Child) patience() time.Duration {
	switch {
	case c.Patience != 0:
		return c.Patience
	case c.Supervisor != nil:
		return Infinity
	default:
		return DefaultPatience
	}
}

// Spec describes a supervisor.
type Spec struct {
	Name      string
	Strategy  Strategy
	Intensity Intensity
	Backoff   Backoff
	// AutoShutdown ends the supervisor when significant children have ended.
	AutoShutdown AutoShutdown
	Children     []Child // in the order of their start
	// Most is how many children there may be at once; zero is as many as come.
	Most int
	// Decide is asked what to do about a crash; nil is [AsDeclared]. Like all hooks it is
	// called by the supervisor, holds it up, and must not call its [Tree]. If it panics, or
	// says what is none of the directives, the answer is [DoEscalate].
	Decide func(child string, reason error) Directive
	// Restarted is told of each restart of a child, before it happens.
	Restarted func(child string, reason error)
	// GaveUp is told once that the supervisor will restart nobody any more. Who
	// sets it has the last word: the children still live, until Stop ends them.
	// Without it they are stopped at once. A supervisor that is a child never
	// waits.
	GaveUp func(*EscalationError)
	// Log is told of crashes, of children that do not stop, and of giving up. A
	// supervisor with a system of its own has slog.Default(), others none; one that
	// is a child has its supervisor's.
	Log *slog.Logger
}

// Fault is one thing that is wrong with a [Spec].
type Fault struct {
	Supervisor string
	Child      string // empty if it is the supervisor's own
	Problem    string
}

// Error tells where and what.
func (f *Fault) Error() string {
	who := "supervisor"
	if f.Supervisor != "" {
		who += fmt.Sprintf(" %q", f.Supervisor)
	}
	if f.Child != "" {
		who += fmt.Sprintf(": child %q", f.Child)
	}
	return who + ": " + f.Problem
}

// check returns all that is wrong, nested supervisors included.
func (s *Spec) check() error {
	var faults []error
	fault := func(wrong bool, format string, args ...any) {
		if wrong {
			faults = append(faults, &Fault{Supervisor: s.Name, Problem: fmt.Sprintf(format, args...)})
		}
	}
	fault(s.Strategy > SimpleOneForOne, "no such strategy: %d", s.Strategy)
	fault(s.AutoShutdown > AllSignificant, "no such auto-shutdown: %d", s.AutoShutdown)
	fault(s.Intensity.Restarts < 0, "fewer restarts than none: %d", s.Intensity.Restarts)
	fault(s.Intensity.Within < 0, "a period before it begins: %v", s.Intensity.Within)
	// Within no time there is never one restart too many: it would go on for ever.
	fault(s.Intensity.Restarts > 0 && s.Intensity.Within == 0, "%d restarts within no time: needs a period", s.Intensity.Restarts)
	simple := s.Strategy == SimpleOneForOne
	fault(simple && s.AutoShutdown != Never, "simple_one_for_one has no auto-shutdown")
	fault(simple && len(s.Children) > 0, "simple_one_for_one begins without children")
	for _, problem := range s.Backoff.problems() {
		fault(true, "backoff: %s", problem)
	}
	fault(s.Most < 0, "fewer children than none may be: %d", s.Most)
	fault(s.Most > 0 && len(s.Children) > s.Most, "%d children, where %d may be", len(s.Children), s.Most)
	seen := map[string]bool{}
	for i := range s.Children {
		name := s.Children[i].Name
		if seen[name] && name != "" {
			faults = append(faults, &Fault{s.Name, name, "there are two of that name"})
		}
		seen[name] = true
		faults = append(faults, s.checkChild(&s.Children[i], fmt.Sprintf("child %d", i+1)))
	}
	return errors.Join(faults...)
}

// checkChild returns all that is wrong with one child, which is called so if it has no name.
func (s *Spec) checkChild(c *Child, nameless string) error {
	var faults []error
	fault := func(wrong bool, problem string) {
		if wrong {
			if c.Name == "" {
				problem = nameless + ": " + problem
			}
			faults = append(faults, &Fault{s.Name, c.Name, problem})
		}
	}
	kinds := 0
	for _, is := range []bool{c.Run != nil, c.Serve != nil, c.Spawn != nil, c.Supervisor != nil} {
		if is {
			kinds++
		}
	}
	fault(c.Name == "", "has no name")
	fault(kinds != 1, "is not one of Run, Serve, Spawn and Supervisor")
	fault(c.Restart > Temporary, fmt.Sprintf("no such restart type: %d", c.Restart))
	fault(c.Patience < BrutalKill, fmt.Sprintf("no such patience: %v", c.Patience))
	fault(c.StartLimit < 0, fmt.Sprintf("no such limit for the start: %v", c.StartLimit))
	fault(c.Significant && c.Restart == Permanent, "a significant child cannot be permanent")
	fault(c.Significant && s.AutoShutdown == Never, "is significant, where nothing depends on it")
	if c.Supervisor != nil {
		faults = append(faults, c.nested().check())
	}
	return errors.Join(faults...)
}

// nested is the child's own supervisor, with its name.
func (c *Child) nested() *Spec {
	spec := *c.Supervisor
	if spec.Name == "" {
		spec.Name = c.Name
	}
	return &spec
}
