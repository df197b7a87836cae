package simulator

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/controller/policy"
	"github.com/golda-dev/golda/stage/queue"
)

// Model is a pipeline, its load and its processes, as a plain value. [Run] does
// not change it, so one model may be run by several goroutines if its functions
// and distributions allow that.
type Model struct {
	Seed    uint64
	Length  time.Duration // of virtual time
	Warmup  time.Duration // measuring begins then; the series and the counts of the law begin at the start
	Every   time.Duration // between two points of the series; default a hundredth of Length
	Sources []Source
	Stages  []Stage
	// Policy controls the stages of each process, as in a pipeline; nil: their
	// workers stay as they are. It may turn all knobs but the enabled one, the
	// quality and thefts, which are an error, as is a limit of the entry where
	// stages with a source do not Reject; with a Fleet none of the gates either,
	// since its messages cannot be refused.
	Policy controller.Policy
	Pools  []Pool // shared ones; none: each stage has workers of its own
	CPUs   int    // of a process, which handlers that compute share evenly; 0: as many as they need
	Fleet  *Fleet // processes behind a durable queue; nil: one process, whose queues are in memory
}

// Source is a source of commands.
type Source struct {
	To       string // a stage
	Load     Load
	Arrivals []time.Duration // without a Load: when its commands arrive, in order
	Priority int             // of its commands, for a policy that sheds and for a discipline
	Weight   int             // at stages that are Fair, at which each source is a tenant; default 1

	// A client waits for the answer to each message, for Timeout; 0: as long as
	// it takes. When it gives up or the message is refused, it sends another
	// message in its place after Pause, up to Retries times. The first message
	// stays in the system, unless it Expires: then a stage ends it unhandled.
	Timeout time.Duration
	Expires bool
	Retries int
	Pause   time.Duration
	// Breaks is how many messages are in flight when the source breaks and sends
	// no more, as one that accepts connections and has no more file descriptors;
	// 0: it never does.
	Breaks int
}

// Pool is a shared pool of workers, in each process. The stages that name it
// have no workers of their own.
type Pool struct {
	Name          string
	Workers, Most int // default 1, and Workers
	Dispatch      controller.Dispatch
	// Order has the names of the stages in the order of visits, in a pool that
	// is polled, and Visit the rest of its plan. Both may be left out.
	Order []string
	Visit controller.VisitPlan
}

// Fair has the sources of the model share a stage by their weights, as
// stage.Fair does.
type Fair struct {
	AtOnce   int // handlers of one source; 0: any number
	Capacity int // commands of one source in the queue; 0: a quarter of it
}

// Retry is how often and when a command is tried again whose handler has
// failed, as stage.Retry says.
type Retry struct {
	Attempts       int // in all; 0 and 1: it is not tried again
	Pause, Longest time.Duration
	Jitter, Budget float64
}

// Stage is a stage of a model. A worker handles one command after the other. A
// command that is forwarded or emitted to a full stage keeps its worker, until
// half of that stage's queue is free. If edges lead to several stages, the
// worker continues instead, and the command keeps a slot of its stage. Edges
// that close a loop are taken beyond the capacity. In all this the model is
// like the engine.
type Stage struct {
	Name     string
	Service  Distribution // how long the handler takes
	Computes bool         // the handler computes, so that it competes for the CPUs of its process; else it waits for something
	Blocking bool         // with Computes: they are CPUs of something outside, and policies see a stage that waits
	Workers  int          // in each process, at the start and at least; default 1, where an engine would take one for each CPU
	Most     int          // the most workers that the policy may give it; default Workers
	Capacity int          // of the queue; default 1024
	// Waits is how long the handler waits after Service, and needs no CPU then.
	// Nil: it does not.
	Waits      Distribution
	Fails      float64 // share of the tries that end with an error
	Retry      Retry
	Batch      int              // the most commands that a worker takes at once; default 256
	Instances  int              // the most workers that are at the stage at once; default Most, or in a Pool any number
	Pool       string           // a Pool of the model whose workers visit the stage; "": it has its own
	Priority   int              // of the stage, in a pool that serves stages by priority
	Discipline queue.Discipline // of the queue; nil is first in, first out
	TTL        time.Duration    // how long a command may wait in the queue; 0: for ever
	Rate       controller.Rate  // at which commands are started; the zero Rate is no bound
	Fair       *Fair            // nil: sources do not share the stage by weight
	// Admission is which commands of sources the stage takes; not with a Fleet.
	Admission controller.Admission
	// Reject makes a full queue refuse commands of a source, and shed commands
	// forwarded by another stage. Without Reject these commands wait. Messages
	// of a Fleet always wait.
	Reject bool
	// Lanes makes the stage keyed, and is the number of keys: the commands of a
	// key are handled one after the other, and all commands emitted for a
	// message have its key. 0: it is not keyed.
	Lanes   int
	Forward []Edge // at most one is taken
	Emit    []Edge // all are taken, before that
}

// Edge leads from a stage to another one, or to itself.
type Edge struct {
	To string
	// Share is how many of the stage's commands are forwarded, from 0 to 1, or
	// how many commands the stage emits for each, on average: 2.5 are two or
	// three.
	Share float64
}

// Fleet is the processes that work off a durable queue, each with all stages.
// All sources of the model lead to one stage: the queue is its inlet.
type Fleet struct {
	Processes  int           // at the start; default 1
	Hop        time.Duration // of the server for each message: published, delivered and acknowledged, one after the other
	Delay      time.Duration // between the server and a process, each way
	InFlight   int           // messages that a process has at most; default 1024
	Partitions int           // the messages of a partition are handled one after the other, in all processes together; 0: there are none
	Limit      int           // messages in the stream, beyond which it refuses further ones; 0: none
	AckWait    time.Duration // after which the messages of a process that was killed are delivered again; default 30 s
	Startup    time.Duration // until a new process takes messages; default 20 s
	Losses     []Loss
	Scale      *Autoscaler // nil: the number of processes stays as it is
}

// Loss kills a share of the processes that run at a time. New ones are started
// in their place.
type Loss struct {
	At    time.Duration
	Share float64 // from 0 to 1
}

// Autoscaler changes the number of processes by the law of package
// adapter/nats/fleet, as Kubernetes' HPA does by default: at each poll it adds
// as many processes as there are at most, or four, it removes processes when
// fewer were enough for as long as Down, and it changes nothing if the number
// is wrong by at most a tenth.
type Autoscaler struct {
	Law         policy.Backlog // default Target 10 s
	Poll        time.Duration  // default 15 s
	Down        time.Duration  // default 5 min
	Least, Most int            // processes; default 1, and no limit
}

// withDefaults returns the model with all defaults filled in. It copies the
// parts that it changes.
func (m Model) withDefaults() Model {
	m.Every = cmp.Or(m.Every, max(m.Length/100, 1))
	m.Stages = slices.Clone(m.Stages)
	for i := range m.Stages {
		st := &m.Stages[i]
		st.Workers = cmp.Or(st.Workers, 1)
		st.Most = cmp.Or(st.Most, st.Workers)
		st.Capacity, st.Batch = cmp.Or(st.Capacity, 1024), cmp.Or(st.Batch, 256)
		switch {
		case st.Instances != 0:
		case st.Pool != "":
			st.Instances = everyInstance
		default:
			st.Instances = st.Most
		}
	}
	m.Sources = slices.Clone(m.Sources)
	for i := range m.Sources {
		m.Sources[i].Weight = cmp.Or(m.Sources[i].Weight, 1)
	}
	m.Pools = slices.Clone(m.Pools)
	for i := range m.Pools {
		x := &m.Pools[i]
		x.Workers = cmp.Or(x.Workers, 1)
		x.Most = cmp.Or(x.Most, x.Workers)
	}
	if m.Fleet != nil {
		f := *m.Fleet
		f.Processes, f.InFlight = cmp.Or(f.Processes, 1), cmp.Or(f.InFlight, 1024)
		f.AckWait, f.Startup = cmp.Or(f.AckWait, 30*time.Second), cmp.Or(f.Startup, 20*time.Second)
		if f.Scale != nil {
			a := *f.Scale
			a.Law.Target = cmp.Or(a.Law.Target, 10*time.Second)
			a.Poll, a.Down, a.Least = cmp.Or(a.Poll, 15*time.Second), cmp.Or(a.Down, 5*time.Minute), cmp.Or(a.Least, 1)
			a.Most = cmp.Or(a.Most, mostProcesses)
			f.Scale = &a
		}
		m.Fleet = &f
	}
	return m
}

// Check returns all faults of the model at once, or nil.
func (m Model) Check() error {
	m = m.withDefaults()
	faults := []error{
		fault(m.Length <= 0 || m.Length > mostLength, "Length is %v, and must be above 0 and at most %v", m.Length, mostLength),
		fault(m.Warmup < 0 || m.Warmup >= m.Length && m.Length > 0, "Warmup is %v, and must be from 0 to less than Length", m.Warmup),
		fault(m.Every <= 0 || m.Length > 0 && m.Every > m.Length || m.Length/m.Every > mostPoints, "Every is %v, and must make from 1 to %d points", m.Every, mostPoints),
		fault(m.CPUs < 0, "CPUs is %d", m.CPUs),
		fault(len(m.Stages) == 0 || len(m.Sources) == 0, "there are %d stages and %d sources", len(m.Stages), len(m.Sources)),
	}
	for i := range m.Stages {
		faults = append(faults, m.checkStage(i))
	}
	for i, x := range m.Pools {
		faults = append(faults, m.checkPool(i, x))
	}
	for _, src := range m.Sources {
		faults = append(faults,
			fault(m.index(src.To) < 0, "a source leads to stage %q, which is missing", src.To),
			src.check(),
			fault(m.Fleet != nil && src.To != m.Sources[0].To,
				"with a Fleet all sources lead to one stage, and not to %q and %q", m.Sources[0].To, src.To))
	}
	if m.Policy != nil {
		faults = append(faults, m.Policy.Check(), m.checkClaims(m.Policy))
	}
	if m.Fleet != nil {
		faults = append(faults, m.Fleet.check())
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	return m.checkLoops()
}

// checkLoops refuses sources of whose messages too many commands come: they
// would take all memory in no virtual time.
func (m *Model) checkLoops() error {
	for _, src := range m.Sources {
		there, all := make([]float64, len(m.Stages)), 0.0 // commands of a message after a number of steps, and up to then
		there[m.index(src.To)] = 1
		for step, n := 0, 1.0; n > 1e-9; step++ {
			if all += n; all > mostCommands || step > mostCommands {
				return fault(true, "more than %d commands come of a message of stage %q, on average: a loop of edges may have no end",
					mostCommands, src.To)
			}
			next := make([]float64, len(there))
			n = 0
			for i := range m.Stages {
				for _, e := range slices.Concat(m.Stages[i].Forward, m.Stages[i].Emit) {
					next[m.index(e.To)] += there[i] * e.Share
					n += there[i] * e.Share
				}
			}
			there = next
		}
	}
	return nil
}

// The largest values that a model may have.
const (
	mostLength    = 21 * 24 * time.Hour // with controller.MostWorkers, this is as long as a Duration can count
	mostPoints    = 100_000
	mostProcesses = 10_000
	mostLanes     = 1 << 20
	mostEmitted   = 1_000   // for each command
	mostCommands  = 100_000 // of a message, on average
)

func (m *Model) checkStage(i int) error {
	st, name := &m.Stages[i], m.Stages[i].Name
	var faults []error
	add := func(wrong bool, format string, args ...any) {
		faults = append(faults, fault(wrong, "stage %q: %s", name, fmt.Sprintf(format, args...)))
	}
	add(name == "", "number %d has no name", i)
	add(m.index(name) != i, "there are two of that name")
	add(st.Service == nil, "no Service")
	if st.Service != nil {
		err := st.Service.Check()
		add(err != nil, "%v", err)
	}
	add(st.Workers < 1 || st.Most < st.Workers || st.Most > controller.MostWorkers,
		"Workers is %d and Most %d; they must be in this order and from 1 to %d", st.Workers, st.Most, controller.MostWorkers)
	add(st.Capacity < 1, "Capacity is %d", st.Capacity)
	add(st.Lanes < 0 || st.Lanes > mostLanes, "Lanes is %d, and must be from 0 to %d", st.Lanes, mostLanes)
	add(st.Lanes > 0 && st.Fair != nil, "it has Lanes, and is Fair")
	add(st.Fair != nil && (st.Fair.AtOnce < 0 || st.Fair.Capacity < 0), "Fair is %+v", st.Fair)
	add(st.Batch < 1 || st.Instances < 1, "Batch is %d and Instances %d", st.Batch, st.Instances)
	add(!(st.Fails >= 0 && st.Fails <= 1), "Fails is %v, and must be from 0 to 1", st.Fails)
	add(st.Retry.Attempts < 0 || min(st.Retry.Pause, st.Retry.Longest) < 0 || !(st.Retry.Jitter >= 0 && st.Retry.Jitter <= 1) ||
		!(st.Retry.Budget >= 0 && st.Retry.Budget <= 1), "Retry is %+v", st.Retry)
	add(st.TTL < 0, "TTL is %v", st.TTL)
	add(!(st.Rate.PerSecond >= 0 && st.Rate.PerSecond <= mostRate) || st.Rate.Burst < 0, "Rate is %v", st.Rate)
	add(st.Pool != "" && !slices.ContainsFunc(m.Pools, func(x Pool) bool { return x.Name == st.Pool }), "the pool %q is missing", st.Pool)
	add(m.Fleet != nil && st.Admission != (controller.Admission{}), "with a Fleet it has no Admission")
	if st.Waits != nil {
		err := st.Waits.Check()
		add(err != nil, "%v", err)
	}
	if st.Discipline != nil {
		err := st.Discipline.Check()
		add(err != nil, "%v", err)
		add(st.Lanes > 0 || st.Fair != nil, "it has Lanes or is Fair, and has a Discipline")
	}
	sum := 0.0
	for _, e := range st.Forward {
		sum += e.Share
		add(!(e.Share >= 0), "Share %v", e.Share)
	}
	add(!(sum <= 1+1e-9), "it forwards %v of its commands", sum)
	for _, e := range st.Emit {
		add(!(e.Share >= 0 && e.Share <= mostEmitted), "Share %v, and at most %d may be emitted", e.Share, mostEmitted)
	}
	for _, e := range slices.Concat(st.Forward, st.Emit) {
		add(m.index(e.To) < 0, "an edge leads to stage %q, which is missing", e.To)
	}
	return errors.Join(faults...)
}

func (m *Model) checkPool(i int, x Pool) error {
	faults := []error{
		fault(x.Name == "" || m.index(x.Name) >= 0, "the pool %q has no name, or the name of a stage", x.Name),
		fault(slices.IndexFunc(m.Pools, func(o Pool) bool { return o.Name == x.Name }) != i, "there are two pools %q", x.Name),
		fault(x.Workers < 1 || x.Most < x.Workers || x.Most > controller.MostWorkers,
			"pool %q: Workers is %d and Most %d; they must be in this order and from 1 to %d", x.Name, x.Workers, x.Most, controller.MostWorkers),
	}
	for _, name := range x.Order {
		faults = append(faults, fault(m.index(name) < 0, "pool %q: stage %q is missing", x.Name, name))
	}
	return errors.Join(faults...)
}

// planOf returns the visit plan of a pool, nil for the plan of the engine.
func (m *Model) planOf(x *Pool) *controller.VisitPlan {
	plan := x.Visit
	plan.Order = nil
	for _, name := range x.Order {
		plan.Order = append(plan.Order, controller.StageID(m.index(name)))
	}
	if plan.Equal(&controller.VisitPlan{}) {
		return nil
	}
	return &plan
}

// check returns the faults of the source.
func (s *Source) check() error {
	return errors.Join(
		fault((s.Load == nil) == (s.Arrivals == nil), "the source of stage %q needs a Load or Arrivals", s.To),
		fault(!slices.IsSorted(s.Arrivals) || len(s.Arrivals) > 0 && s.Arrivals[0] < 0, "the Arrivals of stage %q are not in order", s.To),
		fault(s.Weight < 1 || s.Retries < 0 || s.Breaks < 0 || min(s.Timeout, s.Pause) < 0 || max(s.Timeout, s.Pause) > longest,
			"the source of stage %q has a Weight of %d, a Timeout of %v, %d Retries with a Pause of %v, and Breaks at %d", s.To, s.Weight, s.Timeout, s.Retries, s.Pause, s.Breaks),
		fault(s.Expires && s.Timeout == 0 || s.Retries > 0 && s.Timeout == 0 && s.Pause == 0,
			"the messages of stage %q expire or are sent again, and have no Timeout", s.To),
	)
}

func (f *Fleet) check() error {
	faults := []error{
		fault(f.Processes < 1 || f.Processes > mostProcesses, "Processes is %d, and must be from 1 to %d", f.Processes, mostProcesses),
		fault(f.InFlight < 1 || f.InFlight > mostLanes || f.Limit < 0, "InFlight is %d and Limit %d", f.InFlight, f.Limit),
		fault(f.Partitions < 0 || f.Partitions > mostLanes, "Partitions is %d, and must be from 0 to %d", f.Partitions, mostLanes),
		fault(min(f.Hop, f.Delay, f.AckWait, f.Startup) < 0 || max(f.Hop, f.Delay, f.AckWait, f.Startup) > longest,
			"Hop %v, Delay %v, AckWait %v and Startup %v must be from 0 to a year", f.Hop, f.Delay, f.AckWait, f.Startup),
	}
	for _, l := range f.Losses {
		faults = append(faults, fault(l.At < 0 || !(l.Share >= 0 && l.Share <= 1), "a Loss of %v at %v", l.Share, l.At))
	}
	if a := f.Scale; a != nil {
		faults = append(faults, a.Law.Check(),
			fault(a.Poll < time.Millisecond || a.Down < 0, "Poll is %v and Down %v", a.Poll, a.Down),
			fault(a.Least < 1 || a.Most < a.Least || a.Most > mostProcesses, "Least is %d and Most %d processes", a.Least, a.Most))
	}
	return errors.Join(faults...)
}

// checkClaims refuses a policy that needs knobs that are not simulated.
func (m *Model) checkClaims(p controller.Policy) error {
	c, ok := p.(controller.Claimer)
	if !ok {
		return nil
	}
	for _, k := range c.Claims() {
		if slices.Contains(notSimulated, k) || m.Fleet != nil && slices.Contains(gates, k) {
			return fault(true, "policy %q changes %s, which is not simulated", p.Name(), k)
		}
	}
	return nil
}

// notSimulated lists the knobs that a policy may not claim, and gates the ones
// that it may not with a Fleet.
var (
	notSimulated = []controller.Knob{controller.KnobEnabled, controller.KnobQuality}
	gates        = []controller.Knob{controller.KnobRate, controller.KnobShed, controller.KnobGate}
)

// refuses reports whether messages that find no free slot are refused.
func (m *Model) refuses() bool {
	return !slices.ContainsFunc(m.Sources, func(s Source) bool { return !m.Stages[m.index(s.To)].Reject })
}

// index returns the number of a stage, or -1 if it is missing.
func (m *Model) index(name string) int {
	return slices.IndexFunc(m.Stages, func(st Stage) bool { return st.Name == name })
}
