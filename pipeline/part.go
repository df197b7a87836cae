package pipeline

import (
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"time"

	"github.com/golda-dev/golda/behaviour"
	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/link"
	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/pipeline/flight"
	"github.com/golda-dev/golda/pipeline/letters"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/supervisor"
)

// Part is a part of a pipeline: a stage, a wire, a group of parts, or an
// option.
type Part = part.Part

// flow is a stage.Flow of any types: one stage, or several that are connected.
type flow interface{ Parts() part.List }

// rewired is a To or Route of a flow that belongs to a pipeline.
type rewired interface {
	Part
	Source() *inbox.Inbox
	Were() []behaviour.Outlet // the ports of the flow until Connect
	Outs() []behaviour.Outlet // and from then on
	Faults() []error
	Connect()
}

// The defaults.
const (
	defaultDrainTimeout = 25 * time.Second
	defaultGrace        = time.Second
	minGrace            = 100 * time.Millisecond
	defaultLetters      = 1024
	defaultLettersKept  = 16_384 // in files
	defaultLetterBytes  = 64 << 20
	defaultMaxInFlight  = 1 << 20
)

// settings are a pipeline's options.
type settings struct {
	policies  []controller.Policy
	groups    []groupControl
	log       *slog.Logger
	letters   []func(stage.DeadLetter)
	failures  []func(stage.DeadLetter)
	show      bool // commands in the log
	system    *actor.System
	strategy  supervisor.Strategy
	intensity supervisor.Intensity
	backoff   supervisor.Backoff
	drain     time.Duration
	grace     time.Duration
	keep      letters.Options
	types     map[reflect.Type]part.LetterType // of commands in letters
	inFlight  int
	controls  int            // how often Control was given
	given     map[string]int // how often each option was given that New takes once
	defaults  bool           // the options that are being placed are part.Defaults
	flaws     []flaw         // of options, whatever a later one sets
	around    []stage.MiddlewareFunc

	checkpoint *checkpoint     // nil without the option
	flight     *flight.Options // likewise
}

// checkpoint is a file, and how often it is written.
type checkpoint struct {
	file   string
	period time.Duration
}

// flaw is one fault of an option.
type flaw struct{ option, problem string }

func (s *settings) flaw(option, problem string) { s.flaws = append(s.flaws, flaw{option, problem}) }

// once is an option that New takes once. Of two, the second could undo a bound
// that the first has set, unnoticed.
func once(name string, set func(*settings)) Part {
	return option(func(s *settings) {
		if s.given == nil {
			s.given = map[string]int{}
		}
		if s.given[name] == 1 {
			s.flaw(name, "is given twice")
		}
		if !s.defaults {
			s.given[name]++
		}
		set(s)
	})
}

func defaults() settings {
	return settings{
		policies: []controller.Policy{policy.Backlog{}},
		log:      slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		drain:    defaultDrainTimeout,
		grace:    defaultGrace,
		inFlight: defaultMaxInFlight,
	}
}

// option is a part that changes the settings.
type option func(*settings)

// Part makes an option a part of a pipeline.
func (option) Part(part.Seal) {}

// Control sets the policy that controls the pipeline. The default is
// [policy.Backlog] with its own defaults. Several policies may share the work
// if each is a [controller.Claimer] and no two claim the same knob; give all of
// them to one Control, since a second Control is a fault. [Pipeline.SetPolicy]
// replaces the policies of a pipeline that runs.
func Control(p controller.Policy, more ...controller.Policy) Part {
	return option(func(s *settings) {
		s.controls++
		s.policies = append([]controller.Policy{p}, more...)
	})
}

// Middleware puts middleware around the handlers of all stages, also of stages
// that are added later: logging, tracing, metrics, authorisation. The first is
// the outermost, several Middleware options add up, and they are outside the
// middleware of [stage.Middleware]. A pipeline without middleware pays nothing
// for it. See [stage.MiddlewareFunc].
func Middleware(all ...stage.MiddlewareFunc) Part {
	return option(func(s *settings) {
		for i, m := range all {
			if m == nil {
				s.flaw("Middleware", fmt.Sprintf("middleware %d is nil", i+1))
			}
		}
		s.around = append(s.around, all...)
	})
}

// groupControl is the policies of the controller that a group or stage has of
// its own.
type groupControl struct {
	group    string
	policies []controller.Policy
}

// ControlFor gives a [Group], or a stage that is in no group, a controller of
// its own, with a policy, or several that share the work as in [Control]; LEDA:
// "cada aglomerado possui seu próprio controlador", and in ERLDA each stage has
// a controller. That controller sees only the stages of the group, or the one
// stage, and changes nothing else: its policies cannot move a stage to a pool
// other than the group's or the stage's own, make pools, or limit the commands
// that enter the pipeline. The policy of Control governs all other stages, and
// does not see the stages of the group. [Pipeline.SetGroupPolicy] replaces the
// policies of a pipeline that runs.
//
// So a stage gets thresholds of its own:
//
//	pipeline.Control(policy.ERLDA{}), pipeline.ControlFor("parse", policy.ERLDA{Up: 20, Down: 2})
func ControlFor(name string, p controller.Policy, more ...controller.Policy) Part {
	return option(func(s *settings) {
		s.groups = append(s.groups, groupControl{name, append([]controller.Policy{p}, more...)})
	})
}

// Logger sets the log of crashes, restarts and changes of knobs, and of dead
// letters and failures that no function is subscribed to. Of each kind it has
// at most ten lines a second, and the number of lines that were left out. By
// default warnings and errors go to the standard error, because nothing may be
// lost silently. A slog.DiscardHandler turns the log off.
func Logger(l *slog.Logger) Part {
	return once("Logger", func(s *settings) {
		switch {
		case l == nil:
			s.flaw("Logger", "the logger is nil")
		case l.Handler() == nil:
			s.flaw("Logger", "the logger has no handler; see slog.New")
		}
		s.log = l
	})
}

// DeadLetters subscribes a function to all commands that leave a letter in
// [Pipeline.DeadLetters] or [Pipeline.Quarantine]. Without one, dead letters
// are logged. If the option is given more than once, each function is called.
//
// A function is called for one letter at a time, in the order in which the
// commands ended, on a goroutine of its own; up to 1,024 letters wait for it.
// While that many wait, the goroutine that ends the next command waits too,
// until the function returns: a slow function holds the pipeline back, and
// loses nothing. But if a function does not return for 5 s while a letter waits
// for a place in the queue, nothing waits for it until it returns: letters that
// find the queue full are logged instead. A panic in the function, or
// runtime.Goexit, is logged with the letter; then the function is called with
// the next letter.
//
// [Pipeline.Stop] returns when the functions have been called with all letters.
// It does not wait for a function that does not return for 5 s or, if the stop
// is a hard one, within the [Grace]; the letters that are left are logged and
// counted in [StopError]'s Unheard. The stores [Pipeline.DeadLetters] and
// [Pipeline.Quarantine] keep the letters in any case.
func DeadLetters(f func(stage.DeadLetter)) Part {
	return option(func(s *settings) {
		if f == nil {
			s.flaw("DeadLetters", "the function is nil")
		}
		s.letters = append(s.letters, f)
	})
}

// Failures subscribes a function to all failed commands that leave a letter:
// see [Pipeline.Failures]. The letter's reason is [reason.Error], and its error
// is the handler's. Without such a function these failures are logged. The
// function is called as with [DeadLetters], also if it is slow, panics or does
// not return.
func Failures(f func(stage.DeadLetter)) Part {
	return option(func(s *settings) {
		if f == nil {
			s.flaw("Failures", "the function is nil")
		}
		s.failures = append(s.failures, f)
	})
}

// ShowCommands makes the log show commands. By default its lines about
// failures, dead letters and crashes have the type of the command, its key if
// the stage is keyed, and the number of its letter, by which
// [letters.Store.Get] finds it: the command may have personal data in it, and the program may still
// be changing it. With ShowCommands they have a value as well: the result of
// the command's LogValue method if it is a [slog.LogValuer], else its text as
// %+v writes it, 512 bytes at most. The command is read then, so it must not be
// changed after it was submitted. One whose handler has not returned is not
// shown, and neither is one that is tried again after a crash.
//
// Keys, errors, panics, and the output of [letters.Store.Export] may contain parts of
// a command in any case.
func ShowCommands() Part { return option(func(s *settings) { s.show = true }) }

// MaxInFlight bounds the commands in flight that loops may add to; the default
// is 1<<20, about a million. A command that a stage forwards or emits along an
// edge that closes a loop is queued beyond the capacity of the next stage,
// because stages of a loop that waited for one another would wait for ever.
// [stage.Capacity] bounds the commands that arrive along all other edges and
// from outside: a stage that is beyond its capacity accepts none of these.
//
// At the bound Emit returns an error that is [stage.ErrMaxInFlight] if it leads
// to a stage of a loop that the handler's stage is in, and so does a Submit
// with the handler's context. A refused Emit leaves a letter, see
// [Pipeline.DeadLetters], and the log has a line with their number at most once
// a second. A forwarded command is in flight already, so the bound never
// refuses it.
//
// If the capacities of the stages add up to more than half of the bound,
// commands from outside wait while half of it is in flight, so that loops have
// the other half. Handlers may hold up to 256 emitted commands each that are
// not counted yet.
//
// A command in a queue takes 32 to 64 bytes besides the data that it points to,
// and half as much more while the queue grows: a million commands take 32 to 96
// MiB. A queue does not shrink again.
func MaxInFlight(n int) Part { return once("MaxInFlight", func(s *settings) { s.inFlight = n }) }

// System makes the pipeline run in an existing protoactor system, so that the
// actors of that system can reach the stages. By default all pipelines of a
// program share one, in which their names are unique, and which logs nothing.
func System(s *actor.System) Part {
	return once("System", func(set *settings) {
		if s == nil {
			set.flaw("System", "the system is nil; without System the pipelines of a program share one")
		}
		set.system = s
	})
}

// Supervise sets which stages are restarted together with a stage that failed.
// The default is [supervisor.RestForOne]: the stages nearer to the source are
// restarted, too. It matters only with an [Intensity]. A stage that was added
// later, and a pool that stages share, is restarted alone.
func Supervise(s supervisor.Strategy) Part {
	return once("Supervise", func(set *settings) { set.strategy = s })
}

// Intensity sets how many restarts of stages a pipeline makes within a period
// before it gives up; restarts of shared pools and of stages that were added
// later count apart. The default is none: a stage restarts its workers many
// times, with growing pauses, before it fails. [Backoff] sets the pause before
// each restart of a stage.
func Intensity(restarts int, within time.Duration) Part {
	return once("Intensity", func(set *settings) {
		set.intensity = supervisor.Intensity{Restarts: restarts, Within: within}
	})
}

// Backoff sets how long a pipeline waits before it restarts a stage that
// failed; the pauses grow. By default it does not wait, as OTP does not. Queued
// commands wait meanwhile. It matters only with an [Intensity], whose period it
// has to fit: with pauses longer than the period, restarts go on for ever.
//
// A backoff is always a first pause that doubles with each further one, up to a
// longest: see [stage.RestartPolicy] for the workers of a stage, and
// [stage.RetryPolicy] for commands.
func Backoff(b supervisor.Backoff) Part {
	return once("Backoff", func(set *settings) { set.backoff = b })
}

// DrainTimeout sets how long [Pipeline.Run] lets the pipeline drain before it
// stops hard. The default is 25 s: less than the 30 s after which Kubernetes
// kills a process that it has asked to stop, with time to spare for a hard
// stop.
func DrainTimeout(d time.Duration) Part {
	return once("DrainTimeout", func(s *settings) { s.drain = d })
}

// Grace sets how long workers may take to end when the pipeline stops hard and
// their contexts have ended. A worker that takes longer is abandoned, its stage
// is named in the [*StopError], and the commands that it holds are
// dead-lettered: the command that its handler has not returned from, the
// commands of its batch that it has not started, and the commands that it has
// completed without a waiting caller, if it has not reported them yet. Later
// outcomes of the worker are ignored. Only the commands of handlers that
// suspend ([behaviour.Suspending]) stay in flight until their handlers return.
// The default is 1 s; less than 100 ms counts as 100 ms, since even idle
// workers need a moment.
//
// A grace is always the time from the end of a handler's context until its
// worker is abandoned. Here the context ends when the pipeline stops hard; with
// [stage.Grace] it ends at the stage's time limit.
func Grace(d time.Duration) Part { return once("Grace", func(s *settings) { s.grace = d }) }

// Subgraph makes one part of several, so that a sub-graph is an ordinary Go
// value: a function may return its stages and wires as a Part.
func Subgraph(parts ...Part) Part { return joined(parts) }

// joined is the parts of [Subgraph].
type joined []Part

// Part makes the joined parts a part of a pipeline.
func (joined) Part(part.Seal) {}

// group is a part whose stages share workers.
type group struct {
	name         string
	fewest, most int
	parts        []Part
}

// Part makes a group a part of a pipeline.
func (*group) Part(part.Seal) {}

// Group makes stages share one pool of workers (LEDA's aglomerado, the A of
// PCAM), instead of workers for each stage. The policy decides how many workers
// the pool has, from fewest to most, and how they choose among the stages; by
// default the stage whose command came first is served first. The stages need
// not be given to [New] again; parts that are not stages count as if they were
// given there. [ControlFor] gives the group a policy of its own.
// [stage.Instances] bounds how many of the workers may be at one stage at once.
//
// A shared worker never waits for a free slot: what a handler forwards or emits
// is queued beyond the capacity of the next stage; but no command is taken from
// a stage while a stage ahead of it is full. For the same reason a handler's
// own Submit fails when the other stage is full. A handler that waits for
// another stage's answer may wait for its own worker, so such a stage should
// not be in a group.
func Group(name string, fewest, most int, parts ...Part) Part {
	return &group{name, fewest, most, parts}
}

// mapping is a part that maps groups and stages to a process.
type mapping struct {
	process string
	names   []string
}

// Part makes a mapping a part of a pipeline.
func (mapping) Part(part.Seal) {}

// Assign declares which process is to run which groups, and stages that are in
// no group: the M of PCAM. [New] checks it, drawings show it, and
// [Pipeline.Assignments] returns it. Without [RunsHere] it is only a plan, and
// one process runs all stages.
func Assign(process string, groups ...string) Part { return mapping{process, groups} }

// entries is a part that names the entries.
type entries struct{ parts []Part }

// Part makes entries a part of a pipeline.
func (entries) Part(part.Seal) {}

// Entry declares the stages that commands are submitted to from outside, so
// that [New] can find stages that no declared port leads to. Without it every
// stage may be an entry. The stages need not be given to New again. An Entry
// without stages is a fault.
func Entry(stages ...Part) Part { return entries{stages} }

// wire is a part that connects a port to a stage.
type wire struct {
	port    behaviour.Outlet
	to      *engine.Core
	connect func() error
	rewire  func()
}

// Part makes a wire a part of a pipeline.
func (wire) Part(part.Seal) {}

// Wire connects a port to a stage, or to a [stage.Flow]. The compiler checks
// that the stage takes what the port carries; [New] checks the rest.
// [Pipeline.Rewire] changes the wire of a port while the pipeline runs.
func Wire[C any](port *behaviour.Port[C], to behaviour.Target[C]) Part {
	w := wire{}
	if port != nil {
		w.port = port
		w.connect = func() error { return port.Connect(to) }
		w.rewire = func() { link.Rewire(port, to) }
	}
	w.to = engine.CoreOf(to)
	return w
}

// PartError is one thing that is wrong with the parts of a pipeline. Faults of
// a stage's own options are [*stage.OptionError]s.
type PartError struct {
	Pipeline string
	Part     string // the stage, wire or option
	Problem  string
}

// Error returns the part and the problem.
func (e *PartError) Error() string {
	return fmt.Sprintf("pipeline %q: %s: %s", e.Pipeline, e.Part, e.Problem)
}

// The names of the tree's children that are not stages. No stage may have them.
const (
	poolsChild       = "(pools)"
	controllersChild = "(controllers)"
)

func stageName(c *engine.Core) string { return fmt.Sprintf("stage %q", c.Name()) }
