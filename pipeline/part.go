package pipeline

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/supervisor"
)

// Part is what a pipeline is made of: a stage, a wire or an option.
type Part interface{ Part(part.Seal) }

// The defaults.
const (
	// DefaultDrainTimeout is how long [Pipeline.Run] lets a pipeline drain: less than the 30 s
	// after which Kubernetes kills what was told to stop, with time to spare for a hard stop.
	DefaultDrainTimeout = 25 * time.Second
	// DefaultGrace is how long workers may take to end when their contexts
	// have ended.
	DefaultGrace = time.Second
	// DefaultLetters is how many letters each of a pipeline's three stores keeps.
	DefaultLetters = 1024
	// DefaultMaxInFlight bounds the commands in flight that loops may add to.
	DefaultMaxInFlight = 1 << 20
	leastGrace         = 100 * time.Millisecond
)

// settings are a pipeline's options.
type settings struct {
	policies  []controller.Policy
	groups    []groupControl
	log       *slog.Logger
	letters   []func(stage.DeadLetter)
	failures  []func(stage.DeadLetter)
	hide      bool
	system    *actor.System
	strategy  supervisor.Strategy
	intensity supervisor.Intensity
	backoff   supervisor.Backoff
	drain     time.Duration
	grace     time.Duration
	keep      int
	inFlight  int
	controls  int    // how often Control was given
	flaws     []flaw // of options, whatever a later one sets
}

// flaw is one thing that is wrong with an option.
type flaw struct{ option, problem string }

func (s *settings) flaw(option, problem string) { s.flaws = append(s.flaws, flaw{option, problem}) }

func defaults() settings {
	return settings{
		policies: []controller.Policy{policy.Backlog{}},
		log:      slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		drain:    DefaultDrainTimeout,
		grace:    DefaultGrace,
		keep:     DefaultLetters,
		inFlight: DefaultMaxInFlight,
	}
}

// option is a part that sets something.
type option func(*settings)

// Part makes an option a part of a pipeline.
func (option) Part(part.Seal) {}

// Control sets the policy by which the pipeline is run. The default is
// [policy.Backlog] with its own defaults. Several policies may share the work if each
// is a [controller.Claimer] and no two claim the same knob; they are given to one Control, a second is a fault.
// [Pipeline.Use] changes the policies of a pipeline that runs.
func Control(p controller.Policy, more ...controller.Policy) Part {
	return option(func(s *settings) {
		s.controls++
		s.policies = append([]controller.Policy{p}, more...)
	})
}

// groupControl are the policies of a group's own controller.
type groupControl struct {
	group    string
	policies []controller.Policy
}

// ControlFor gives a [Group] a controller of its own, with a policy, or several that share the work as in [Control]; LEDA: "cada
// aglomerado possui seu próprio controlador". That controller sees the stages of the group only, and changes nothing else: its policies
// cannot move a stage to another pool than the group's or a stage's own, make pools, or limit what enters the pipeline. The policy of
// Control governs all other stages, and does not see those of the group. [Pipeline.UseFor] changes the policies of a
// pipeline that runs.
func ControlFor(group string, p controller.Policy, more ...controller.Policy) Part {
	return option(func(s *settings) {
		s.groups = append(s.groups, groupControl{group, append([]controller.Policy{p}, more...)})
	})
}

// Logger sets where the pipeline tells of crashes, restarts, changes of the
// controller, and of dead letters and failures that no function is set for; of each kind
// at most ten lines a second, with the number that was left out. By default,
// warnings and worse go to the standard error, since nothing may be lost in
// silence. A slog.DiscardHandler keeps it quiet.
func Logger(l *slog.Logger) Part {
	return option(func(s *settings) {
		switch {
		case l == nil:
			s.flaw("Logger", "the logger is nil")
		case l.Handler() == nil:
			s.flaw("Logger", "the logger has no handler; see slog.New")
		}
		s.log = l
	})
}

// DeadLetters sets a function that is called for every command that ended without an answer. With no such
// function dead letters are logged. If it is given more than once, each function is called.
//
// A function is called for one letter at a time, in the order in which the commands ended, on a goroutine of its own; up to
// 1,024 letters wait for it. If more would, whoever ends the next command waits for the function to return: a slow one holds
// the pipeline back, and loses nothing. But one that does not return for 5 s while a letter waits for room is not waited for
// until it returns: letters that find the queue full are logged instead. A panic in it, or runtime.Goexit, is logged with
// the letter, and the next letter is told.
//
// [Pipeline.Stop] returns when all letters were told. It gives up a function that does not return for 5 s, or within the
// [Grace] when the stop is a hard one; what it was not told is logged and counted in [StopError]'s Unheard.
// [Pipeline.DeadLetters] and [Pipeline.Quarantine] keep the letters in any case.
func DeadLetters(f func(stage.DeadLetter)) Part {
	return option(func(s *settings) {
		if f == nil {
			s.flaw("DeadLetters", "the function is nil")
		}
		s.letters = append(s.letters, f)
	})
}

// Failures sets a function that is called for every command that failed and leaves a letter: see
// [Pipeline.Failures]. The letter's reason is [stage.ReasonError], and its error what the handler answered. With no such
// function these failures are logged. How it is called, and what if it is slow, panics or does not return, is as with
// [DeadLetters].
func Failures(f func(stage.DeadLetter)) Part {
	return option(func(s *settings) {
		if f == nil {
			s.flaw("Failures", "the function is nil")
		}
		s.failures = append(s.failures, f)
	})
}

// HideCommands has the log show of commands only their types. By default the log lines of failures and of dead letters have the
// command: what its LogValue method returns if it is a [slog.LogValuer], else its text as %+v writes it, 512 bytes at
// most. Errors, panics, and what [Letters.Export] writes may still tell what is in a command.
func HideCommands() Part { return option(func(s *settings) { s.hide = true }) }

// KeepLetters sets how many letters are kept, by [Pipeline.DeadLetters], [Pipeline.Quarantine] and
// [Pipeline.Failures] each; the default is [DefaultLetters], 0 means none. A letter
// holds its command, so where commands are large there should be few.
func KeepLetters(n int) Part { return option(func(s *settings) { s.keep = n }) }

// MaxInFlight bounds the commands in flight that loops may add to; the default is
// [DefaultMaxInFlight]. What a stage forwards or emits along a way that closes a loop is taken
// beyond the capacity of the next stage, because stages of a loop that waited for one another
// would wait for ever. [stage.Capacity] bounds what comes along all other ways and from outside: a
// stage that is beyond its capacity takes none of that.
//
// At the bound Emit returns an error that is [stage.ErrMaxInFlight], and a command that is
// forwarded is shed. Each leaves a letter, see [Pipeline.DeadLetters], and the log has a line with
// their number at most once a second. Where the capacities of the stages add up to more than half
// of the bound, commands from outside wait while half of it is in flight, so that loops have the
// other half. Handlers may hold up to 256 emitted commands each that are not counted yet.
//
// A command in a queue takes 32 to 64 bytes beside what it points to, and half as much more while
// the queue grows: [DefaultMaxInFlight] commands take 32 to 96 MiB. A queue does not shrink again.
func MaxInFlight(n int) Part { return option(func(s *settings) { s.inFlight = n }) }

// System runs the pipeline in a protoactor system that is there already, so
// that its actors can reach the stages. The default is a system of its own.
func System(s *actor.System) Part {
	return option(func(set *settings) {
		if s == nil {
			set.flaw("System", "the system is nil; without System the pipeline has one of its own")
		}
		set.system = s
	})
}

// Supervise sets which stages are restarted with one that gave up. The default
// is [supervisor.RestForOne]: stages nearer to the source go with it. It only
// matters with an [Intensity].
func Supervise(s supervisor.Strategy) Part { return option(func(set *settings) { set.strategy = s }) }

// Intensity sets how many restarts of stages a pipeline makes within a period
// before it gives up. The default is none: a stage has started its workers
// afresh many times, with growing pauses, before it gives up. How long it pauses before
// each of these restarts is [Backoff]'s.
func Intensity(restarts int, within time.Duration) Part {
	return option(func(set *settings) {
		set.intensity = supervisor.Intensity{Restarts: restarts, Within: within}
	})
}

// Backoff sets how long a pipeline waits before it restarts a stage that gave up, longer and longer;
// the default is not at all, as OTP. What is queued meanwhile waits. It only matters with an [Intensity],
// whose period it has to fit: a pause that is longer than the period lets restarts go on for ever.
func Backoff(b supervisor.Backoff) Part {
	return option(func(set *settings) { set.backoff = b })
}

// DrainTimeout sets how long [Pipeline.Run] lets the pipeline drain before it
// stops hard. The default is [DefaultDrainTimeout].
func DrainTimeout(d time.Duration) Part { return option(func(s *settings) { s.drain = d }) }

// Grace sets how long workers may take to end when the pipeline stops hard and
// their contexts have ended. Who takes longer is named in the [*StopError] and
// abandoned, and what it holds is dead-lettered: the command that it is at, those of its batch
// that it has not begun, and those that it has done and nobody waited for, if it has not come to
// tell of them. What it does later is ignored. Only commands of handlers that suspend ([behaviour.Suspending])
// are in flight until their handlers return. The default is [DefaultGrace]; less than 100 ms is taken for 100 ms,
// since even idle workers need a moment.
func Grace(d time.Duration) Part { return option(func(s *settings) { s.grace = d }) }

// joined are several parts as one.
type joined []Part

// Part makes several parts one.
func (joined) Part(part.Seal) {}

// Join makes several parts one, so that a sub-graph is an ordinary Go value: a
// function may return its stages and wires as a Part, whatever they are inside.
func Join(parts ...Part) Part { return joined(parts) }

// group is a part whose stages share workers.
type group struct {
	name         string
	fewest, most int
	parts        []Part
}

// Part makes a group a part of a pipeline.
func (*group) Part(part.Seal) {}

// Group has stages share one pool of workers (LEDA's aglomerado, the A of PCAM): from
// fewest to most, as the policy says, instead of workers for each. The stages need not
// be given to [New] again; parts that are not stages are as if given there. How the
// workers choose among the stages is the policy's affair, too; by default whose work
// came first is served first. [ControlFor] gives the group a policy of its own. [stage.Instances] bounds how many of them may be at one
// stage at once.
//
// A shared worker never waits for room: what a handler forwards, and what it emits, is
// let in beyond the capacity of the next stage; but nothing is taken from a stage while
// one ahead of it is full. For the same reason a handler's own Submit fails when
// the other stage is full, and one that waits for another stage's answer may wait for
// itself: such a stage should not be in a group.
func Group(name string, fewest, most int, parts ...Part) Part {
	return &group{name, fewest, most, parts}
}

// mapping is a part that says which process runs what.
type mapping struct {
	process string
	names   []string
}

// Part makes a mapping a part of a pipeline.
func (mapping) Part(part.Seal) {}

// Map says which process is meant to run which groups, or stages that are in none: the M of
// PCAM. It is checked, drawn, and told by [Pipeline.Mapping]. It is a plan only: as yet all
// runs in this process.
func Map(process string, groups ...string) Part { return mapping{process, groups} }

// entries is a part that names stages.
type entries struct{ parts []Part }

// Part makes it a part of a pipeline.
func (entries) Part(part.Seal) {}

// Entry says to which stages commands are submitted from outside, so that [New] can
// find those that no declared way leads to. Without it every stage may be an entry.
// The stages need not be given to New again. An Entry without stages is a fault.
func Entry(stages ...Part) Part { return entries{stages} }

// wire is a part that leads a port to a stage.
type wire struct {
	port    behaviour.Outlet
	to      *engine.Core
	connect func() error
}

// Part makes a wire a part of a pipeline.
func (wire) Part(part.Seal) {}

// Wire leads a port to a stage. The compiler checks that the stage takes what
// the port carries; [New] checks the rest.
func Wire[C any](port *behaviour.Port[C], to *stage.Stage[C]) Part {
	w := wire{}
	if port != nil {
		w.port = port
		w.connect = func() error { return port.Connect(to) }
	}
	if to != nil {
		w.to = to.Core()
	}
	return w
}

// Fault is one thing that is wrong with the parts of a pipeline. Faults of a
// stage's own options are [*stage.Fault]s.
type Fault struct {
	Pipeline string
	Part     string // which part: a stage, a wire, an option
	Problem  string
}

// Error tells the part and the problem.
func (f *Fault) Error() string {
	return fmt.Sprintf("pipeline %q: %s: %s", f.Pipeline, f.Part, f.Problem)
}
