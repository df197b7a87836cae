// Package control has the control loop of a pipeline. The loop asks policies,
// which are pure, how the stages should run; it keeps the answers as the
// desired state, and makes the stages and pools follow that.
//
//	notifications, ticks ──► policy ──► changes ──► desired state ──► reconcile ──► stages and pools
//	                           ▲                                                          │
//	                           └────────────────────── snapshot ◄─────────────────────────┘
//
// [State] is the desired state. Pure functions apply changes to it, and select
// the part of a snapshot that a policy sees (state.go, group.go). [Loop] owns a
// state, and an actor that does everything else, one event at a time
// (actor.go). Its [Config] is all that the loop may read and change of its
// pipeline.
//
// Policies are user code. They are called in a goroutine of their own, so that
// one that panics, or ends its goroutine, does no harm: its last decisions stay
// in force.
package control

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/internal/crash"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/goid"
	"github.com/golda-dev/golda/internal/graph"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/logs"
	"github.com/golda-dev/golda/internal/stall"
	"github.com/golda-dev/golda/internal/steer"
)

// Pipeline is a loop's access to its pipeline. Stages may be added and removed
// between two calls.
type Pipeline interface {
	// Stages returns the stages, in the order of the pipeline.
	Stages() []*engine.Core
	// Read returns the stages and their accounts, all of one instant: with the
	// times of commands, if that is asked for.
	Read(times bool) Reading
	// Shape returns the graph of the stages, by the places of their inboxes.
	Shape() *graph.Shape
	// Edges returns the edges that are known, by the places of the inboxes.
	Edges() []graph.Edge
	// Handlers returns the handlers with their stacks. It stops the world.
	Handlers() []engine.Stuck
	// StartPool starts a shared pool, and StopPool stops one, whose workers
	// finish the commands that they hold. Neither waits for workers.
	StartPool(*engine.Pool)
	StopPool(*engine.Pool)
}

// Reading is the stages of a pipeline and their accounts at one instant.
type Reading struct {
	Stages []*engine.Core
	// Accounts is indexed by the places of the inboxes, removed stages
	// included.
	Accounts []inbox.Accounts
	InFlight int // in the whole pipeline
}

// of returns the accounts of a stage.
func (r *Reading) of(c *engine.Core) *inbox.Accounts { return &r.Accounts[c.Inbox().Place] }

// Config connects a loop with its pipeline.
type Config struct {
	Pipeline Pipeline
	// Host has the clock, and the limit on commands that enter the pipeline.
	Host    *inbox.Pipeline
	Env     *engine.Env // filled in before [Loop.Prepare]
	Log     *slog.Logger
	Limiter *logs.Limiter
	// Stalled is called with the stages of each stall that begins. It must not
	// wait. Nil is not called.
	Stalled func(stages []string)

	Groups   []Group
	Policies map[string][]controller.Policy // by group or stage; "" is the pipeline's own controller
}

// Loop controls the stages of one pipeline. It outlives the actor that does the
// work, so that a crash of the actor loses nothing.
//
// Before the start, which is when [Loop.Prepare] is called, the pipeline
// changes the loop with [Loop.SetPolicies] and [Loop.Update]; after it, with
// [Loop.Use] and [Loop.Change], which the actor carries out.
type Loop struct {
	Config

	pid   atomic.Pointer[actor.PID] // of the actor; nil until it has started
	slow  eventQueue                // events that can wait
	fast  eventQueue                // events by which a policy renews a visit plan
	first *loopActor                // has asked the policies before the start; then nil

	state     *State     // the actor's, once it has started
	temporary *temporary // the actor's: the policy of the pipeline's controller is one for a time; else nil
	running   running
	cpu       cpuMeter    // the actor's, for all policies
	machine   cpuMeter    // the same of the whole machine
	stalls    stall.Watch // the actor's
	checked   int64       // the actor's: when it last checked for stalls

	calling atomic.Uint64 // the number of the goroutine that calls a policy; 0: none does

	mu       sync.Mutex // guards all below
	policies map[string][]controller.Policy
	journal  *steer.Journal
	decided  decided
	requests []any // for the actor
}

// New returns a loop. Its state is how the options of the stages and groups
// have them.
func New(cfg Config) *Loop {
	l := &Loop{Config: cfg, policies: maps.Clone(cfg.Policies), journal: steer.NewJournal(0), running: newRunning()}
	present := cfg.Pipeline.Stages()
	stages := make([]Options, len(present))
	for i, c := range present {
		stages[i] = c
	}
	l.state = NewState(stages, cfg.Groups)
	l.slow = eventQueue{send: l.send, pause: 100 * time.Millisecond, queued: map[Event]bool{}}
	l.fast = eventQueue{send: l.send, pause: time.Millisecond, queued: map[Event]bool{}}
	return l
}

// Journal returns the last changes, the oldest first.
func (l *Loop) Journal() []controller.Change {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.journal.Entries()
}

// Decided returns how many times each knob was changed.
func (l *Loop) Decided() []controller.Decided {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.decided.list()
}

// PolicyNames returns the names of the policies of the pipeline's controller,
// if group is "", or of a group's own.
func (l *Loop) PolicyNames(group string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return namesOf(l.policies[group])
}

// Policies returns the policies of the pipeline's controller, and the names of
// the groups and stages that have a controller of their own.
func (l *Loop) Policies() (policies []controller.Policy, groups []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, group := range slices.Sorted(maps.Keys(l.policies)) {
		if group != "" {
			groups = append(groups, group)
		}
	}
	return slices.Clone(l.policies[""]), groups
}

func namesOf(policies []controller.Policy) string {
	names := make([]string, 0, len(policies))
	for _, p := range policies {
		names = append(names, p.Name())
	}
	return strings.Join(names, "+")
}

// SetPolicies replaces the policies of a controller before the start. A group
// without policies has no controller of its own.
func (l *Loop) SetPolicies(group string, policies []controller.Policy) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setPoliciesLocked(group, policies)
}

func (l *Loop) setPoliciesLocked(group string, policies []controller.Policy) {
	if group != "" && len(policies) == 0 {
		delete(l.policies, group)
		return
	}
	l.policies[group] = policies
}

// Update changes the desired state before the start.
func (l *Loop) Update(change func(*State)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l.state)
	l.dropPoliciesLocked()
}

// dropPoliciesLocked drops the policies of stages that were removed.
func (l *Loop) dropPoliciesLocked() {
	maps.DeleteFunc(l.policies, func(group string, _ []controller.Policy) bool { return group != "" && !l.state.hasGroup(group) })
}

// send sends a message to the actor, if it has started.
func (l *Loop) send(m any) {
	if pid := l.pid.Load(); pid != nil {
		l.Env.System.Root.Send(pid, m)
	}
}

// use is the request to replace the policies of the pipeline's controller, or
// of a group's.
type use struct {
	group    string
	policies []controller.Policy
	done     chan error // has a buffer of one
}

// change is the request to change the state, and to ask all policies again.
type change struct {
	do   func(*State)
	done chan error // has a buffer of one
}

// Use replaces the policies of a controller, as [Loop.SetPolicies] does. The
// channel receives the result; if one of the policies cannot start, the error
// says so and nothing has changed.
func (l *Loop) Use(group string, policies []controller.Policy) <-chan error {
	m := use{group, policies, make(chan error, 1)}
	l.request(m)
	return m.done
}

// Change changes the desired state. The channel receives nil when that is done.
func (l *Loop) Change(do func(*State)) <-chan error {
	m := change{do, make(chan error, 1)}
	l.request(m)
	return m.done
}

// request queues a request. The queue is the loop's and not the actor's
// mailbox, so that no request is lost when the actor is replaced, or has not
// started.
func (l *Loop) request(m any) {
	l.mu.Lock()
	l.requests = append(l.requests, m)
	l.mu.Unlock()
	l.send(requestsReady{})
}

// takeRequests empties the queue of requests.
func (l *Loop) takeRequests() []any {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.requests
	l.requests = nil
	return list
}

// CalledByPolicy reports whether the calling goroutine is one in which the loop
// calls a policy at this moment.
func (l *Loop) CalledByPolicy() bool {
	calling := l.calling.Load()
	return calling != 0 && calling == goid.ID()
}

// guard calls code of a policy, in a goroutine of its own, so that code that
// ends its goroutine does not end the actor's. See [Loop.CalledByPolicy].
func (l *Loop) guard(f func() error) error {
	return crash.Guard("controller", func() error {
		l.calling.Store(goid.ID())
		defer l.calling.Store(0)
		return f()
	})
}

// Notify queues an event for the policies. Any goroutine may call it; it does
// not block.
func (l *Loop) Notify(e Event) {
	switch e.Kind {
	case controller.EventRoundEnd, controller.EventVisits:
		l.fast.add(e)
	default:
		l.slow.add(e)
	}
}

// requestsReady informs the actor that there are requests.
type requestsReady struct{}

// IgnoreDeadLetterLogging marks a message that may arrive after the actor has
// ended.
func (requestsReady) IgnoreDeadLetterLogging() {}

// running has the objects that reconcile has made, and settings that cannot be
// read back.
type running struct {
	pools  map[string]*pool        // the shared ones that were needed so far
	hosts  map[string]*pool        // stages' own pools that other stages are bound to, too
	orders map[*engine.Core]string // the disciplines that queues were given; those not in it have their options' own
}

// pool is a shared pool that runs.
type pool struct {
	*engine.Pool
	plan *controller.VisitPlan // that its workers were given
}

func newRunning() running {
	return running{map[string]*pool{}, map[string]*pool{}, map[*engine.Core]string{}}
}

// has reports whether a shared pool runs.
func (r *running) has(name string) bool { return r.pools[name] != nil }

// temporary is a policy for a time.
type temporary struct {
	before []controller.Policy // that come back
	timer  *time.Timer
}
