package main

import "context"

// parcel is the command of most works. It goes from stage to stage by pointer.
type parcel struct {
	id    int
	reply chan struct{} // where who asked for it waits; nil if nobody did
	photo *photo        // what W10 works on; nil elsewhere
}

// answer tells whoever asked for the parcel that it has left the last stage.
func (p *parcel) answer() {
	if p.reply != nil {
		p.reply <- struct{}{}
	}
}

// block is the command of W9: a kilobyte, which goes by pointer or by value.
type block [1024]byte

// shape is what an implementation is asked to build: stages in a row.
type shape[C any] struct {
	steps    []step[C]
	capacity int         // commands that wait before each stage, if the implementation has bounds
	deal     func(C) int // where a step has several lanes: which of them takes the command
	end      func(C)     // to be called once for each command that leaves the last stage, by any goroutine
	answers  bool        // who called wants the command back as the result
	codec    codec[C]    // for those that carry nothing but bytes
}

// step is one stage, or several of a kind side by side.
type step[C any] struct {
	name    string
	workers int
	lanes   int     // 0 and 1: one stage
	do      func(C) // the work; may be called by several goroutines at once
}

// width is the number of stages that a step has side by side.
func (s step[C]) width() int { return max(1, s.lanes) }

// lane says which of the stages of step i a command goes to.
func (s shape[C]) lane(i int, c C) int {
	if s.steps[i].lanes <= 1 {
		return 0
	}
	return s.deal(c) % s.steps[i].lanes
}

// last reports whether a step is the last one.
func (s shape[C]) last(i int) bool { return i == len(s.steps)-1 }

// codec turns commands into bytes and back.
type codec[C any] struct {
	encode func(C) []byte
	decode func([]byte) C
}

// line is what an implementation has built and started.
type line[C any] struct {
	// submit hands in a command, and waits for room if the implementation has bounds. One
	// goroutine submits, but in W5 and W6, where each request has its own.
	submit func(C) error
	// call hands in a command and waits for its end, the way that the implementation's
	// users would; many may call at once. An error is an answer too, unless ctx has ended. nil:
	// there is no such way, and the command brings a channel for the reply.
	call func(context.Context, C) error
	// flush hands on what submit has kept back; nil: it keeps nothing.
	flush func()
	// spread does all the work of n commands instead of submit; nil: there is a line.
	spread func(n int, next func(i int) C)
	// stop ends what was started, once all commands have ended.
	stop func()
	// watch is called once the measurement begins and returns what ends the watching; nil: nobody watches.
	watch func() (done func())
}

// ask calls the line, with a channel in the command if it has no better way.
func ask(ctx context.Context, l line[*parcel], p *parcel) error {
	if l.call != nil {
		return l.call(ctx, p)
	}
	p.reply = make(chan struct{}, 1)
	if err := l.submit(p); err != nil {
		return err
	}
	if l.flush != nil {
		l.flush()
	}
	select {
	case <-p.reply:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
