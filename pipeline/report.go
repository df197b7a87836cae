package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/inbox"
	"github.com/golda-dev/golda/internal/plain"
	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/supervisor"
)

// DrainError reports the commands that had not ended when the time to drain was
// over.
type DrainError struct {
	Pipeline string
	// InFlight is how many commands had not ended. If only some stages were
	// drained, it is how many were in those.
	InFlight uint64
	// Where has the stages that still had commands, in the order of the
	// pipeline.
	Where []Undrained
	// Cause is why the drain ended.
	Cause error
}

// Undrained is a stage that still had commands. Its accounts say how many were
// queued, in hand, or waiting to be retried, and whether the stage was paused.
type Undrained struct {
	stage.Snapshot
	// Tickets is how many of the commands that were queued or waited to be
	// retried have a ticket. It is not known how many of those in hand have
	// one.
	Tickets int
	// Handlers are the handlers that ran, the longest first.
	Handlers []stage.Stuck
}

// Error returns how many commands are left in which stages, and in which calls
// the handlers are.
func (e *DrainError) Error() string { return prefix(e.Pipeline) + e.text() }

func (e *DrainError) text() string {
	where := make([]string, len(e.Where))
	for i := range e.Where {
		where[i] = e.Where[i].String()
	}
	return fmt.Sprintf("not drained: %s: %d commands in flight: %s", e.cause(), e.InFlight, strings.Join(where, ", "))
}

// cause returns the text of the cause. The error of a pipeline that gave up has
// the name of the pipeline, which precedes the text.
func (e *DrainError) cause() string {
	return strings.TrimPrefix(plain.Text(e.Cause), prefix(e.Pipeline))
}

// prefix is how errors of a pipeline begin.
func prefix(pipeline string) string { return fmt.Sprintf("pipeline %q: ", pipeline) }

// Unwrap returns why the drain ended.
func (e *DrainError) Unwrap() error { return e.Cause }

// Report returns the whole report: stage by stage the commands that are left,
// and each handler that runs, with its stack.
func (e *DrainError) Report() string {
	var b strings.Builder
	e.write(&b)
	return b.String()
}

func (e *DrainError) write(b *strings.Builder) {
	fmt.Fprintf(b, "%snot drained: %s: %d commands in flight\n", prefix(e.Pipeline), e.cause(), e.InFlight)
	for i := range e.Where {
		u := &e.Where[i]
		fmt.Fprintf(b, "\nstage %s; %d tickets wait for commands that are not in hand\n", u.counts(), u.Tickets)
		writeStuck(b, u.Handlers)
	}
}

// counts returns how many commands there are, in words.
func (u *Undrained) counts() string {
	paused, suspended, parked := "", "", ""
	if u.Paused {
		paused = "paused, "
	}
	if u.Queue.Suspended > 0 {
		suspended = fmt.Sprintf(", of which %d suspended", u.Queue.Suspended)
	}
	if u.Queue.ParkedKeys > 0 {
		parked = fmt.Sprintf(", of which %d wait for %d parked keys", u.Queue.Held, u.Queue.ParkedKeys)
	}
	return fmt.Sprintf("%s (%s%d queued%s, %d in hand%s, %d waiting for a retry)",
		u.Name, paused, u.Queue.Queued, parked, u.Queue.InHand, suspended, u.Queue.Delayed)
}

// String returns a line that says how many commands there are, and where the
// handler is that has run for longest.
func (u *Undrained) String() string {
	if len(u.Handlers) == 0 {
		return u.counts()
	}
	s := u.counts() + ", " + doing(u.Handlers[0])
	if n := len(u.Handlers) - 1; n > 0 {
		s += fmt.Sprintf(" and %d more", n)
	}
	return s
}

// doing returns where a handler is and since when.
func doing(s stage.Stuck) string {
	text := fmt.Sprintf("at its command for %v", s.For.Round(time.Millisecond))
	if s.At != "" {
		text += " in " + s.At
	}
	if s.Waits != "" {
		text += ", where it waits for " + s.Waits
	}
	return text
}

func writeStuck(b *strings.Builder, all []stage.Stuck) {
	for _, s := range all {
		fmt.Fprintf(b, "\na worker of stage %q, %s, a %s:\n", s.Stage, doing(s), s.Command)
		if len(s.Stack) == 0 {
			b.WriteString("its stack was not found\n")
			continue
		}
		fmt.Fprintf(b, "%s\n", s.Stack)
	}
}

// StopError reports that a pipeline did not stop softly.
type StopError struct {
	Pipeline string
	// Drain reports the commands that were not done in time and were
	// dead-lettered; nil if all were done.
	Drain *DrainError
	// Left has the names of the stages that did not end within the grace, and
	// were abandoned; "feed NAME" for each source that did not return; and
	// "checkpoint", or "checkpoint of feed NAME", for each last checkpoint that
	// was not saved: after a hard stop, or because it could not be written, or
	// because letters could not.
	Left []string
	// Stuck has their handlers that had not returned. A stage of Left without
	// one was held up by something else, such as an instance's Stop.
	Stuck []stage.Stuck
	// Unheard is how many letters were not delivered to subscribers, because
	// those did not return in time. The letters were logged instead, and kept:
	// see [Pipeline.DeadLetters].
	Unheard int
	// Unwritten is how many letters could not be written to their directory, see
	// [KeepLetters], and end with the process. The error wraps the reason,
	// which is the operating system's, such as a full disk. With a reason and
	// an Unwritten of 0 all letters were written, and might not survive a power
	// cut.
	Unwritten int

	unkept  error // why letters could not be written
	unsaved int   // how many names at the end of Left are of checkpoints
}

// Error returns all of the report except the stacks.
func (e *StopError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "pipeline %q: %s", e.Pipeline, e.how())
	if e.Drain != nil {
		b.WriteString(": " + e.Drain.text())
	}
	e.writeLeft(&b, "; ")
	for _, s := range e.Stuck {
		fmt.Fprintf(&b, "; a worker of stage %q is still %s", s.Stage, doing(s))
	}
	return b.String()
}

// how says whether the stop was a hard one.
func (e *StopError) how() string {
	if e.Drain == nil && len(e.Left) == e.unsaved {
		return "stopped"
	}
	return "stopped hard"
}

// writeLeft writes which stages did not stop, and how many letters subscribers
// did not take.
func (e *StopError) writeLeft(b *strings.Builder, before string) {
	for i, name := range e.Left {
		if i < len(e.Left)-e.unsaved {
			fmt.Fprintf(b, "%s%q did not stop and was abandoned", before, name)
		} else {
			fmt.Fprintf(b, "%sthe last %s was not saved", before, name)
		}
	}
	if e.Unheard > 0 {
		fmt.Fprintf(b, "%sa subscriber did not take %d letters", before, e.Unheard)
	}
	if e.unkept != nil {
		fmt.Fprintf(b, "%s%d letters were not written to their files: %v", before, e.Unwritten, e.unkept)
	}
}

// Report returns the whole report: the commands that were not drained when the
// soft stop ended, and the handlers that had not returned when the hard stop
// did, each with its stack.
func (e *StopError) Report() string {
	var b strings.Builder
	if e.Drain != nil {
		e.Drain.write(&b)
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "pipeline %q: %s", e.Pipeline, e.how())
	e.writeLeft(&b, "\n")
	b.WriteByte('\n')
	writeStuck(&b, e.Stuck)
	return b.String()
}

// Unwrap returns the [*DrainError], if there is one, and why letters could not
// be written.
func (e *StopError) Unwrap() (reasons []error) {
	if e.Drain != nil {
		reasons = append(reasons, e.Drain)
	}
	if e.unkept != nil {
		reasons = append(reasons, e.unkept)
	}
	return reasons
}

// unfinished returns a report of the commands in the stages that concern the
// caller.
func (p *Pipeline) unfinished(cause error, concerns func(stage string) bool) *DrainError {
	s := p.Snapshot()
	e := &DrainError{Pipeline: p.life.name, InFlight: s.InFlight, Cause: cause}
	handlers := p.handlers(engine.AtWork)
	for _, st := range s.Stages {
		if !concerns(st.Name) {
			continue
		}
		u := Undrained{Snapshot: st}
		for _, h := range handlers {
			if h.Stage == st.Name {
				u.Handlers = append(u.Handlers, h)
			}
		}
		if u.Queue.Load()+len(u.Handlers) > 0 {
			if in := p.inbox(st.Name); in != nil { // it may have been removed meanwhile
				u.Tickets = in.Batches().Tickets()
			}
			e.Where = append(e.Where, u)
		}
	}
	return e
}

// waitsIn returns the names of the stages behind one, and of that one, that
// have commands, and how many.
func (p *Pipeline) waitsIn(from *engine.Core) string {
	behind := p.placesBehind(from)
	return p.loads(func(place int) bool { return behind[place] })
}

// behind returns the inboxes of a stage and of those to which its commands go
// on.
func (p *Pipeline) behind(from *engine.Core) []*inbox.Inbox {
	at := p.placesBehind(from)
	return slices.DeleteFunc(slices.Clone(p.stages().all), func(in *inbox.Inbox) bool { return !at[in.Place] })
}

// placesBehind are the places of a stage and of those to which its commands go
// on.
func (p *Pipeline) placesBehind(from *engine.Core) map[int]bool {
	behind := map[int]bool{from.Inbox().Place: true}
	for edges, grown := p.graph.Edges(), true; grown; {
		grown = false
		for _, e := range edges {
			if behind[e.From] && !behind[e.To] {
				behind[e.To], grown = true, true
			}
		}
	}
	return behind
}

// loads returns the names of the stages at some places that have commands, and
// how many.
func (p *Pipeline) loads(at func(place int) bool) string {
	var all []string
	for _, st := range p.Snapshot().Stages {
		u := Undrained{Snapshot: st}
		if in := p.inbox(st.Name); in != nil && at(in.Place) && u.Queue.Load() > 0 {
			all = append(all, u.counts())
		}
	}
	return strings.Join(all, ", ")
}

// Handlers returns the handlers that run or are suspended now, the longest
// first, with the reason for which each waits; then the workers that are in no
// handler and hold commands for a stage that is full. It stops the world to
// find their stacks, so it is for a report.
func (p *Pipeline) Handlers() []stage.Stuck { return p.handlers(engine.UnderWay) }

func (p *Pipeline) handlers(find func([]*engine.Pool, []*engine.Core) []stage.Stuck) []stage.Stuck {
	stages := p.stages().stages
	kinds := make(map[string]string, len(stages))
	pools := p.pools.list()
	for _, c := range stages {
		kinds[c.Name()] = c.Spec().Takes()
		if !slices.Contains(pools, c.Pool) {
			pools = append(pools, c.Pool)
		}
	}
	all := find(pools, stages)
	for i := range all {
		all[i].Command = kinds[all[i].Stage]
	}
	return all
}

// stageError is the error of a stage, or of a pool, that gave up. Its text does
// not have the names of the actors.
type stageError struct{ *supervisor.EscalationError }

// Error returns how often the stage was restarted, and why it failed last.
func (e *stageError) Error() string {
	if e.Restarts > 0 {
		return fmt.Sprintf("gave up after %d restarts within %v: %s", e.Restarts, e.Within, plain.Text(e.Reason))
	}
	if broken, ok := errors.AsType[*stage.BrokenError](e.Reason); ok {
		return broken.Error()
	}
	return e.EscalationError.Error()
}

// Unwrap returns the report of the supervisor.
func (e *stageError) Unwrap() error { return e.EscalationError }

// gaveUpError is why a drain ended, beside the error of the pipeline that gave
// up.
type gaveUpError struct{ error }

func (gaveUpError) Error() string   { return "the pipeline gave up" }
func (e gaveUpError) Unwrap() error { return e.error }

// ended joins why a pipeline gave up, nil if it did not, and the error of its
// stop, whose text does not repeat the reason.
func ended(why, stopped error) error {
	if report, ok := stopped.(*StopError); ok && why != nil && report.Drain != nil && errors.Is(report.Drain.Cause, why) { //nolint:errorlint // Stop returns no other error
		drain := *report.Drain
		drain.Cause = gaveUpError{why}
		brief := *report
		brief.Drain = &drain
		stopped = &brief
	}
	return errors.Join(why, stopped)
}
