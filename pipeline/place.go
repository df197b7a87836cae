package pipeline

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/golda-dev/golda/internal/engine"
	"github.com/golda-dev/golda/internal/part"
	"github.com/golda-dev/golda/pipeline/remote"
	"github.com/golda-dev/golda/source"
)

// placement is a part that says which processes of the mapping this one is.
type placement struct {
	carrier   remote.Carrier
	processes []string
}

// Part makes a placement a part of a pipeline.
func (placement) Part(part.Seal) {}

// RunsHere has this process run the stages that [Assign] gives to the processes
// of these names, and no others. The same program, started with other names on
// other machines, runs the rest; any number of processes may have one name, and
// join and leave at any time. The carrier takes the commands from process to
// process. Each stage must be mapped:
//
//	parts := []pipeline.Part{
//		load, ocr, index, load.To(ocr), ocr.To(index),
//		pipeline.Assign("front", "load", "index"), pipeline.Assign("ocr", "ocr"),
//	}
//	if *groups != "" {
//		parts = append(parts, pipeline.RunsHere(nats.NewCarrier(conn, "scans", nats.Options[any]{}), strings.Split(*groups, ",")...))
//	}
//	p, err := pipeline.New("scans", parts...)
//
// # A stage that runs elsewhere
//
// It is a stage of the pipeline here all the same: it has a queue of its
// [stage.Capacity], with its [stage.Overflow] rule, and a snapshot that names
// the process. Handlers forward and emit to it and callers submit to it as
// always. Its worker sends the commands, many at once and in order. Nothing of
// the user's is called for it here, neither its factory nor a Start, a
// middleware, or a guard, but the function for the key of a [stage.Keyed]. All
// its other options hold where it runs, [stage.KeyCapacity] among them. A
// [Feed] to it is not run here.
//
// A command has ended here, and its [stage.Ticket] with it, when it and all
// that it has emitted cannot be lost any more. A command whose caller waits for
// a result, with [stage.Call] or [stage.Stage.Ask], is not sent: the other
// process is called, if the carrier's line is a [remote.Caller], and the command ends
// here with the result or error of its end there. A call is in memory only, and
// happens at most once. A call has the deadline of its caller, and ends with
// it. Commands that are called or sent take along a deadline of
// [stage.WithDeadline], and values as package stage/headers says: those that are
// sent if the line has the method SendWith; see [remote.Line] and [remote.Caller]. All else of
// contexts stays behind. When the carrier is full or away the queue fills, and
// callers and stages before it wait, or are refused, as its rule says.
//
// A [stage.Keyed] takes no calls from other processes: [stage.Call] and Ask of
// it are [stage.ErrElsewhere] at once, and so is a call that ends with a
// command which a handler forwards to it. Submit, forward or emit the command,
// or have a process of package coordination/rpc in place of the stage, and call
// that. New does not see which stages a handler calls.
//
// # A stage that runs here
//
// It is fed with the commands that other processes send to it if a stage that
// is mapped to another process leads to it along a wire or flow, or if it is an
// [Entry]; without any Entry, also if no other stage leads to it and it has no
// Feed. A command that was sent is acknowledged when it has ended with all that
// it emitted: so it is handled at least once, whatever process is killed. No
// commands can be sent to a stage that is none of these: Submit and Forward to
// it from elsewhere fail with [stage.ErrElsewhere].
//
// A keyed stage may run in several processes: each key is in one of them at a
// time, in order. Then its key must be of strings, integers, booleans, or
// arrays or structs of them. That holds of commands that other processes send,
// and of no others. So New refuses a keyed stage that a stage of the same name,
// or of the same process, leads to, also itself, and one that has a Feed: map
// it to a name of its own. A process that has all names is taken to be the only
// one, and may have such stages: start no other beside it. New does not see
// submits and calls of a process that runs the stage, or commands that a
// handler of such a process forwards without a port: do none of these.
//
// # What is not shared
//
// Policies, [Group]s and [MaxInFlight] govern the stages that run in this
// process, each process by itself. So a loop that leads through several
// processes is not bounded by MaxInFlight: bound the commands that enter it.
// [Pipeline.Run] does not return when the feeds of this process are exhausted
// if other processes may send something. Stages that [Pipeline.Add] adds run
// here.
func RunsHere(carrier remote.Carrier, processes ...string) Part { return placement{carrier, processes} }

// relayed is a stage that runs in another process.
type relayed struct {
	process string
	line    remote.Line // nil: no commands can be sent there
	why     error       // of a stage without a line
}

// line is a line of one stage.
type line struct {
	remote.Line

	stage string
}

// placing checks where each stage runs, and makes the lines.
type placing struct {
	name   string // of the pipeline
	places []placement
	maps   []mapping
	stages []*engine.Core
	of     map[*engine.Core]string // the process that each stage is mapped to
	edges  [][]int                 // for each stage, the stages that it leads to
	entry  []*engine.Core
	faultf func(part, format string, args ...any)

	feeds []*fed // at first the given feeds; then the feeds of the stages that run here
	away  map[*engine.Core]relayed
	lines []line
}

// check checks that RunsHere says where each stage runs, and makes the lines.
func (p *placing) check() {
	if len(p.places) > 1 {
		p.faultf("RunsHere", "is given %d times; give all processes to one RunsHere", len(p.places))
	}
	at := p.places[0]
	if engine.IsNil(at.carrier) {
		p.faultf("RunsHere", "the carrier is nil")
	} else if c, ok := at.carrier.(interface{ CheckPipeline(name string) error }); ok {
		if err := c.CheckPipeline(p.name); err != nil {
			p.faultf("RunsHere", "%v", err)
		}
	}
	p.checkProcesses(at.processes)
	p.away = map[*engine.Core]relayed{}
	for _, c := range p.stages {
		switch process := p.of[c]; {
		case process == "":
			p.faultf(stageName(c), "is mapped to no process; with RunsHere each stage, or its group, must be in an Assign")
		case !slices.Contains(at.processes, process):
			p.away[c] = relayed{process: process}
		}
	}
	p.checkKeys(at.processes)
	if !engine.IsNil(at.carrier) {
		p.lay(at.carrier)
	}
}

// checkProcesses checks the names that RunsHere is given.
func (p *placing) checkProcesses(names []string) {
	known := map[string]bool{}
	for _, m := range p.maps {
		known[m.process] = true
	}
	if len(names) == 0 {
		p.faultf("RunsHere", "names no process")
	}
	if len(known) == 0 {
		p.faultf("RunsHere", "there is no Assign; it says which process runs what")
		return
	}
	for i, name := range names {
		if !known[name] {
			p.faultf("RunsHere", "no Assign is for a process %q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		if slices.Contains(names[:i], name) {
			p.faultf("RunsHere", "process %q is given twice", name)
		}
	}
}

// checkKeys finds keyed stages that commands come to by another way than their
// line, which alone keeps each key in one process. A process that has all names
// is the only one.
func (p *placing) checkKeys(here []string) {
	if !slices.ContainsFunc(p.maps, func(m mapping) bool { return !slices.Contains(here, m.process) }) {
		return
	}
	const do = "map the keyed stage to a name of its own, in a process of its own, so that all its commands go through its line"
	for i, from := range p.stages {
		for _, j := range p.edges[i] {
			to := p.stages[j]
			switch {
			case !to.Spec().IsKeyed() || p.of[from] == "" || p.of[to] == "":
			case from == to:
				p.faultf(stageName(to), "is keyed and leads to itself: a key would be in several processes at once; "+
					"lead through a stage between, and "+do)
			case p.of[from] == p.of[to]:
				p.faultf(stageName(to), "is keyed, and stage %q, which leads to it, is mapped to process %q too: a key would be in "+
					"several processes at once; "+do, from.Name(), p.of[to])
			case slices.Contains(here, p.of[from]) && slices.Contains(here, p.of[to]):
				p.faultf(stageName(to), "is keyed, and stage %q, which leads to it, runs in this process too: a key would be in several "+
					"processes at once; "+do, from.Name())
			}
		}
	}
	for _, f := range p.feeds {
		if f.core != nil && f.core.Spec().IsKeyed() {
			p.faultf(stageName(f.core), "is keyed, and feed %q feeds it: a key would be in several processes at once; "+
				"feed a stage that leads to it, and "+do, f.name)
		}
	}
}

// lay makes the lines of the stages that commands come to from other processes.
// It adds a feed for each of them that runs here, and drops the given feeds of
// stages that run elsewhere.
func (p *placing) lay(carrier remote.Carrier) {
	led := p.ledTo()
	p.feeds = slices.DeleteFunc(p.feeds, func(f *fed) bool { _, away := p.away[f.core]; return away })
	for _, c := range p.stages {
		r, away := p.away[c]
		if !led[c] {
			if away {
				r.why = &engine.ElsewhereError{Stage: c.Name(), Process: r.process, Problem: "no commands can be sent to it: " +
					"declare it with pipeline.Entry, or the port that leads to it with stage.Out, in all processes"}
				p.away[c] = r
			}
			continue
		}
		l, err := layTo(carrier, c)
		switch {
		case err != nil:
			p.faultf(stageName(c), "commands cannot be sent to it, or come from other processes: %v", err)
		case away:
			r.line = l
			p.away[c] = r
		default:
			p.addFeed(c, l)
		}
		p.lines = append(p.lines, line{l, c.Name()})
	}
}

// layTo returns the line of a stage.
func layTo(carrier remote.Carrier, c *engine.Core) (l remote.Line, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the carrier panicked: %v", v)
		}
	}()
	key, err := c.Spec().Key()
	if err != nil {
		return nil, err
	}
	l, err = carrier.Line(c.Name(), c.Spec().Type(), key)
	if err == nil && engine.IsNil(l) {
		err = fmt.Errorf("%T returned no line", carrier)
	}
	return l, err
}

// ledTo returns the stages that commands of other processes come to.
func (p *placing) ledTo() map[*engine.Core]bool {
	led, within := map[*engine.Core]bool{}, map[*engine.Core]bool{}
	for i, to := range p.edges {
		for _, j := range to {
			from, to := p.stages[i], p.stages[j]
			led[to] = led[to] || p.of[from] != p.of[to]
			within[to] = within[to] || from != to
		}
	}
	for _, f := range p.feeds {
		within[f.core] = true
	}
	for _, c := range p.stages {
		led[c] = led[c] || len(p.entry) == 0 && !within[c]
	}
	for _, c := range p.entry {
		led[c] = true
	}
	return led
}

// addFeed adds the feed of a stage that is fed by other processes.
func (p *placing) addFeed(c *engine.Core, l remote.Line) {
	f := &fed{name: "from other processes: " + c.Name(), core: c, carried: true}
	src := source.Ends(func(ctx context.Context, submit func(cmd any, ended func(error)) error) error {
		return answering(ctx, c, l, func(ctx context.Context) error {
			return l.Feed(ctx, func(cmd any, ended func(error)) error {
				if err := c.CheckType(cmd); err != nil { // one wrong command of another process does not end this one
					ended(err)
					return nil
				}
				return submit(cmd, ended)
			})
		})
	})
	f.run = func(ctx context.Context, to submitter) error { return src(ctx, to.submit) }
	p.feeds = append(p.feeds, f)
}

// answering answers calls of a stage while a function feeds it. The first of
// the two that fails ends both.
func answering(ctx context.Context, c *engine.Core, l remote.Line, feed func(ctx context.Context) error) error {
	caller, ok := l.(remote.Caller)
	if !ok || c.Spec().IsKeyed() {
		return feed(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if err := answer(ctx, caller, c); err != nil && ctx.Err() == nil {
			cancel(err)
		}
	}()
	defer func() { // also after a panic
		cancel(nil)
		<-answered
	}()
	err := feed(ctx)
	if failed := context.Cause(ctx); failed != nil {
		return failed
	}
	return err
}

// answer answers calls. A panic is an error.
func answer(ctx context.Context, l remote.Caller, c *engine.Core) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the carrier panicked: %v", v)
		}
	}()
	err = l.Answer(ctx, c.HandleCall)
	if err == nil && ctx.Err() == nil {
		err = fmt.Errorf("%T does not answer calls any more", l)
	}
	return err
}

// openLine opens a line. A panic is an error.
func openLine(ctx context.Context, l line) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the carrier panicked: %v", v)
		}
	}()
	return l.Open(ctx)
}
