package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/golda-dev/golda/internal/plain"
)

// Restart is a child's restart type: whether the child is restarted after it
// has ended by itself.
type Restart uint8

// The restart types, as in OTP.
const (
	// Permanent children are always restarted. Permanent is the default.
	Permanent Restart = iota
	// Transient children are restarted if they crashed, but not if they ended
	// well.
	Transient
	// Temporary children are never restarted. The supervisor forgets them when
	// they end, even if it stopped them on behalf of another child.
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

// AutoShutdown says whether a supervisor ends when its significant children
// have ended. By default it does not; OTP calls that never.
type AutoShutdown uint8

// The kinds of auto-shutdown, as in OTP.
const (
	// AnySignificant ends the supervisor when a significant child has ended by
	// itself and is not restarted.
	AnySignificant AutoShutdown = iota + 1
	// AllSignificant ends the supervisor when its last significant child has
	// ended.
	AllSignificant
)

// String returns the OTP name.
func (a AutoShutdown) String() string {
	switch a {
	case 0:
		return "never"
	case AnySignificant:
		return "any_significant"
	case AllSignificant:
		return "all_significant"
	default:
		return fmt.Sprintf("AutoShutdown(%d)", uint8(a))
	}
}

// Directive is a decider's answer to a crash. No directive resumes the crashed
// incarnation; see the package comment.
type Directive uint8

// The directives. All but the first override the restart type.
const (
	// AsDeclared follows the restart type.
	AsDeclared Directive = iota
	// DoRestart restarts the child, even a temporary one. The restart counts
	// against the [Intensity].
	DoRestart
	// DoStop leaves the child stopped, as if it had ended well.
	DoStop
	// DoEscalate gives up at once, however many restarts the intensity still
	// allows.
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

// defaultPatience is the limit of a child without one of its own.
const defaultPatience = 5 * time.Second

// Limits for the time that a child may take to stop.
const (
	// Infinity waits as long as it takes. It is the default of a child that is
	// a supervisor.
	Infinity time.Duration = math.MaxInt64
	// BrutalKill does not wait: the child is asked to stop and abandoned at
	// once.
	BrutalKill time.Duration = -1
)

// Child describes one child of a [Tree]. It needs a Name and exactly one of
// Run, Serve, Spawn and Supervisor.
type Child struct {
	Name string

	// Run is a service that is ready at once. It should return when ctx ends;
	// its error does not matter then. If it returns earlier, it has ended well
	// (nil, or an error that wraps [ErrShutdown]) or crashed (another error, a
	// panic, a runtime.Goexit).
	Run func(ctx context.Context) error
	// Serve is a service that calls ready when it is ready. If it returns an
	// error before, it could not start; if that error is [ErrIgnore], the child
	// is not needed.
	Serve func(ctx context.Context, ready func()) error
	// Spawn starts an incarnation of an actor under the given name. Any
	// goroutine may call ready, once, with nil when the actor is ready or with
	// an error if it cannot start. [SpawnActor] starts the actor. The actor
	// fails by a panic or by [Fail]; it ends well with Fail and [ErrNormal].
	Spawn func(by Spawner, name string, ready func(error)) (*PID, error)
	// Supervisor makes the child a supervisor. If the spec has no name, it
	// takes the child's.
	Supervisor *Spec

	// Restart is the restart type; Permanent by default.
	Restart Restart
	// Significant marks a child that an [AutoShutdown] counts.
	Significant bool
	// Patience is how long the child may take to stop: by default 5 s, and
	// [Infinity] for a supervisor.
	Patience time.Duration
	// StartLimit is how long the child may take to be ready; zero is no limit.
	StartLimit time.Duration
}

// Service returns a child that is a function, ready at once. See [Child.Run].
func Service(name string, run func(ctx context.Context) error) Child {
	return Child{Name: name, Run: run}
}

// patience returns the child's Patience, with the defaults applied.
func (c *Child) patience() time.Duration {
	switch {
	case c.Patience != 0:
		return c.Patience
	case c.Supervisor != nil:
		return Infinity
	default:
		return defaultPatience
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
	// Most is how many children there may be at once; zero is no limit.
	Most int
	// Decide chooses the reaction to a crash; nil is [AsDeclared]. Like all
	// hooks it is called by the supervisor, blocks it, and must not call its
	// [Tree]. If it panics or returns an unknown directive, the supervisor
	// takes [DoEscalate].
	Decide func(child string, reason error) Directive
	// Restarted is called before each restart of a child.
	Restarted func(child string, reason error)
	// GaveUp is called once when the supervisor has decided to restart no
	// further child. With a GaveUp hook the children keep running until Stop
	// ends them; without it the supervisor stops them at once. A supervisor
	// that is a child stops them at once in either case.
	GaveUp func(*EscalationError)
	// Log receives crashes, children that do not stop, and giving up. If Log is
	// nil, a supervisor with a system of its own logs to slog.Default(), a
	// child logs to the Log of the supervisor above it, and any other
	// supervisor does not log.
	Log *slog.Logger
}

// longestName is the length of the longest name of a supervisor or child in
// bytes: names are in each error and log line.
const longestName = 1024

const tooLong = "the name has %d bytes, the most is %d"

// short returns a name as errors of its Spec show it.
func short(name string) string { return plain.Brief(name, longestName) }

// SpecError is one thing that is wrong with a [Spec].
type SpecError struct {
	Supervisor string
	Child      string // empty if it is the supervisor's own
	Problem    string
}

// Error returns the place and the problem.
func (e *SpecError) Error() string {
	where := "supervisor"
	if e.Supervisor != "" {
		where += fmt.Sprintf(" %q", e.Supervisor)
	}
	if e.Child != "" {
		where += fmt.Sprintf(": child %q", e.Child)
	}
	return where + ": " + e.Problem
}

// check returns all faults, including the faults of nested supervisors.
func (s *Spec) check() error {
	var faults []error
	fault := func(wrong bool, format string, args ...any) {
		if wrong {
			faults = append(faults, &SpecError{Supervisor: short(s.Name), Problem: fmt.Sprintf(format, args...)})
		}
	}
	fault(len(s.Name) > longestName, tooLong, len(s.Name), longestName)
	fault(s.Strategy > SimpleOneForOne, "no such strategy: %d", s.Strategy)
	fault(s.AutoShutdown > AllSignificant, "no such auto-shutdown: %d", s.AutoShutdown)
	fault(s.Intensity.Restarts < 0, "Restarts is negative: %d", s.Intensity.Restarts)
	fault(s.Intensity.Within < 0, "Within is negative: %v", s.Intensity.Within)
	// With a period of zero there would never be one restart too many: restarts
	// would go on for ever.
	fault(s.Intensity.Restarts > 0 && s.Intensity.Within == 0, "Restarts is %d and Within is zero: set a period", s.Intensity.Restarts)
	simple := s.Strategy == SimpleOneForOne
	fault(simple && s.AutoShutdown != 0, "simple_one_for_one has no auto-shutdown")
	fault(simple && len(s.Children) > 0, "simple_one_for_one starts without children: add them later")
	for _, problem := range s.Backoff.problems() {
		fault(true, "backoff: %s", problem)
	}
	fault(s.Most < 0, "Most is negative: %d", s.Most)
	fault(s.Most > 0 && len(s.Children) > s.Most, "%d children, but Most is %d", len(s.Children), s.Most)
	seen := map[string]bool{}
	for i := range s.Children {
		name := s.Children[i].Name
		if seen[name] && name != "" {
			faults = append(faults, &SpecError{short(s.Name), short(name), "the name is used twice"})
		}
		seen[name] = true
		faults = append(faults, s.checkChild(&s.Children[i], fmt.Sprintf("child %d", i+1)))
	}
	return errors.Join(faults...)
}

// checkChild returns all faults of one child. A child without a name is
// described by the given words.
func (s *Spec) checkChild(c *Child, nameless string) error {
	var faults []error
	fault := func(wrong bool, problem string) {
		if wrong {
			if c.Name == "" {
				problem = nameless + ": " + problem
			}
			faults = append(faults, &SpecError{short(s.Name), short(c.Name), problem})
		}
	}
	kinds := 0
	for _, is := range []bool{c.Run != nil, c.Serve != nil, c.Spawn != nil, c.Supervisor != nil} {
		if is {
			kinds++
		}
	}
	fault(c.Name == "", "has no name")
	fault(len(c.Name) > longestName, fmt.Sprintf(tooLong, len(c.Name), longestName))
	fault(kinds != 1, "needs exactly one of Run, Serve, Spawn and Supervisor")
	fault(c.Restart > Temporary, fmt.Sprintf("no such restart type: %d", c.Restart))
	fault(c.Patience < BrutalKill, fmt.Sprintf("no such patience: %v", c.Patience))
	fault(c.StartLimit < 0, fmt.Sprintf("no such limit for the start: %v", c.StartLimit))
	fault(c.Significant && c.Restart == Permanent, "a significant child cannot be permanent")
	fault(c.Significant && s.AutoShutdown == 0, "is significant, but AutoShutdown is never")
	if c.Supervisor != nil {
		faults = append(faults, c.nested().check())
	}
	return errors.Join(faults...)
}

// nested returns the spec of a child that is a supervisor, with its name.
func (c *Child) nested() *Spec {
	spec := *c.Supervisor
	if spec.Name == "" {
		spec.Name = c.Name
	}
	return &spec
}
