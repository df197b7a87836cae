// Package stall finds the stages of a pipeline in which commands wait and
// nothing moves, and names the cause of each wait.
//
// A stage that is still is no stall yet: its handler may work for long, its
// stage may be paused, or commands may wait for a rate, a guard or a retry. So
// [Watch] needs two things: counts, which it sees every second, and stacks,
// which it asks for when a stage has been still for half a minute, and again
// after a minute. Stacks stop the world, so it asks for them the less often the
// longer a stage is still.
//
// A stage stalls if it is still and each of its handlers waits for a stage that
// stalls, or is blocked where it was half a minute ago. See
// docs/decisions/crashes.md.
package stall

import (
	"bytes"
	"hash/fnv"
	"slices"
	"time"

	"github.com/golda-dev/golda/internal/engine"
)

const (
	// After is for how long nothing must have happened in a stage before it
	// counts as stalled.
	After = time.Minute
	// suspectAfter is when the first stacks are taken, which the next ones are
	// compared with.
	suspectAfter = After / 2
	// leastOften is the longest pause between two looks at the stacks.
	leastOften = 16 * time.Minute
)

// Stage is a stage as a [Watch] sees it.
type Stage struct {
	Name  string
	Moved uint64 // grows when a handler has done something
	Works bool   // the stage has commands, and is neither paused nor being drained

	Waiting int           // commands, callers and workers that wait for the stage's handlers
	Due     int           // commands that a worker could take
	Limited bool          // the stage ends handlers that take too long
	Longest time.Duration // how long nearly all commands took there so far; look fills it in
	Pool    string        // the shared pool whose workers visit the stage; empty for its own
}

// Stall is a group of stages that wait for each other, or for the same handler,
// and in which nothing moves.
type Stall struct {
	Stages []string      // in the order of the pipeline
	Waits  []string      // for stages, slots and locks, as [Lines] says it
	Circle []string      // see [Circle]; nil if they do not wait in one
	For    time.Duration // since something has moved
}

// Watch finds stalls. It is not for concurrent use. The zero Watch is ready.
type Watch struct {
	still  map[string]*stillness // of each stage
	stacks map[string]uint64     // fingerprints of the handlers' stacks when they were last looked at, by goroutine
	stalls []*Stall              // reported and not over
}

// stillness is how long a stage has stood still.
type stillness struct {
	moved uint64
	still time.Duration // for how long nothing has moved, though there was work
	look  time.Duration // of still, when the stacks are looked at next
}

// Observe shows the stages to the watch, in the order of the pipeline. Passed
// is the time since the last call. It calls look, which returns the handlers
// with their stacks and fills in Longest, if a stage has been still for long.
// It returns the stalls that have begun and the stalls that are over.
func (w *Watch) Observe(passed time.Duration, stages []Stage, look func([]Stage) []engine.Stuck) (begun, over []Stall) {
	due := w.note(passed, stages)
	w.stalls = slices.DeleteFunc(w.stalls, func(s *Stall) bool {
		s.For += passed
		if slices.ContainsFunc(s.Stages, w.suspect) {
			return false
		}
		over = append(over, *s)
		return true
	})
	if due {
		begun = w.examine(stages, look(stages))
	}
	return begun, over
}

// suspect reports whether a stage has been still for so long that it may be
// part of a stall.
func (w *Watch) suspect(name string) bool {
	s := w.still[name]
	return s != nil && s.still >= suspectAfter
}

// note notes which stages have moved, and reports whether the stacks must be
// looked at.
func (w *Watch) note(passed time.Duration, stages []Stage) (due bool) {
	before := w.still
	w.still = map[string]*stillness{}
	for i := range stages {
		st := &stages[i]
		s := before[st.Name]
		if s == nil || s.moved != st.Moved || !st.Works {
			if !st.Works {
				continue
			}
			s = &stillness{moved: st.Moved, look: suspectAfter}
		} else if s.still += passed; s.still >= s.look {
			due = true
			s.look += min(s.look, leastOften)
		}
		w.still[st.Name] = s
	}
	return due
}

// examine returns the stalls that have begun.
func (w *Watch) examine(stages []Stage, handlers []engine.Stuck) (begun []Stall) {
	handlers = append(handlers, starved(stages, handlers)...)
	blocked := w.compare(handlers)
	stuck := w.stuck(stages, handlers, blocked)
	for len(stuck) > 0 {
		group := connected(stuck, handlers)
		var of []engine.Stuck
		for _, h := range handlers {
			if slices.Contains(group, h.Stage) {
				of = append(of, h)
			}
		}
		stuck = slices.DeleteFunc(stuck, func(name string) bool { return slices.Contains(group, name) })
		if s := w.report(stages, group, of); s != nil {
			begun = append(begun, *s)
		}
	}
	return begun
}

// report returns the stall of a group of stages, unless it is none or was
// reported before.
func (w *Watch) report(stages []Stage, group []string, handlers []engine.Stuck) *Stall {
	for _, s := range w.stalls {
		if slices.ContainsFunc(group, func(name string) bool { return slices.Contains(s.Stages, name) }) {
			for _, name := range group { // a stage that has come to wait for them
				if !slices.Contains(s.Stages, name) {
					s.Stages = append(s.Stages, name)
				}
			}
			return nil
		}
	}
	s := &Stall{Stages: group, Circle: Circle(handlers)}
	waiting := 0
	for i := range stages {
		if slices.Contains(group, stages[i].Name) {
			waiting += stages[i].Waiting
			s.For = max(s.For, w.still[stages[i].Name].still)
		}
	}
	if s.For < After || waiting == 0 && s.Circle == nil {
		return nil
	}
	s.Waits = Lines(handlers)
	w.stalls = append(w.stalls, s)
	reported := *s
	return &reported
}

// stuck returns the stages that are still and have no handler that may go on by
// itself, or wait for a stage that may.
func (w *Watch) stuck(stages []Stage, handlers []engine.Stuck, blocked []bool) (stuck []string) {
	of := map[string]*Stage{}
	for i := range stages {
		if st := &stages[i]; w.suspect(st.Name) && slices.ContainsFunc(handlers, func(h engine.Stuck) bool { return h.Stage == st.Name }) {
			of[st.Name] = st
			stuck = append(stuck, st.Name)
		}
	}
	goesOn := func(i int) bool {
		h := &handlers[i]
		st := of[h.Stage]
		switch {
		case h.Awaited != "":
			return !slices.Contains(stuck, h.Awaited)
		case h.Waits != "", h.Suspended, st.Limited, h.For <= 2*st.Longest:
			return true
		}
		return !blocked[i]
	}
	for changed := true; changed; {
		changed = false
		for i := range handlers {
			at := slices.Index(stuck, handlers[i].Stage)
			if at >= 0 && goesOn(i) {
				stuck, changed = slices.Delete(stuck, at, at+1), true
			}
		}
	}
	return stuck
}

// starved returns the waits of stages that have no handler because the workers
// of their shared pool are at other stages.
func starved(stages []Stage, handlers []engine.Stuck) (more []engine.Stuck) {
	has := map[string]bool{}
	for _, h := range handlers {
		has[h.Stage] = true
	}
	for _, st := range stages {
		if st.Pool == "" || st.Due == 0 || has[st.Name] {
			continue
		}
		for _, other := range stages {
			if other.Pool == st.Pool && has[other.Name] {
				more = append(more, engine.Stuck{Stage: st.Name, Waits: "a worker of pool " + st.Pool + ", which is at stage " + other.Name, Awaited: other.Name})
			}
		}
	}
	return more
}

// connected returns the stages of a list that wait for each other, directly or
// not, among them the first one.
func connected(list []string, handlers []engine.Stuck) []string {
	in := map[string]bool{list[0]: true}
	for grown := true; grown; {
		grown = false
		for _, h := range handlers {
			from, to := slices.Contains(list, h.Stage), slices.Contains(list, h.Awaited)
			if from && to && in[h.Stage] != in[h.Awaited] {
				in[h.Stage], in[h.Awaited], grown = true, true, true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(list), func(name string) bool { return !in[name] })
}

// compare reports which of the handlers are blocked where they were when the
// stacks were last looked at.
func (w *Watch) compare(handlers []engine.Stuck) []bool {
	last := w.stacks
	w.stacks = make(map[string]uint64, len(handlers))
	blocked := make([]bool, len(handlers))
	for i, h := range handlers {
		goroutine, state, frames := split(h.Stack)
		if goroutine == "" || !isBlocked(state) {
			continue
		}
		f := fnv.New64a()
		_, _ = f.Write(frames) // a hash never fails
		w.stacks[goroutine] = f.Sum64()
		before, known := last[goroutine]
		blocked[i] = known && before == f.Sum64()
	}
	return blocked
}

// split returns the parts of a stack: "goroutine 7", the state, and the frames
// with their arguments. A batch of commands that are handled one after the
// other at the same place has other arguments for each.
func split(stack []byte) (goroutine, state string, frames []byte) {
	head, frames, _ := bytes.Cut(stack, []byte("\n"))
	name, in, ok := bytes.Cut(head, []byte(" ["))
	if !ok {
		return "", "", nil
	}
	return string(name), string(in), frames
}

// blockedStates lists how the states of goroutines begin that only another
// goroutine, or a peer, can continue. One that computes or sleeps goes on by
// itself.
var blockedStates = []string{"chan ", "select", "sync.", "semacquire", "IO wait"}

func isBlocked(state string) bool {
	return slices.ContainsFunc(blockedStates, func(s string) bool { return len(state) >= len(s) && state[:len(s)] == s })
}
