package supervisor_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/golda-dev/golda/internal/actor"
	"github.com/golda-dev/golda/supervisor"
)

// system is made once because it is expensive.
var system = actor.NewSystem(slog.New(slog.DiscardHandler))

var errBoom = errors.New("boom")

// diary records what happened, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) write(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

// read returns what was written since the last read.
func (d *diary) read() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	lines := d.lines
	d.lines = nil
	return lines
}

func (d *diary) count(line string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.lines {
		if l == line {
			n++
		}
	}
	return n
}

// script says how an incarnation of a child behaves; the last script also applies to all later incarnations.
type script struct {
	startTakes time.Duration // until it is ready
	startFails error
	spawnFails error
	mute       bool          // it never reports that it is ready
	dies       bool          // it panics in Started and reports nothing
	stopTakes  time.Duration // how long its stop takes
	stuck      chan struct{} // its stop blocks until this is closed
}

// child is a small actor that writes to the diary, with the scripts of its incarnations.
type child struct {
	name     string
	book     *diary
	patience time.Duration
	scripts  []script

	mu     sync.Mutex
	starts int
	pid    *actor.PID
}

func (c *child) script() script {
	if len(c.scripts) == 0 {
		return script{}
	}
	return c.scripts[min(c.starts, len(c.scripts))-1]
}

func (c *child) spec() supervisor.Child {
	patience := c.patience
	if patience == 0 {
		patience = time.Hour
	}
	return supervisor.Child{Name: c.name, Spawn: c.spawn, Patience: patience}
}

func (c *child) spawn(by actor.Spawner, name string, ready func(error)) (*actor.PID, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.starts++
	s := c.script()
	if s.spawnFails != nil {
		c.book.write("cannot spawn " + c.name)
		return nil, s.spawnFails
	}
	pid, err := actor.Spawn(by, name, actor.NewMailbox(nil), func() actor.Actor {
		return &tiny{name: c.name, book: c.book, script: s, ready: ready}
	})
	c.pid = pid
	return pid, err
}

func (c *child) PID() *actor.PID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pid
}

type (
	boom struct{}
	fail struct{}
)

func (boom) IgnoreDeadLetterLogging() {}
func (fail) IgnoreDeadLetterLogging() {}

func (c *child) panics()   { system.Root.Send(c.PID(), boom{}) }
func (c *child) fails()    { system.Root.Send(c.PID(), fail{}) }
func (c *child) isKilled() { system.Root.Stop(c.PID()) }

type tiny struct {
	name   string
	book   *diary
	script script
	ready  func(error)
}

func (a *tiny) Receive(ctx actor.Context) {
	switch ctx.Message().(type) {
	case *actor.Started:
		a.start()
	case boom:
		panic(errBoom)
	case fail:
		actor.Fail(ctx, errBoom)
	case *actor.Stopping:
		a.book.write("stop " + a.name)
		if a.script.stuck != nil {
			<-a.script.stuck
		}
		time.Sleep(a.script.stopTakes)
	case *actor.Stopped:
		a.book.write(a.name + " is gone")
	}
}

func (a *tiny) start() {
	a.book.write("start " + a.name)
	switch {
	case a.script.mute:
	case a.script.dies:
		panic(errBoom)
	case a.script.startTakes > 0:
		time.AfterFunc(a.script.startTakes, a.answer)
	default:
		a.answer()
	}
}

func (a *tiny) answer() {
	if a.script.startFails != nil {
		a.book.write(a.name + " cannot")
	} else {
		a.book.write(a.name + " is up")
	}
	a.ready(a.script.startFails)
}

// actorTree is a tree of actors under test.
type actorTree struct {
	book     diary
	children []*child
	spec     supervisor.Spec

	mu     sync.Mutex
	gaveUp []*supervisor.EscalationError
}

func newActorTree(strategy supervisor.Strategy, in supervisor.Intensity, names ...string) *actorTree {
	h := &actorTree{spec: supervisor.Spec{
		Name: actor.Unique(system, "tree"), Strategy: strategy, Intensity: in,
	}}
	h.spec.Restarted = func(child string, reason error) {
		switch {
		case errors.Is(reason, errBoom):
			h.book.write("restart " + child + ": boom")
		case errors.Is(reason, supervisor.ErrKilled):
			h.book.write("restart " + child + ": killed")
		default:
			h.book.write("restart " + child + ": " + reason.Error())
		}
	}
	h.spec.GaveUp = func(e *supervisor.EscalationError) {
		h.book.write("gave up on " + e.Child)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.gaveUp = append(h.gaveUp, e)
	}
	for _, name := range names {
		h.children = append(h.children, &child{name: name, book: &h.book})
	}
	return h
}

func (h *actorTree) start(ctx context.Context) (*supervisor.Tree, error) {
	h.spec.Children = nil
	for _, c := range h.children {
		h.spec.Children = append(h.spec.Children, c.spec())
	}
	return supervisor.Start(ctx, system, h.spec)
}

func (h *actorTree) escalations() []*supervisor.EscalationError {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.gaveUp)
}

// long is an intensity that is never used up.
var long = supervisor.Intensity{Restarts: 1 << 30, Within: time.Hour}

// readyService returns a child that is a function and reports when it is ready.
func readyService(name string, serve func(ctx context.Context, ready func()) error) supervisor.Child {
	return supervisor.Child{Name: name, Serve: serve}
}

// nested returns a child that is a supervisor.
func nested(spec supervisor.Spec) supervisor.Child {
	return supervisor.Child{Name: spec.Name, Supervisor: &spec}
}
