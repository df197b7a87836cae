package pipeline

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golda-dev/golda/controller"
	"github.com/golda-dev/golda/internal/control"
	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/flight"
	"github.com/golda-dev/golda/internal/graph"
	"github.com/golda-dev/golda/internal/inbox"
	stores "github.com/golda-dev/golda/internal/letters"
	"github.com/golda-dev/golda/internal/logs"
	"github.com/golda-dev/golda/pipeline/letters"
)

// Pipeline is a set of stages that are checked, started and stopped together.
// Any goroutine may call its methods at any time.
type Pipeline struct {
	life   lifecycle
	set    settings
	groups []grouping // as they were declared
	feeds  *feeds
	maps   []mapping
	keeper *keeper // nil without a Checkpoint
	lines  []line  // on which commands come and go; none without RunsHere

	host    *inbox.Pipeline
	graph   *graph.Graph
	control *control.Loop
	pools   pools
	env     engine.Env // set by Start
	current atomic.Pointer[stageSet]

	log     *slog.Logger
	limiter *logs.Limiter
	letters mail
	flight  *flight.Recorder // nil without the option

	quiet   broadcast  // sent when a stage that is drained has become empty
	growing sync.Mutex // held while stages are added or removed, or wires change
	left    []edge     // edges that no wire leads along any more, and commands may; guarded by growing
}

// mail keeps and delivers letters.
type mail struct {
	box                        *stores.Box
	notifier                   *stores.Notifier
	dead, quarantine, failures *letters.Store // the stores of box
}

// Name returns the pipeline's name.
func (p *Pipeline) Name() string { return p.life.name }

// DrainTimeout returns how long [Pipeline.Run] lets the pipeline drain: see the
// function [DrainTimeout].
func (p *Pipeline) DrainTimeout() time.Duration { return p.set.drain }

// Assignments returns the mapping that [Assign] sets: the processes, by the
// names of groups and of stages that are in no group. Stages and groups that
// were not mapped are left out.
func (p *Pipeline) Assignments() map[string]string {
	of := map[string]string{}
	for _, m := range p.maps {
		for _, name := range m.names {
			of[name] = m.process
		}
	}
	return of
}

// Started returns a channel that is closed when the pipeline has started: all
// stages take commands. It stays open if the pipeline never starts, so a source
// that waits for it must also wait for [Pipeline.Done] or a context:
//
//	select {
//	case <-p.Started():
//		feed(p)
//	case <-p.Done():
//	}
func (p *Pipeline) Started() <-chan struct{} { return p.life.started }

// Done returns a channel that is closed when the pipeline has stopped, whatever
// the reason.
func (p *Pipeline) Done() <-chan struct{} { return p.life.stopped }

// Err returns why the pipeline could not start or gave up, nil if it did
// neither. If it gave up, that is a [*supervisor.EscalationError], which wraps
// a [*stage.BrokenError], which wraps the last crashes.
func (p *Pipeline) Err() error {
	p.life.mu.Lock()
	defer p.life.mu.Unlock()
	return p.life.failure
}

// Journal returns the last changes that policies made, the oldest first.
func (p *Pipeline) Journal() []controller.Change { return p.control.Journal() }

// DeadLetters returns the store of commands that ended without an answer,
// except those in quarantine: commands that were shed or were not done when the
// pipeline stopped hard, and messages of actors that no stage took. A command
// that was shed, and whose caller has the error, since it was submitted with a
// ticket, is only counted: see Answered of [Snapshot]. So is one whose source
// hears of its end. The option [DeadLetters] subscribes a function to all of
// them, including those in quarantine.
func (p *Pipeline) DeadLetters() *letters.Store { return p.letters.dead }

// Quarantine returns the store of commands that crashed their handlers in each
// of the attempts that they were allowed.
func (p *Pipeline) Quarantine() *letters.Store { return p.letters.quarantine }

// Failures returns the store of failed commands, those whose handlers answered
// with an error, that no caller can name: commands that were submitted without
// a ticket; commands that handlers emitted, with or without a ticket, since a
// ticket reports only their errors; and commands that failed in each of the
// attempts that they were allowed, if that is more than one. Commands whose
// caller's context has ended, and the commands that follow from them, are not
// among them. The letters are grouped by the kind of their error: see
// [letters.Letter]'s Fingerprint. The option [Failures] subscribes a function to them.
func (p *Pipeline) Failures() *letters.Store { return p.letters.failures }

// edge is an edge from a stage to an inbox.
type edge struct {
	from *engine.Core
	to   *inbox.Inbox
}

func (p *Pipeline) stages() *stageSet { return p.current.Load() }

// readAccounts returns the stages and their accounts of one instant, as read
// copies them. It reads again if a stage was added meanwhile: the new stage may
// have forwarded commands, which would be counted where they arrived and not
// where they started.
func (p *Pipeline) readAccounts(read func([]*inbox.Inbox) []inbox.Accounts) (*stageSet, []inbox.Accounts) {
	for {
		set := p.stages()
		if accounts := read(set.all); p.stages() == set {
			return set, accounts
		}
	}
}

// load returns how many commands are in the inboxes, which are read one after
// the other.
func (p *Pipeline) load() (n int) {
	for _, in := range p.stages().all {
		n += in.Load()
	}
	return n
}

// held returns how many commands guards hold back in the inboxes.
func (p *Pipeline) held() (n int) {
	for _, in := range p.stages().all {
		n += in.Held()
	}
	return n
}

// grace returns how long workers may take to end.
func (p *Pipeline) grace() time.Duration { return max(p.set.grace, minGrace) }

// lastMoment is how long a hard stop waits after the grace for workers whose
// handlers have returned, and that are about to hand over their results.
const lastMoment = time.Second

// inbox returns the inbox of the stage of that name, nil if there is none.
func (p *Pipeline) inbox(name string) *inbox.Inbox {
	for _, c := range p.stages().stages {
		if c.Name() == name {
			return c.Inbox()
		}
	}
	return nil
}

// ErrNotPart reports that the pipeline does not have a stage, or no longer, or
// that it was made without a group of that name.
var ErrNotPart = errors.New("not part of this pipeline")
