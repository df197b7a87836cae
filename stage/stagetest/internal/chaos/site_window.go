package chaos

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golda-dev/golda/stage"
	"github.com/golda-dev/golda/stage/stagetest"
	"github.com/golda-dev/golda/stage/stagetest/internal/oracle"
	"github.com/golda-dev/golda/window"
)

// The kinds of windows.
const (
	windowAll       = "all"
	windowBy        = "by"
	windowAggregate = "aggregate"
	windowJoin      = "join"
	windowTicket    = "ticket"
	windowDebounce  = "debounce"
	windowThrottle  = "throttle"
)

var windowKinds = []string{windowAll, windowBy, windowAggregate, windowJoin, windowTicket, windowDebounce, windowThrottle}

// Window makes a node a stage of package window, with a second stage behind it
// that opens the windows: it checks them and emits the commands in them. The
// zero Window makes none.
type Window struct {
	Kind  string // "all", "by", "aggregate", "join", "ticket" (of window.JoinTicket), "debounce" or "throttle"
	Count int    // the bounds, as in window.Bounds; Bytes has the size of a command be from 1 to 4
	Bytes int
	Held  int
	Time  time.Duration
	Every time.Duration
	Idle  time.Duration
	Fail  bool // of a join or a ticket, as in window.Parts
}

// isUnlimited reports whether no time closes the windows.
func (w Window) isUnlimited() bool {
	return w.Kind != "" && w.Time == 0 && w.Every == 0 && w.Idle == 0
}

// String returns the fields that are set, as text.
func (w Window) String() string {
	words := []string{w.Kind}
	for _, f := range []struct {
		name  string
		value any
		is    bool
	}{
		{"count", w.Count, w.Count > 0},
		{"bytes", w.Bytes, w.Bytes > 0},
		{"held", w.Held, w.Held > 0},
		{"time", w.Time, w.Time > 0},
		{"every", w.Every, w.Every > 0},
		{"idle", w.Idle, w.Idle > 0},
		{"fail", w.Fail, w.Fail},
	} {
		if f.is {
			words = append(words, fmt.Sprintf("%s=%v", f.name, f.value))
		}
	}
	return strings.Join(words, " ")
}

// latest reports whether only the last command of a window goes on.
func (w Window) latest() bool { return w.Kind == windowDebounce || w.Kind == windowThrottle }

func (w Window) bounds() window.Bounds[command] {
	b := window.Bounds[command]{Count: w.Count, Bytes: w.Bytes, Held: w.Held, Time: w.Time, Every: w.Every, Idle: w.Idle}
	if w.Bytes > 0 {
		b.Size = sizeOf
	}
	return b
}

func (w Window) parts() window.Parts[command] {
	return window.Parts[command]{Count: w.Count, Limit: w.Time, Fail: w.Fail, Held: w.Held}
}

// sizeOf is the size of a command.
func sizeOf(c command) int { return 1 + int(oracle.Mix(c.ID+7)%4) }

// aggregate is what a node with aggregates makes of its commands.
type aggregate struct {
	Count int
	Sum   uint64
	Cmds  []command
}

func (a aggregate) with(c command) aggregate {
	return aggregate{a.Count + 1, a.Sum + c.Sum, append(slices.Clip(a.Cmds), c)}
}

// opened is a window in the hands of the stage behind.
type opened struct {
	cmds  []command
	count int
	key   uint64
	keyed bool
	why   window.Cause
}

// window makes the stages of a node with windows. Connections are made when all
// stages are.
func (s *site) window(opts []stage.Option) *stage.Stage[command] {
	id, b, w := name(s.index), s.Window.bounds(), s.Window
	opts = append([]stage.Option{stage.Defaults(opts...)}, stage.Middleware(s.injector.Middleware)) // an aggregate has no Retry
	switch w.Kind {
	case windowAll:
		return behind(s, window.All(id, b, opts...), func(w window.Window[struct{}, []command]) opened {
			s.keyInWindow(w.Value[0])
			return opened{cmds: w.Value, count: w.Count, why: w.Why}
		})
	case windowAggregate:
		return behind(s, window.Aggregate(id, s.keyInWindow, s.addTo, b, opts...), func(w window.Window[uint64, aggregate]) opened {
			s.checkSum(w.Value)
			return opened{w.Value.Cmds, w.Count, w.Key, true, w.Why}
		})
	case windowJoin:
		return behind(s, window.Join(id, s.keyInWindow, w.parts(), opts...), openList)
	case windowTicket:
		return behind(s, window.JoinTicket(id, w.parts(), opts...), func(w window.Window[struct{}, []command]) opened {
			s.checkTicket(w)
			return opened{cmds: w.Value, count: w.Count, why: w.Why}
		})
	case windowDebounce:
		return behind(s, window.Debounce(id, s.keyInWindow, w.Idle, w.Time, opts...), openOne)
	case windowThrottle:
		return behind(s, window.Throttle(id, s.keyInWindow, w.Time, opts...), openOne)
	default:
		return behind(s, window.By(id, s.keyInWindow, b, opts...), openList)
	}
}

func openList(w window.Window[uint64, []command]) opened {
	return opened{w.Value, w.Count, w.Key, true, w.Why}
}

func openOne(c command) opened { return opened{cmds: []command{c}, count: 1, why: window.Full} }

// behind makes the stage behind a window.
func behind[T any](s *site, of *stage.Flow[command, T], open func(T) opened) *stage.Stage[command] {
	id := name(s.index) + ".open"
	opts := []stage.Option{stage.Restart(s.run.plan.restart())}
	if s.run.plan.Ordered {
		opts = append(opts, stage.Workers(1, 1), stage.Instances(1))
	}
	if s.Capacity > 0 {
		opts = append(opts, stage.Capacity(max(s.Capacity, 2)))
	}
	if len(s.Next) == 0 {
		sink := stage.Sink(id, func(_ context.Context, w T) error { return s.open(open(w), nil) }, opts...)
		of.To(sink)
		s.tail = sink
		return of.Stage
	}
	tail := stage.FlatMap(id, func(_ context.Context, w T, emit func(command) error) error { return s.open(open(w), emit) }, opts...)
	of.To(tail)
	s.tail, s.flows = tail, tail
	return of.Stage
}

// keyInWindow is the key function of a node with windows. It crashes for some
// commands if the node's faults have a Poison.
func (s *site) keyInWindow(c command) uint64 {
	s.run.intact(name(s.index)+", its key", c)
	s.poison(c.key() + 11)
	return keyOf(c)
}

// addTo adds a command to an aggregate.
func (s *site) addTo(a aggregate, c command) aggregate {
	s.run.intact(name(s.index)+", its sum", c)
	s.poison(c.key() + 12)
	return a.with(c)
}

func (s *site) poison(number uint64) {
	if s.Faults.Poison > 0 && oracle.Mix(number)%32 == 0 {
		s.badKeys.Add(1)
		panic(&stagetest.InjectedError{Fault: stagetest.Poison, Attempt: 1})
	}
}

// checkSum checks that an aggregate is the sum of its commands.
func (s *site) checkSum(a aggregate) {
	sum := uint64(0)
	for _, c := range a.Cmds {
		sum += c.Sum
	}
	if sum != a.Sum || a.Count != len(a.Cmds) {
		s.run.breachf(OneEnd, "stage %s: the sum of %d commands is %d of %d", name(s.index), len(a.Cmds), a.Sum, a.Count)
	}
}

// open checks a window, and emits the commands in it that go further.
func (s *site) open(w opened, emit func(command) error) error {
	s.checkWindow(w)
	if s.spoil == "lost" && len(w.cmds) > 1 {
		w.cmds = w.cmds[1:]
	}
	for _, c := range w.cmds {
		defer s.mark(c)()
	}
	var sent []command
	for _, c := range w.cmds {
		if emit == nil || c.Hops == 0 {
			continue
		}
		next := c.onward()
		err := emit(next)
		if s.run.emitted(name(s.index)+".open", err); err != nil {
			for _, c := range w.cmds { // only the first one's caller learns of it
				s.run.excuse(c.ID)
			}
			return err
		}
		sent = append(sent, next)
	}
	for _, next := range sent {
		s.sends(next)
	}
	return nil
}

// checkWindow checks that a window is within its bounds, and has the commands
// of one key.
func (s *site) checkWindow(w opened) {
	breachf := func(format string, args ...any) {
		s.run.breachf(OneEnd, "stage %s: a window of %d commands: %s", name(s.index), len(w.cmds), fmt.Sprintf(format, args...))
	}
	if len(w.cmds) == 0 || w.count != len(w.cmds) {
		breachf("it says %d", w.count)
	}
	size := 0
	for _, c := range w.cmds {
		s.run.intact(name(s.index)+", a window", c)
		size += sizeOf(c)
		if w.keyed && keyOf(c) != w.key {
			breachf("%+v has not its key %d", c, w.key)
		}
	}
	most := cmp.Or(s.Window.Count, len(w.cmds))
	switch {
	case s.Window.latest():
	case len(w.cmds) > most:
		breachf("there may be %d", most)
	case s.Window.Bytes > 0 && size > s.Window.Bytes && len(w.cmds) > 1:
		breachf("they have %d bytes of %d", size, s.Window.Bytes)
	case w.why == window.Full && len(w.cmds) < most && s.Window.Bytes == 0:
		breachf("it is full, and there may be %d", most)
	case w.why != window.Full && s.Window.Fail:
		breachf("it was to fail")
	case w.why == window.Short && s.Window.Kind == windowTicket:
	case w.why != window.Full && w.why != window.Due && w.why != window.Early:
		breachf("it was closed for no reason: %q", w.why)
	}
}

// checkTicket checks that the commands of a group came of one that was
// submitted. If the group is complete because nothing else of that is left, it
// is noted, so that nothing else is handled from then on.
func (s *site) checkTicket(w window.Window[struct{}, []command]) {
	if !s.run.plan.ticketsAreIDs() {
		return
	}
	first := w.Value[0]
	for _, c := range w.Value {
		if c.ID != first.ID {
			s.run.breachf(OneEnd, "stage %s: a group of one ticket has commands %d and %d", name(s.index), first.ID, c.ID)
		}
	}
	if w.Why == window.Full && s.Window.Count == 0 || s.spoil == "whole" {
		s.run.completes(first.ID, s.index)
	}
}

// ticketsAreIDs reports whether commands have the same ticket if and only if
// they have the same ID: not if the commands in a window go on with the ticket
// of the first, if handlers submit commands, or if commands of one process come
// again in the next.
func (p Plan) ticketsAreIDs() bool {
	windows := 0
	for _, n := range p.Graph.Nodes {
		if n.Calls {
			return false
		}
		if n.Window.Kind != "" {
			windows++
		}
	}
	return windows == 1 && len(p.Feeds) == 0
}

// completes notes that a group is all that is left of a command.
func (r *run) completes(id uint64, site int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.complete == nil {
		r.complete = map[uint64]int{}
	}
	r.complete[id] = site
}

// checkComplete checks that a command that is about to be handled was not
// missing in a group that was complete.
func (r *run) checkComplete(s *site, cmd command) {
	r.mu.Lock()
	group, complete := r.complete[cmd.ID]
	complete = complete && !r.excused[cmd.ID]
	r.mu.Unlock()
	if complete && !r.plan.Graph.leads(group, s.index, map[int]bool{}) {
		r.breachf(OneEnd, "stage %s: command %+v is handled, and the group of its ticket in %s was complete", name(s.index), cmd, name(group))
	}
}

// superseded returns how many commands were done at the stage without going
// further: in favour of later ones.
func (s *site) superseded(st stage.Snapshot) uint64 {
	if s.Window.latest() {
		return st.Counts.OK
	}
	return 0
}

// countSuperseded checks that no more commands were superseded than have not
// been seen behind the window.
func (s *site) countSuperseded(st stage.Snapshot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	missing := 0
	for cmd, due := range s.due {
		missing += due - s.done[cmd]
	}
	if n := s.superseded(st); n > uint64(missing) {
		return fmt.Errorf("stage %s: %d commands were done in favour of later ones, and %d did not go on", st.Name, n, missing)
	}
	return nil
}

// commandsOf returns the commands in a window that is in a letter or an error.
func commandsOf(w any) []command {
	switch w := w.(type) {
	case window.Window[uint64, aggregate]:
		return w.Value.Cmds
	case window.Window[uint64, []command]:
		return w.Value
	case window.Window[struct{}, []command]:
		return w.Value
	default:
		return nil
	}
}
